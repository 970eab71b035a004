"""Integer ids and weights of a short text file, without Arrow: loading that takes longer than reading such a file."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from rfp.io.dialect import Dialect

# Bytes up to which a file is short: a thousandth of a second for each 10 kB, where Arrow takes 0.2 s to load.
FEW_BYTES = 1 << 17
# Just what means the same to Arrow and to Python: no sign but a minus, nothing beyond 64 bits, nothing near infinity.
_ID = rb"(-?[0-9]{1,18})"
_WEIGHT = rb"(-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?)"
# What may stand around a number; a delimiter is none of it.
_BLANKS = {" ": b"", "\t": b"[ ]*"}


def read_few_lines(
    prepared: bytes, delimiter: str, dialect: Dialect, ids: tuple[int, int], weight: int | None
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None] | None:
    r"""Ids ``[2, m]`` and weights ``[m]`` of a text that :func:`rfp.io.arrow_text.prepare` made.

    Args:
        prepared: The text, without ids such as ``007``.
        delimiter: What separates its columns.
        dialect: Number of columns, and whether the first line names them.
        ids: Positions of source and target.
        weight: Position of the weights, or ``None``.

    Returns:
        ``None`` where anything is not as plain as that: then Arrow reads it, or says what is wrong.

    Example:
        >>> from rfp.io.text_lines import Fields
        >>> two_columns = Dialect(Fields(","), 2, False, None, 1, ("5", "7"))
        >>> read_few_lines(b"5,7\n7,12\n", ",", two_columns, (0, 1), None)[0].tolist()
        [[5, 7], [7, 12]]
        >>> read_few_lines(b"5,7\n7,twelve\n", ",", two_columns, (0, 1), None) is None
        True
    """
    if len(prepared) > FEW_BYTES or b'"' in prepared:
        return None
    edge = re.escape(delimiter.encode())
    blanks = _BLANKS.get(delimiter, rb"[ \t]*")
    kinds = dict.fromkeys(ids, _ID) | ({} if weight is None else {weight: _WEIGHT})
    other = rb"[^\n" + edge + rb"]*"
    columns = [blanks + kinds[i] + blanks if i in kinds else other for i in range(dialect.num_fields)]
    lines = [line for line in prepared.split(b"\n") if line][1 if dialect.header else 0 :]
    row = re.compile(edge.join(columns))
    found = [row.fullmatch(line) for line in lines]
    if not all(found):
        return None
    fields = [match.groups() for match in found if match is not None]
    place = {position: i for i, position in enumerate(sorted(kinds))}
    ends = np.array([[int(line[place[position]]) for line in fields] for position in ids], dtype=np.int64)
    values = None
    if weight is not None:
        values = np.array([float(line[place[weight]]) for line in fields], dtype=np.float64)
    return ends.reshape(2, -1), values
