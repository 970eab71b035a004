"""From the ids in a file to the node numbers of a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.edge_table.table_options import NodeIds
from rfp.errors import GraphError

# Ids up to this many times the number of edge ends are numbered with a table; larger ones are sorted.
_TABLE_PER_END = 8

# Says where a row of the file is: "edges.csv, line 17".
Where = Callable[[int], str]


def number_integers(
    ends: NDArray[np.int64], num_nodes: int | None, where: Where
) -> tuple[NDArray[np.int64], int, NodeIds | None]:
    """Number integer ids: as they are when ``num_nodes`` is given, else the distinct ones in ascending order.

    Args:
        ends: Source and target id of each edge, ``[2, m]``.
        num_nodes: See :class:`~rfp.edge_table.table_options.TableOptions`.
        where: Place of an edge in the file, for errors.

    Returns:
        Node numbers ``[2, m]``, the number of nodes, and the ids if they are not 0 to n - 1.

    Example:
        >>> number_integers(np.array([[7, 3], [3, 9]]), None, str)
        (array([[1, 0],
               [0, 2]]), 3, array([3, 7, 9]))
    """
    if ends.size and int(ends.min()) < 0:
        row = int(np.flatnonzero((ends < 0).any(axis=0))[0])
        raise GraphError(
            f"{where(row)}: node id {int(ends[:, row].min())} is negative; expected integers from 0 on, or --ids text"
        )
    if num_nodes is not None:
        _check_range(ends, num_nodes, where)
        return ends, num_nodes, None
    if not ends.size:
        return ends, 0, None
    high = int(ends.max())
    if high >= _TABLE_PER_END * ends.size:
        ids, numbers = np.unique(ends, return_inverse=True)
        return numbers.reshape(ends.shape), len(ids), ids
    present = np.zeros(high + 1, dtype=bool)
    present[ends] = True
    if present.all():
        return ends, high + 1, None
    return (np.cumsum(present) - 1)[ends], int(present.sum()), np.flatnonzero(present)


def _check_range(ends: NDArray[np.int64], num_nodes: int, where: Where) -> None:
    if ends.size and int(ends.max()) >= num_nodes:
        row = int(np.flatnonzero((ends >= num_nodes).any(axis=0))[0])
        raise GraphError(
            f"{where(row)}: node id {int(ends[:, row].max())} is out of range for --num-nodes {num_nodes}, "
            f"expected 0 to {num_nodes - 1}; give a larger --num-nodes, or leave it out"
        )


def numbers_of(column: Any) -> NDArray[Any]:
    """The numbers of an Arrow column, missing ones as NaN.

    By DLPack where none is missing, for Arrow's own ``to_numpy`` loads pandas, which takes longer than reading a small
    file.
    """
    if column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    pieces = [np.from_dlpack(piece) for piece in getattr(column, "chunks", [column])]
    return np.concatenate([np.empty(0, column.type.to_pandas_dtype()), *pieces]) if len(pieces) != 1 else pieces[0]


def number_texts(source: Any, target: Any) -> tuple[NDArray[np.int64], int, NodeIds]:
    """Number text ids in order of first appearance, edge by edge, source before target.

    Args:
        source: Arrow array of strings, ``[m]``.
        target: The same.

    Returns:
        Node numbers ``[2, m]``, the number of nodes and their ids.

    Costs O(m) by hashing.
    """
    import pyarrow as pa

    encoded = pa.concat_arrays([source, target]).dictionary_encode()
    # Arrow numbers all sources before all targets: renumber by the first edge end at which each id appears.
    codes = numbers_of(encoded.indices).reshape(2, -1).astype(np.int64)
    in_order = codes.T.ravel()
    first = np.empty(len(encoded.dictionary), dtype=np.int64)
    first[in_order[::-1]] = np.arange(len(in_order))[::-1]  # of several assignments the last one holds
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    ids = encoded.dictionary.to_numpy(zero_copy_only=False)[order]
    return number[codes], len(ids), ids


# As the id is written by every program; 007, +7 and 0x7 are names.
_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"
_ANY_INTEGER = r"^[+-]?[0-9]+(\.0*)?$"
# An integer as programs write it that hold numbers with decimals: 7.0, 7.000e+00.
_DECIMAL = r"^[+-]?[0-9]+(\.0*|(\.[0-9]*)?[eE]\+?[0-9]+)$"
# What programs write for an id that is missing. Among names NA may be one.
_MISSING = r"^(?i:nan|na|n/a|<na>|none|null|nil)$"
# Control characters, and spaces that are not the blank: at an end of an id nobody sees them.
_CONTROL = r"[\x00-\x1f\x7f\x{80}-\x{9f}]"
_SPACE = r"[\x{a0}\x{1680}\x{2000}-\x{200b}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]"


def as_integers(texts: list[Any], ids: str | None, where: Where) -> NDArray[np.int64] | None:
    """Source and target ids as integers ``[2, m]``, or ``None`` if one of them is not one.

    Args:
        texts: Arrow arrays of strings, source and target.
        ids: ``"int"`` asks for integers, however they are written (007 and 7.0 are 7); ``"text"`` for none.
        where: Place of an edge in the file, for errors.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if ids == "text":
        return None
    pattern = _ANY_INTEGER if ids == "int" else _INTEGER
    if all(pc.all(pc.match_substring_regex(column, pattern)).as_py() for column in texts):
        plain = [pc.replace_substring_regex(column, r"^\+|\.0*$", "") for column in texts] if ids == "int" else texts
        with suppress(pa.ArrowInvalid):  # larger than 64 bits
            return np.stack([column.cast(pa.int64()).to_numpy(zero_copy_only=False) for column in plain])
    if ids is None:
        return None
    for row in range(len(texts[0])):
        for text in (texts[0][row].as_py(), texts[1][row].as_py()):
            if not re.fullmatch(r"[+-]?[0-9]{1,18}(\.0*)?", text):
                raise GraphError(
                    f"{where(row)}: node id {shown(text)} is not an integer of 64 bits, which --ids int asks for"
                )
    raise GraphError(f"{where(0)}: the node ids are not integers, which --ids int asks for")


def first_text(source: Any, target: Any) -> tuple[int, str]:
    """The row and the id that keep the ids from being integers."""
    import pyarrow.compute as pc

    bad = [~pc.match_substring_regex(column, _INTEGER).to_numpy(zero_copy_only=False) for column in (source, target)]
    rows = np.flatnonzero(bad[0] | bad[1])
    row = int(rows[0]) if len(rows) else 0  # all look like integers: one is too large
    return row, (source if bad[0][row] or not len(rows) else target)[row].as_py()


def doubtful_texts(*, blanks_separate: bool, any_text: bool) -> list[tuple[str, str]]:
    """Patterns (of RE2) of text ids in which a mistake would not be seen, each with what to say of such an id."""
    doubts = [
        ("^$", "a node id is empty; correct or remove the line"),
        (_CONTROL, "node id {} holds a control character; remove it"),
        (
            _SPACE if blanks_separate else f"^{_SPACE}|{_SPACE}$",
            "node id {} holds a space that is not a blank, such as U+00A0; write a blank, or remove it",
        ),
    ]
    if not any_text:
        doubts.append(
            (
                r"^\{",
                "{} is no node id: it looks like a list that networkx.write_multiline_adjlist wrote; write it with "
                "networkx.write_edgelist (or give --ids text)",
            )
        )
    return doubts


def check_texts(source: Any, target: Any, where: Where, *, blanks_separate: bool, any_text: bool) -> None:
    """Refuse text ids in which a mistake would not be seen.

    Args:
        source: Arrow array of strings, ``[m]``.
        target: The same.
        where: Place of an edge in the file, for errors.
        blanks_separate: Whether blanks separate the columns: then any other space may have been meant to.
        any_text: The ids were said to be text: a brace may begin one.
    """
    import pyarrow.compute as pc

    doubts = doubtful_texts(blanks_separate=blanks_separate, any_text=any_text)
    ends = (source, target)
    distinct = [pc.unique(column) for column in ends]
    for pattern, advice in doubts:
        if not any(pc.any(pc.match_substring_regex(names, pattern)).as_py() for names in distinct):
            continue
        row, text = _first_match(ends, pattern)
        raise GraphError(f"{where(row)}: {advice.format(shown(text))}")


def kinds_of_ids(source: Any, target: Any, where: Where) -> dict[str, str]:
    """Which kinds of text ids there are, with the place of the first that is or could be a number.

    Args:
        source: Arrow array of strings, ``[m]``.
        target: The same.
        where: Place of an edge in the file.

    >>> import pyarrow as pa
    >>> kinds_of_ids(pa.array(["1", "2"]), pa.array(["2", "nan"]), lambda row: f"f, line {row + 1}")
    {'integer': "f, line 1: node id '1'", 'missing': "f, line 2: node id 'nan'"}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = (source, target)
    rest = pa.concat_arrays([pc.unique(column) for column in ends])
    found = {}
    for kind, pattern in (("integer", _INTEGER), ("decimal", _DECIMAL), ("missing", _MISSING)):
        matches = pc.match_substring_regex(rest, pattern)
        if pc.any(matches).as_py():
            row, text = _first_match(ends, pattern)
            found[kind] = f"{where(row)}: node id {shown(text)}"
            rest = rest.filter(pc.invert(matches))
    return {**found, "text": ""} if len(rest) else found


def _first_match(ends: Sequence[Any], pattern: str) -> tuple[int, str]:
    """The first row with an id of a pattern that one has, and the id."""
    import pyarrow.compute as pc

    bad = np.stack([pc.match_substring_regex(column, pattern).to_numpy(zero_copy_only=False) for column in ends])
    row = int(np.flatnonzero(bad.any(axis=0))[0])
    return row, ends[0 if bad[0, row] else 1][row].as_py()


def constant_mark(texts: Sequence[Any]) -> tuple[int, str] | None:
    """The side (0 or 1) on which every row has the same text beside integers, and the text: ``0 -> 1``, ``e 1 2``.

    Args:
        texts: Arrow arrays of strings, source and target.
    """
    import pyarrow.compute as pc

    for side in (1, 0):
        names = pc.unique(texts[side])
        name = names[0].as_py() if len(names) == 1 else "0"
        if not re.fullmatch(_INTEGER, name) and pc.all(pc.match_substring_regex(texts[1 - side], _INTEGER)).as_py():
            return side, name
    return None


def doubtful_kinds(kinds: Mapping[str, str]) -> GraphError | None:
    """The error for ids of several kinds (:func:`kinds_of_ids`) that would be nodes nobody meant."""
    if "text" in kinds:
        return None
    if "missing" in kinds and len(kinds) > 1:
        return GraphError(
            f"{kinds['missing']} stands for a missing value, for all others are numbers; correct or remove the line, "
            "or take it for a name with --ids text"
        )
    if {"integer", "decimal"} <= kinds.keys():
        return GraphError(
            f"{kinds['decimal']} is a number with decimals and others have none, so 1 and 1.0 would be two nodes; say "
            "--ids int (1.0 is 1) or --ids text"
        )
    return None


def shown(text: str) -> str:
    """A field of a file in a message: quoted, and cut if it is long."""
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}... ({len(text):,} characters)"


def simplified_ids(ids: list[str]) -> NodeIds | None:
    """Text ids that are really numbers become numbers, and 0 to n - 1 in order becomes ``None``.

    >>> simplified_ids(["0", "1"]), simplified_ids(["5", "3"]), simplified_ids(["01", "a"])
    (None, array([5, 3]), array(['01', 'a'], dtype=object))
    """
    if all(name.isascii() and name.isdigit() and len(name) < 19 and str(int(name)) == name for name in ids):
        numbers = np.array([int(name) for name in ids], dtype=np.int64)
        return None if np.array_equal(numbers, np.arange(len(ids))) else numbers
    return np.array(ids, dtype=object)


def check_weights(weight: NDArray[np.float64], where: Where) -> None:
    """Raise for the first weight that is NaN or infinite."""
    bad = np.flatnonzero(~np.isfinite(weight))
    if len(bad):
        raise GraphError(
            f"{where(int(bad[0]))}: weight {weight[bad[0]]} is not finite; correct or remove the edge, "
            "or ignore all weights with --unweighted"
        )
