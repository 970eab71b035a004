"""From the ids in a file to the node numbers of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.errors import GraphError
from rfp.io.options import NodeIds

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
        num_nodes: See :class:`~rfp.io.options.ReadOptions`.
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
            f"{where(row)}: node id {int(ends[:, row].min())} is negative; expected integers from 0 on "
            "(or text ids such as n1)"
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
    codes = encoded.indices.to_numpy().reshape(2, -1).astype(np.int64)
    in_order = codes.T.ravel()
    first = np.empty(len(encoded.dictionary), dtype=np.int64)
    first[in_order[::-1]] = np.arange(len(in_order))[::-1]  # of several assignments the last one holds
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    ids = encoded.dictionary.to_numpy(zero_copy_only=False)[order]
    return number[codes], len(ids), ids


def simplify(ids: list[str]) -> NodeIds | None:
    """Text ids that are really numbers become numbers, and 0 to n - 1 in order becomes ``None``.

    >>> simplify(["0", "1"]), simplify(["5", "3"]), simplify(["01", "a"])
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
