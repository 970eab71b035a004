"""Which columns of a table hold the edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rfp.edge_table.node_ids import shown
from rfp.edge_table.table_options import TableOptions
from rfp.errors import ArgumentError, GraphError

SOURCE_NAMES = ("source", "src", "from", "u", "node1", "node_1", "id1", "id_1", "fromnodeid", "source_id")
TARGET_NAMES = ("target", "dst", "to", "v", "node2", "node_2", "id2", "id_2", "tonodeid", "target_id")
WEIGHT_NAMES = ("weight", "w", "edge_weight", "value")
# What pandas and R call the numbers of the rows when they write them out, and read them again.
INDEX_NAMES = ("", "unnamed: 0")
# Gephi's column of Directed and Undirected.
DIRECTION_NAME = "type"


@dataclass(frozen=True)
class Columns:
    """Positions of the columns that hold source, target and (if any) weight; ``direction`` may hold Gephi's type."""

    source: int
    target: int
    weight: int | None
    direction: int | None = None

    @property
    def used(self) -> tuple[int, ...]:
        return (self.source, self.target) + (() if self.weight is None else (self.weight,))


def choose_columns(names: Sequence[str] | None, count: int, options: TableOptions, file: str) -> Columns:
    """Pick the columns: those asked for, else those with a usual name, else by position where that leaves no doubt.

    Args:
        names: Names of the columns, or ``None`` if the table does not name them.
        count: Number of columns.
        options: What was asked for.
        file: Name of the file, for errors.

    Returns:
        The positions. Of a table with names, a weight is what has the name of a weight; without names a third of three
        columns is one.

    Raises:
        GraphError: The table has other columns, and it is not known which of them are the ids.

    Example:
        >>> choose_columns(["time", "dst", "src"], 3, TableOptions(), "edges.csv")
        Columns(source=2, target=1, weight=None, direction=None)
        >>> choose_columns(None, 3, TableOptions(), "edges.csv")
        Columns(source=0, target=1, weight=2, direction=None)
    """
    if count < 2:
        raise GraphError(
            f"{file} has {count} column; expected two (source, target) or three (source, target, weight), separated by "
            "tabs, commas, semicolons or blanks, or by what --delimiter says"
        )
    lower = [] if names is None else [name.strip().lower() for name in names]
    source = _asked(options.source, names, count, "--source", file)
    target = _asked(options.target, names, count, "--target", file)
    weight = _asked(options.weight, names, count, "--weight", file)
    source = _named(lower, SOURCE_NAMES, file) if source is None else source
    target = _named(lower, TARGET_NAMES, file) if target is None else target
    weight = _named(lower, WEIGHT_NAMES, file) if weight is None and not options.unweighted else weight
    if source is None or target is None:
        source, target, weight = _by_position(names, lower, count, (source, target, weight), options, file)
    if source == target or weight in (source, target):
        told = ", ".join(describe_column(names, position) for position in (source, target, weight))
        raise GraphError(
            f"{file}: source, target and weight must be different columns, got {told}; say which with --source, "
            "--target and --weight"
        )
    direction = _named(lower, (DIRECTION_NAME,), file)
    return Columns(source, target, weight, None if direction in (source, target, weight) else direction)


def _by_position(
    names: Sequence[str] | None,
    lower: Sequence[str],
    count: int,
    known: tuple[int | None, int | None, int | None],
    options: TableOptions,
    file: str,
) -> tuple[int, int, int | None]:
    """The ids are the columns that are left, if those are as many as are missing."""
    source, target, weight = known
    index = 0 if lower and lower[0] in INDEX_NAMES else None
    # A column that is called a weight is no id, also where weights are not asked for.
    called = _named(lower, WEIGHT_NAMES, file) if options.unweighted else None
    free = [i for i in range(count) if i not in (*known, index, called)]
    missing = (source is None) + (target is None)
    third = names is None and weight is None and not options.unweighted  # without names, a third column is the weight
    if len(free) == missing + 1 and third:
        weight = free.pop()
    elif names is None and options.unweighted:
        free = free[:missing]
    if len(free) != missing:
        expected = "two or three" if names is None else "two, or usual names such as source, target and weight"
        has = "" if names is None else f" ({', '.join(map(shown, names))})"
        raise GraphError(
            f"{file} has {count} columns{has}; expected {expected}: say which to use with --source 1 --target 2 "
            "(and --weight 3, or --unweighted)"
        )
    if source is None:
        source = free.pop(0)
    return source, free.pop(0) if target is None else target, weight


def _asked(choice: str | None, names: Sequence[str] | None, count: int, option: str, file: str) -> int | None:
    if choice is None:
        return None
    if names is not None and choice in names:
        if list(names).count(choice) > 1:
            raise ArgumentError(f"{option} {choice}: {file} has several columns of this name; give its number from 1")
        return list(names).index(choice)
    if choice.isascii() and choice.isdigit() and len(choice) < 10 and 1 <= int(choice) <= count:
        return int(choice) - 1
    has = f"1 to {count}" if names is None else ", ".join(names)
    raise ArgumentError(f"{option} {choice}: {file} has no such column; it has {has}")


def _named(lower: Sequence[str], known: Sequence[str], file: str) -> int | None:
    found = [i for i, name in enumerate(lower) if name in known]
    if len(found) > 1:
        several = sorted({lower[i] for i in found})
        alike = f"{len(found)} columns named {several[0]!r}"
        told = f"columns {' and '.join(map(repr, several))}, which mean the same" if several[1:] else alike
        raise GraphError(
            f"{file} has {told}; say which to use with --source, --target and --weight, by their numbers from 1"
        )
    return found[0] if found else None


def describe_column(names: Sequence[str] | None, position: int | None) -> str:
    """A column for people: its name in quotes, or its number from 1."""
    if position is None:
        return "none"
    return str(position + 1) if names is None else shown(names[position])
