"""Edges with the same ends: one rule, whichever way round they are listed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rfp.edge_table.node_ids import Where
from rfp.errors import GraphError

EndPairs = NDArray[np.int64]  # [2, m]
Weight = NDArray[np.float64] | None  # [m]

_MOST_NODES = 2**31  # whose pairs have numbers of 64 bits


# With more nodes than this for each edge the rows of a matrix would be most of the work and memory: sort instead.
_MOSTLY_ISOLATED = 64
# So few edges are sorted before SciPy would be loaded.
_FEW_EDGES = 1 << 12


def merge_duplicates(
    edges: EndPairs, weight: Weight, num_nodes: int, *, directed: bool, duplicates: str | None, where: Where
) -> tuple[EndPairs, Weight, int]:
    """Make one edge of those with the same ends.

    Args:
        edges: Source and target of each line, ``[2, m]``.
        weight: ``[m]``, or ``None``.
        num_nodes: n.
        directed: Whether ``0 1`` and ``1 0`` are two edges.
        duplicates: See :class:`~rfp.edge_table.table_options.TableOptions`.
        where: Place of a line in the file, for errors.

    Returns:
        The edges, each once (undirected ones with the smaller end first), their weights, and how many lines were
        merged into others. Under ``"sum"`` edges without weights get the number of their lines as weight, if any has
        more than one.

    Costs O(m log m) time.

    Example:
        >>> lines = np.array([[0, 1, 1], [1, 0, 2]])
        >>> merge_duplicates(lines, None, 3, directed=False, duplicates=None, where=str)
        (array([[0, 1],
               [1, 2]]), None, 1)
    """
    if not directed:
        edges = np.sort(edges, axis=0)
    key = _keys(edges, num_nodes)
    if len(key) < 2 or bool((key[1:] > key[:-1]).all()):
        return edges, weight, 0
    if weight is None and duplicates in (None, "first", "max") and num_nodes < _MOST_NODES:
        # Which line an edge came from plays no part: the numbers are sorted, in a fraction of the time of their places.
        key.sort()
        distinct = key[np.concatenate([[True], key[1:] != key[:-1]])]
        merged = len(key) - len(distinct)
        return (np.stack(np.divmod(distinct, num_nodes)) if merged else edges), None, merged
    order = np.argsort(key, kind="stable")  # lines of one edge stay in their order
    key = key[order]
    start = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    merged = len(key) - len(start)
    if not merged:
        return edges, weight, 0
    first = order[start]
    if duplicates == "error":
        _refuse_second(order, start, where)
    if weight is None:
        counts = np.diff(start, append=len(key)).astype(np.float64)
        return edges[:, first], counts if duplicates == "sum" else None, merged
    values = weight[order]
    if duplicates == "first":
        kept = weight[first]
    elif duplicates == "sum":
        kept = np.add.reduceat(values, start)
    else:
        kept = np.maximum.reduceat(values, start)
        if duplicates is None:
            _refuse_different(values, order, start, where)
    return edges[:, first], kept, merged


def _keys(edges: EndPairs, num_nodes: int) -> EndPairs:
    """One number for each pair of ends, ascending as the pairs do."""
    if num_nodes >= _MOST_NODES:  # products of such numbers leave 64 bits: count the ends that there are
        ids, flat = np.unique(edges, return_inverse=True)
        edges, num_nodes = flat.reshape(edges.shape), len(ids)
    return np.asarray(edges[0] * num_nodes + edges[1])


def _refuse_second(order: EndPairs, start: EndPairs, where: Where) -> None:
    again = np.delete(order, start)
    row = int(again.min())
    raise GraphError(f"{where(row)}: the edge is there already, and --duplicates error allows each once")


def _refuse_different(values: NDArray[np.float64], order: EndPairs, start: EndPairs, where: Where) -> None:
    """Raise for the first line whose weight is not that of the first line with the same ends."""
    group = np.repeat(np.arange(len(start)), np.diff(start, append=len(order)))
    differs = values != values[start][group]
    if not differs.any():
        return
    position = int(np.flatnonzero(differs)[np.argmin(order[differs])])
    row, earlier = int(order[position]), int(order[start[group[position]]])
    raise GraphError(
        f"{where(row)}: weight {values[position]:g}, but the edge has weight {values[start][group[position]]:g} before "
        f"({where(earlier)}); say what to do with --duplicates sum|first|max, or keep directions apart with --directed"
    )


def both_ways(edges: EndPairs, weight: Weight, num_nodes: int) -> tuple[EndPairs, Weight]:
    """Each edge in both directions, a self-loop once, in ascending order.

    >>> both_ways(np.array([[0, 1], [1, 1]]), None, 2)[0]
    array([[0, 1, 1],
           [1, 0, 1]])
    """
    other = np.flatnonzero(edges[0] != edges[1])
    row = np.concatenate([edges[0], edges[1][other]])
    col = np.concatenate([edges[1], edges[0][other]])
    values = np.ones(len(row), np.int8) if weight is None else np.concatenate([weight, weight[other]])
    if len(row) <= _FEW_EDGES or num_nodes > _MOSTLY_ISOLATED * (len(row) + 1):
        order = np.lexsort((col, row))
        return np.stack([row[order], col[order]]), None if weight is None else np.asarray(values[order], np.float64)
    import scipy.sparse as sp

    matrix = sp.coo_array((values, (row, col)), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sort_indices()
    row = np.repeat(np.arange(num_nodes), np.diff(matrix.indptr))
    both = np.stack([row, matrix.indices.astype(np.int64)])
    return both, None if weight is None else np.asarray(matrix.data)
