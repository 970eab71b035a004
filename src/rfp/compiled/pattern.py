"""The edges of a graph in compressed rows, on a CPU: each is put where it belongs when its turn comes."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rfp.compiled.cached import helper, kernel
from rfp.csr import CSR

# Edges come nearly sorted, as PyG stores them and batches put them together; others are left to SciPy, which is faster
# there. Entries that may move to make room, for each that is there: rows in disorder must be short.
_MOST_MOVES = 8
# Of so many edges one may belong to a row that lies farther than so many from the last one's, out of the cache.
_SELDOM, _FAR = 16, 1 << 12


@helper
def _is_near(source):
    """Whether the rows of edges that follow each other seldom lie far apart."""
    far = 0
    for e in range(1, len(source)):
        far += abs(source[e] - source[e - 1]) > _FAR
    return far <= len(source) // _SELDOM


@helper
def _begin_rows(source, target, crow, ends, col, value):
    """Room for all edges of each row, which begins with its diagonal entry; returns whether all nodes are there."""
    n = len(ends)
    for e in range(len(source)):
        if np.uint64(source[e]) >= np.uint64(n) or np.uint64(target[e]) >= np.uint64(n):
            return False
        crow[source[e] + 1] += 1
    for i in range(n):
        first = crow[i]
        crow[i + 1] += first + 1
        col[first], value[first], ends[i] = i, 0.0, first + 1
    return True


@helper
def _close_gaps(crow, ends, col, value):
    """Move the rows together, where edges at the same place have left room; returns the number of entries."""
    entries = 0
    for i in range(len(ends)):
        first, crow[i] = crow[i], entries
        for e in range(first, ends[i]):
            col[entries], value[entries] = col[e], value[e]
            entries += 1
    crow[len(ends)] = entries
    return entries


@kernel
def _pattern_kernel(source, target, weight, crow, ends, col, value):
    """Fill ``crow`` ``[n + 1]``, zeros before, and the first entries of ``col`` and ``value``; returns their number.

    Without weights all are 1; ``ends`` ``[n]`` is for work. Returns -1 for a node that is not there, or great disorder.
    """
    moves, doubles, one = np.int64(0), 0, np.uint64(1)
    if not _is_near(source) or not _begin_rows(source, target, crow, ends, col, value):
        return -1
    for e in range(len(source)):
        # Unsigned, which spares the look at negative indices.
        row, column = np.uint64(source[e]), target[e]
        added = weight[e] if len(weight) else 1.0
        first, end = np.uint64(crow[row]), np.uint64(ends[row])
        place = end
        while place > first and col[place - one] > column:
            place -= one
        if place > first and col[place - one] == column:
            value[place - one] += added
            doubles += 1
            continue
        moves += np.int64(end - place)
        if moves > _MOST_MOVES * len(col):
            return -1
        ends[row] = end + one
        while end > place:
            col[end], value[end] = col[end - one], value[end - one]
            end -= one
        col[place], value[place] = column, added
    return _close_gaps(crow, ends, col, value) if doubles else len(col)


def compiled_pattern(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> CSR | None:
    """:attr:`rfp.Graph.pattern` of edges on a CPU: A in float64, every diagonal entry there.

    Edges at the same place are added in the order they come in. O(n + m).

    Args:
        edge_index: ``[2, m]``; ``n + m`` fits into 32 bits.
        edge_weight: ``[m]``; ones if ``None``.
        num_nodes: n.

    Returns:
        ``None`` for edges in great disorder, or of a node that is not there.
    """
    source, target = np.ascontiguousarray(edge_index.numpy(), np.int64)
    weight = np.zeros(0) if edge_weight is None else np.ascontiguousarray(edge_weight.numpy(), np.float64)
    room = num_nodes + len(source)
    crow, ends = np.zeros(num_nodes + 1, np.int32), np.empty(num_nodes, np.int32)
    col, value = np.empty(room, np.int32), np.empty(room)
    entries = _pattern_kernel(source, target, weight, crow, ends, col, value)
    if entries < 0:
        return None
    return CSR(torch.from_numpy(crow), torch.from_numpy(col[:entries]), torch.from_numpy(value[:entries]))
