"""A simple graph with its nodes in order of degree: what makes exact counts cheap, and what they will cost.

Every edge points from the node of lower degree (ties by number) to the other. Hubs then have many edges in and few
out, so the work is bounded by the arboricity of the graph instead of the squares of its degrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Terms of a sparse product held at a time; bounds the memory of an exact count to a few hundred megabytes.
BLOCK_WORK = 1 << 22


@dataclass(frozen=True)
class OrderedGraph:
    """The nodes of a simple graph renumbered by ascending degree.

    Args:
        matrix: The symmetric adjacency matrix, int32, in the original numbering.
    """

    matrix: sp.csr_array

    @property
    def num_nodes(self) -> int:
        return int(self.matrix.shape[0])

    @cached_property
    def degree(self) -> Ints:
        """Degrees in the original numbering, ``[n]``."""
        degree: Ints = np.diff(self.matrix.indptr).astype(np.int64)
        return degree

    @cached_property
    def order(self) -> Ints:
        """``order[i]`` is the original number of the node that became ``i``."""
        order: Ints = np.argsort(self.degree, kind="stable")
        return order

    def restore(self, values: NDArray[np.generic]) -> Ints:
        """Values of the renumbered nodes in the original numbering."""
        out = np.empty(self.num_nodes, dtype=np.int64)
        out[self.order] = values
        return out

    @cached_property
    def both(self) -> sp.csr_array:
        """The renumbered adjacency matrix."""
        return self.matrix[self.order][:, self.order].tocsr()

    @cached_property
    def upper(self) -> sp.csr_array:
        """Edges from lower to higher degree: strictly upper triangular."""
        return sp.csr_array(sp.triu(self.both, k=1))

    @cached_property
    def lower(self) -> sp.csr_array:
        return self.upper.T.tocsr()

    @cached_property
    def out_degree(self) -> Ints:
        degree: Ints = np.diff(self.upper.indptr).astype(np.int64)
        return degree


def row_work(left: sp.csr_array, right: sp.csr_array) -> Ints:
    """How many terms each row of ``left @ right`` adds up, ``[n]``."""
    terms = np.concatenate([[0], np.cumsum(np.diff(right.indptr)[left.indices], dtype=np.int64)])
    work: Ints = terms[left.indptr[1:]] - terms[left.indptr[:-1]]
    return work


def row_blocks(work: Ints) -> Iterator[slice]:
    """Consecutive rows of at most :data:`BLOCK_WORK` terms together, or a single row of more."""
    total = np.cumsum(work)
    start = 0
    while start < len(work):
        done = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + BLOCK_WORK, side="right")))
        yield slice(start, stop)
        start = stop


def masked_product(left: sp.csr_array, right: sp.csr_array, mask: sp.csr_array) -> sp.csr_array:
    """``(left @ right) * mask`` element by element; the product itself is only ever held block by block."""
    blocks = [(left[rows] @ right).multiply(mask[rows]) for rows in row_blocks(row_work(left, right))]
    if not blocks:
        return sp.csr_array(mask.shape, dtype=mask.dtype)
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def column_sums(matrix: sp.csr_array) -> Ints:
    return np.asarray(matrix.sum(axis=0, dtype=np.int64)).ravel()


def row_sums(matrix: sp.csr_array) -> Ints:
    return np.asarray(matrix.sum(axis=1, dtype=np.int64)).ravel()
