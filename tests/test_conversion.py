"""Every form in which a graph is held in memory."""

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.nn import max_pool

import rfp
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph

SOURCE, TARGET, WEIGHT = [0, 1, 1], [1, 0, 2], [2.0, 3.0, 0.5]
DENSE = [[0, 2, 0], [3, 0, 0.5], [0, 0, 0]]
EDGES = np.array([SOURCE, TARGET])


def dense(form: Any, **more: Any) -> list[list[float]]:
    return as_graph(form, **more).to_scipy().toarray().tolist()


class SparseTensor:
    """Just the methods of torch_sparse.SparseTensor that are used."""

    def __init__(self, matrix: list[list[float]]) -> None:
        self.matrix = torch.tensor(matrix)

    def sparse_sizes(self) -> tuple[int, int]:
        return tuple(self.matrix.shape)  # type: ignore[return-value]

    def coo(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        row, col = self.matrix.nonzero().T
        return row, col, self.matrix[row, col]


@pytest.mark.parametrize(
    "matrix",
    [
        np.array(DENSE),
        torch.tensor(DENSE),
        torch.tensor(DENSE, dtype=torch.float16),
        torch.tensor(DENSE).to_sparse(),
        torch.tensor(DENSE).to_sparse_csr(),
        torch.tensor(DENSE).to_sparse_csc(),
        sp.csr_array(DENSE),
        SparseTensor(DENSE),
    ],
    ids=["numpy", "torch", "float16", "coo", "csr", "csc", "scipy", "SparseTensor"],
)
def test_matrices(matrix: Any) -> None:
    assert dense(matrix) == DENSE
    with pytest.raises(ArgumentError, match="the entries of a matrix are its weights"):
        as_graph(matrix, weight=[1.0])


def test_entries_that_are_all_one_are_no_weights() -> None:
    for matrix in (np.eye(3), torch.eye(3), torch.eye(3).to_sparse()):
        assert as_graph(matrix).edge_weight is None


@pytest.mark.parametrize("layout", ["csr", "dense", "SparseTensor"])
def test_adj_t_is_the_transposed_matrix(layout: str) -> None:
    transposed = torch.tensor(DENSE).T.contiguous()
    kinds = {"csr": transposed.to_sparse_csr(), "dense": transposed, "SparseTensor": SparseTensor(transposed.tolist())}
    assert dense(SimpleNamespace(adj_t=kinds[layout], num_nodes=3)) == DENSE
    assert dense(Data(adj_t=kinds[layout], num_nodes=3)) == DENSE


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8])
def test_edge_index_as_array(kind: Any) -> None:
    pattern = (np.array(DENSE) != 0).astype(float).tolist()
    assert dense(EDGES.astype(kind)) == pattern
    assert dense(torch.from_numpy(EDGES)) == pattern
    assert dense(EDGES.astype(kind), weight=np.array(WEIGHT)) == DENSE
    assert dense(torch.from_numpy(EDGES), weight=torch.tensor(WEIGHT)) == DENSE
    assert as_graph((EDGES.astype(kind), 5)).num_nodes == 5
    assert dense((EDGES.astype(kind), 3), weight=WEIGHT) == DENSE
    assert dense(rfp.Graph(torch.from_numpy(EDGES), 3), weight=WEIGHT) == DENSE


def test_an_edge_index_of_pyg_knows_its_nodes() -> None:
    edges = [[0, 1], [1, 0]]  # two edges: as a plain tensor this might be a matrix
    assert as_graph(EdgeIndex(edges)).num_nodes == 2
    for sizes in ((4, 4), (None, 4), (4, None)):
        graph = as_graph(EdgeIndex(edges, sparse_size=sizes))
        assert graph.num_nodes == 4
        assert graph.edge_index.tolist() == edges
        assert type(graph.edge_index) is torch.Tensor
    with pytest.raises(GraphError, match=r"must be of a square matrix, got sparse_size=\(4, 5\)"):
        as_graph(EdgeIndex(edges, sparse_size=(4, 5)))


def test_weights_by_name() -> None:
    data = Data(edge_index=torch.from_numpy(EDGES), edge_attr=torch.tensor(WEIGHT)[:, None], num_nodes=3)
    assert as_graph(data).edge_weight is None
    assert dense(data, weight="edge_attr") == DENSE
    assert dense(data, weight=torch.tensor(WEIGHT)) == DENSE
    graph = nx.DiGraph()
    graph.add_nodes_from(range(3))
    graph.add_weighted_edges_from(zip(SOURCE, TARGET, WEIGHT, strict=True), weight="strength")
    assert as_graph(graph).edge_weight is None
    assert dense(graph, weight="strength") == DENSE
    for form in (data, graph):
        with pytest.raises(ArgumentError, match="weight='nothing'"):
            as_graph(form, weight="nothing")


def test_encode_takes_weights() -> None:
    named = rfp.encode(EDGES, weight=WEIGHT, num_channels=2, operators=["adjacency"], num_steps=1, backend="reference")
    matrix = rfp.encode(np.array(DENSE), num_channels=2, operators=["adjacency"], num_steps=1, backend="reference")
    assert torch.equal(named.states, matrix.states)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_frames(make: Any) -> None:
    frame = make({"time": [5, 6], "target": [1, 2], "source": [0, 1], "w2": [2.0, 0.5]})
    assert dense(frame) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert dense(frame, weight="w2") == [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    named = make({"source": ["ann", "bob"], "target": ["bob", "cy"]})
    with pytest.raises(GraphError, match=r"rfp\.read_graph"):
        as_graph(named)
    loaded = rfp.read_graph(named, directed=True)
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == ["ann", "bob", "cy"]
    assert dense(loaded) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    with pytest.raises(ArgumentError, match="--header has no meaning for a data frame"):
        rfp.read_graph(named, header=True)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (np.zeros((2, 2), int), r"\[2, 2\] may be edge_index with two edges or the matrix"),
        (EDGES.T, "transpose it"),
        (EDGES.astype(float), r"integers \[2, m\], or a square matrix"),
        (np.zeros((3, 3), complex), "the matrix is complex"),
        (torch.zeros(3, 3, dtype=torch.complex64), "the matrix is complex"),
        (sp.csr_array(np.zeros((3, 3), complex)), "the matrix is complex"),
        (np.zeros((2, 3, 3)), "an array must be edge_index"),
        (torch.zeros(2, 3).to_sparse(), "must be square"),
        ((EDGES.astype(float), 3), "edge_index must hold integers"),
        (pd.DataFrame({"source": ["a", 1], "target": [1, 2]}), "several types"),
        ("karate.csv", "a file: rfp.read_graph"),
        ((torch.from_numpy(EDGES), 2.7), "got float as number of nodes"),
        ((torch.from_numpy(EDGES), torch.ones(EDGES.shape[1])), "weights are given as weight="),
        (nx.Graph([(0, 1, {"weight": "strong"})]), "'weight' holds what is no number"),
    ],
)
def test_what_cannot_be_read_is_refused(form: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        as_graph(form)


def test_what_a_mask_hides_is_not_read() -> None:
    hidden = [[0, 1, 0], [0, 0, 0]]
    for form in (np.ma.masked_array(EDGES, hidden), np.ma.masked_array(np.eye(3), np.eye(3) > 0)):
        with pytest.raises(GraphError, match=r"is a masked array with missing entries \([13] of [69]\)"):
            as_graph(form)
    with pytest.raises(GraphError, match="edge_index is a masked array"):
        as_graph((np.ma.masked_array(EDGES, hidden), 3))
    weight = np.ma.masked_array(WEIGHT, hidden[0])
    data = Data(edge_index=torch.from_numpy(EDGES), num_nodes=3)
    for graph in (EDGES, as_graph(EDGES), data):
        with pytest.raises(GraphError, match="edge_weight is a masked array with missing"):
            as_graph(graph, weight=weight)
    assert dense(np.ma.masked_array(EDGES), weight=np.ma.masked_array(WEIGHT)) == DENSE


@pytest.mark.parametrize(
    "weight",
    [
        ["a", "b", "c"],
        np.array(["a", "b", "c"]),
        np.array(["1", "2", "3"]),
        np.array([1, None, "c"], dtype=object),
        np.array(["2026-01-01"] * 3, dtype="datetime64[D]"),
        [[1, 2], [3], 4],
        {0: 1.0},
    ],
)
def test_weights_that_are_no_numbers_are_refused(weight: Any) -> None:
    data = Data(edge_index=torch.from_numpy(EDGES), num_nodes=3)
    for graph in (EDGES, data):
        with pytest.raises(GraphError, match="edge_weight must hold numbers"):
            as_graph(graph, weight=weight)


def test_weights_that_lose_nothing_are_read() -> None:
    assert dense(EDGES, weight=np.array(WEIGHT, dtype=object)) == DENSE
    assert dense(EDGES, weight=np.array(WEIGHT, dtype=np.float16)) == DENSE
    with pytest.raises(GraphError, match="must be real, got complex numbers"):
        as_graph(EDGES, weight=np.array(WEIGHT) * 1j)


def test_a_matrix_of_objects_is_refused() -> None:
    for entries in (np.array([["a", "b"], ["c", "d"]]), np.array([[0, "b"], [1, 0]], dtype=object)):
        with pytest.raises(GraphError, match="a matrix must hold numbers"):
            as_graph(entries)
    assert dense(np.array(DENSE, dtype=object)) == DENSE


def test_parts_of_a_graph_are_tensors() -> None:
    edges = torch.from_numpy(EDGES)
    with pytest.raises(GraphError, match=r"edge_index must be a tensor, got ndarray; .*rfp\.as_graph"):
        Graph(EDGES, 3)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="edge_weight must be a tensor, got list"):
        Graph(edges, 3, WEIGHT)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="edge_index must be a tensor, got ndarray"):
        as_graph(Data(edge_index=EDGES, num_nodes=3))
    layer = rfp.nn.RandomFeaturePropagation(num_channels=2, num_steps=1)
    with pytest.raises(GraphError, match="edge_weight must be a tensor, got list"):
        layer(edges, edge_weight=WEIGHT, num_nodes=3)


def rings(*sizes: int) -> Batch:
    return Batch.from_data_list(
        [Data(edge_index=torch.tensor([[*range(n)], [*range(1, n), 0]]), num_nodes=n) for n in sizes]
    )


def test_a_batch_without_ptr_or_with_an_old_one_is_a_batch() -> None:
    """PyG's pooling leaves the one, its ``subgraph`` the other."""
    whole = rings(3, 4)
    without = Data(edge_index=whole.edge_index, batch=whole.batch, num_nodes=7)
    assert as_graph(without).offsets.tolist() == [0, 3, 7]
    part = whole.subgraph(torch.arange(7) != 1)
    assert as_graph(part).offsets.tolist() == [0, 2, 6]
    with_x = rings(3, 4)
    with_x.x = torch.ones(7, 1)
    pooled = max_pool(torch.arange(7), with_x)
    assert as_graph(pooled).offsets.tolist() == [0, 3, 7]
    transposed = Data(adj_t=torch.eye(7).to_sparse(), batch=whole.batch, num_nodes=7)
    assert as_graph(transposed).offsets.tolist() == [0, 3, 7]
    with pytest.raises(GraphError, match="batch must ascend from 0"):
        as_graph(Data(edge_index=whole.edge_index, batch=whole.batch.flip(0), num_nodes=7))
    with pytest.raises(GraphError, match="batch must have the graph number of each of the 7 nodes"):
        as_graph(Data(edge_index=whole.edge_index, batch=torch.tensor([0, 1]), num_nodes=7))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_small_integers_name_nodes_of_large_graphs(dtype: torch.dtype) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    for n in (3, 300, 40_000):
        few = Graph(edges.to(dtype), n)
        row, col = few.pattern.row, few.pattern.col
        assert len(row) == n + 2
        assert torch.equal(row[row == col].long(), torch.arange(n))


def test_weights_that_are_learned_are_read_as_they_are() -> None:
    weight = torch.tensor([2.0, 3.0, 0.5], requires_grad=True)
    for form in (
        Data(edge_index=torch.tensor(EDGES), edge_weight=weight, num_nodes=3),
        Graph(torch.tensor(EDGES), 3, weight),
    ):
        assert dense(form) == DENSE
        plain = rfp.encode(Graph(torch.tensor(EDGES), 3, weight.detach()), num_channels=2).flat()
        assert torch.equal(rfp.encode(form, num_channels=2).flat(), plain)
