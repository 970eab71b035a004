"""Blocks of rows and masked products against dense ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from rfp.conversion import as_graph
from rfp.theory import ordered
from rfp.theory.ordered import OrderedGraph, column_sums, masked_product, row_blocks, row_sums, row_work
from rfp.theory.simple import integer_matrix


@pytest.fixture
def random_matrices() -> list[sp.csr_array]:
    rng = np.random.default_rng(0)
    return [sp.csr_array((rng.random((30, 30)) < 0.2).astype(np.int32)) for _ in range(3)]


@pytest.mark.parametrize("limit", [1, 7, 1 << 22])
def test_masked_product(random_matrices: list[sp.csr_array], limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "BLOCK_WORK", limit)
    left, right, mask = random_matrices
    got = masked_product(left, right, mask).toarray()
    np.testing.assert_array_equal(got, (left.toarray() @ right.toarray()) * mask.toarray())


def test_row_work_counts_terms(random_matrices: list[sp.csr_array]) -> None:
    left, right, _ = random_matrices
    expected = [(right.toarray()[np.flatnonzero(row)] != 0).sum() for row in left.toarray()]
    np.testing.assert_array_equal(row_work(left, right), expected)


def test_row_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "BLOCK_WORK", 10)
    work = np.array([4, 6, 1, 50, 0, 0, 9, 2])
    blocks = list(row_blocks(work))
    assert [(b.start, b.stop) for b in blocks] == [(0, 2), (2, 3), (3, 4), (4, 7), (7, 8)]
    assert list(row_blocks(np.zeros(0, dtype=np.int64))) == []


def test_order_is_by_degree(awkward: nx.Graph) -> None:
    awkward = nx.convert_node_labels_to_integers(awkward)
    graph = OrderedGraph(integer_matrix(as_graph(awkward)))
    degrees = np.array([awkward.degree(v) for v in graph.order])
    assert (np.diff(degrees) >= 0).all()
    np.testing.assert_array_equal(graph.restore(degrees), [awkward.degree(v) for v in range(len(degrees))])
    np.testing.assert_array_equal((graph.upper + graph.lower).toarray(), graph.both.toarray())
    assert not np.tril(graph.upper.toarray()).any()


def test_sums_do_not_wrap_around() -> None:
    big = sp.csr_array(np.full((2, 3), 2**30, dtype=np.int32))
    assert row_sums(big).tolist() == [3 * 2**30] * 2
    assert column_sums(big).tolist() == [2**31] * 3
