"""Which columns of a table hold the edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rfp.errors import ArgumentError, GraphError
from rfp.io.options import ReadOptions

SOURCE_NAMES = ("source", "src", "from", "u", "node1", "node_1", "id1", "id_1", "fromnodeid", "source_id")
TARGET_NAMES = ("target", "dst", "to", "v", "node2", "node_2", "id2", "id_2", "tonodeid", "target_id")
WEIGHT_NAMES = ("weight", "w", "edge_weight", "value")


@dataclass(frozen=True)
class Columns:
    """Positions of the columns that hold source, target and (if any) weight."""

    source: int
    target: int
    weight: int | None

    @property
    def used(self) -> tuple[int, ...]:
        return (self.source, self.target) + (() if self.weight is None else (self.weight,))


def choose_columns(names: Sequence[str] | None, count: int, options: ReadOptions, file: str) -> Columns:
    """Pick the columns: those asked for, else those with a usual name, else the first two (and the third as weight).

    Args:
        names: Names of the columns, or ``None`` if the file does not name them.
        count: Number of columns.
        options: What was asked for.
        file: Name of the file, for errors.

    Returns:
        The positions. Columns that are neither asked for, nor named as a weight, nor the only third column of a table
        without usual names, are not used.

    Example:
        >>> choose_columns(["time", "dst", "src"], 3, ReadOptions(), "edges.csv")
        Columns(source=2, target=1, weight=None)
        >>> choose_columns(None, 3, ReadOptions(), "edges.csv")
        Columns(source=0, target=1, weight=2)
    """
    if count < 2:
        raise GraphError(f"{file} has {count} column; expected two (source, target) or three (source, target, weight)")
    lower = [] if names is None else [name.strip().lower() for name in names]
    asked_source = _asked(options.source_column, names, count, "--source-column", file)
    asked_target = _asked(options.target_column, names, count, "--target-column", file)
    weight = _asked(options.weight_column, names, count, "--weight-column", file)
    if weight is not None and options.unweighted:
        raise ArgumentError("--weight-column and --unweighted contradict each other: give one of them")
    source = _named(lower, SOURCE_NAMES) if asked_source is None else asked_source
    target = _named(lower, TARGET_NAMES) if asked_target is None else asked_target
    by_name = source is not None and target is not None
    if weight is None:
        weight = _named(lower, WEIGHT_NAMES)
    if source is None:
        source = _first_free(count, target, weight)
    if target is None:
        target = _first_free(count, source, weight)
    if source is None or target is None or len({source, target, weight}) < 3:
        raise GraphError(
            f"{file}: source, target and weight must be different columns, got {_describe(names, source)}, "
            f"{_describe(names, target)}, {_describe(names, weight)}; say which with --source-column, --target-column, "
            "--weight-column"
        )
    if weight is None and not by_name:
        if count > 3 and not options.unweighted:
            raise GraphError(
                f"{file} has {count} columns; expected two or three, or say which to use with --source-column 1 "
                "--target-column 2 --weight-column 3 (or --unweighted)"
            )
        weight = _first_free(count, source, target)
    return Columns(source, target, None if options.unweighted else weight)


def _asked(choice: str | None, names: Sequence[str] | None, count: int, option: str, file: str) -> int | None:
    if choice is None:
        return None
    if names is not None and choice in names:
        return list(names).index(choice)
    if choice.isascii() and choice.isdigit() and 1 <= int(choice) <= count:
        return int(choice) - 1
    has = f"1 to {count}" if names is None else ", ".join(names)
    raise ArgumentError(f"{option} {choice}: {file} has no such column; it has {has}")


def _named(lower: Sequence[str], known: Sequence[str]) -> int | None:
    return next((lower.index(name) for name in known if name in lower), None)


def _first_free(count: int, *taken: int | None) -> int | None:
    return next((i for i in range(count) if i not in taken), None)


def _describe(names: Sequence[str] | None, position: int | None) -> str:
    if position is None:
        return "none"
    return str(position + 1) if names is None else repr(names[position])
