"""Sorted edges, degrees, keys, operators and norms by kernels, in Triton's interpreter, against their plain rules."""

from tests.interpreter import run_interpreted

GRAPHS = """
import torch
from rfp import triton_pattern
from rfp.graph import Graph

generator = torch.Generator().manual_seed(0)
many = torch.randint(0, 40, (2, 700), generator=generator)  # several blocks; loops and edges listed several times
signed = torch.randint(-2, 3, (700,), generator=generator)  # zeros among them, and sums that are zero
once = torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 1]])
ptr = torch.tensor([0, 3, 3, 4, 9, 11])  # a graph without nodes, one of a single node, one with a loop
edges = torch.tensor([[9, 0, 1, 4, 5, 9, 2, 8, 7, 9], [9, 1, 0, 5, 4, 10, 1, 7, 8, 9]])  # in no order
bare = torch.zeros(2, 0, dtype=torch.long)
GRAPHS = [
    Graph(many, 41),
    Graph(many, 40, signed.double() / 4),
    Graph(many, 40, signed.float()),
    Graph(many, 40, signed),
    Graph(once.int(), 5),
    Graph(once.T.contiguous().T, 4, torch.tensor([1.0, 1.0, 2.0, 2.0, -1.0])),
    Graph(bare, 3),
    Graph(edges, 11, ptr=ptr),
    Graph(edges, 11, torch.linspace(-1, 2, 10), ptr),
    Graph(bare, 2, ptr=torch.tensor([0, 1, 2])),
]

def sort_edges(graph):
    batch = None if graph.num_graphs == 1 else graph.batch
    return triton_pattern.launch_edge_sort(graph.edge_index, graph.edge_weight, graph.num_nodes, graph.offsets, batch)
"""

SORTED = """
for graph in GRAPHS:
    for widest in (2**31 - 1, 1):  # places of 32 bits and of 64
        triton_pattern.INT32_MAX = widest
        found = sort_edges(graph)
        csr, plain = found.pattern, graph.pattern
        assert csr.crow[-1] == csr.nnz == graph.num_edges + graph.num_nodes
        assert (csr.row * graph.num_nodes + csr.col).equal(found.place.long())
        assert bool((found.place.diff() >= 0).all())
        assert csr.row_lengths.equal(plain.row_lengths)
        assert (csr.to_scipy() != plain.to_scipy()).nnz == 0
        assert torch.equal(found.keys, graph.keys)
        assert found.loop.equal(torch.from_numpy(plain.to_scipy().diagonal()))
print("equal")
"""

OPERATORS = """
from rfp.operators import OPERATORS, MatrixOperator, from_name
from rfp.operators.triton_values import operator_values

def dense(csr):
    return torch.from_numpy(csr.to_scipy().toarray())

for graph in GRAPHS:
    found = sort_edges(graph)
    for names in (list(OPERATORS), ["normalized_laplacian"], ["random_walk", "normalized_adjacency"]):
        for dtype, off in ((torch.float64, 1e-15), (torch.float32, 1.2e-7)):
            values = operator_values(names, found, dtype)
            assert values.dtype == dtype
            for name, value in zip(names, values, strict=True):
                expected = dense(from_name(name, graph, dtype).csr)
                torch.testing.assert_close(dense(found.pattern.with_value(value)), expected, rtol=off, atol=0)
print("equal")
"""

NORMS = """
from rfp.csr import places
from rfp.operator_norms import norm_of, rounding_norm
from rfp.operators import MatrixOperator, from_name
from rfp.operators.triton_values import operator_values
from rfp.triton_norms import norm_with_long_rows, schur_bounds

# Two rows of 70 entries, and their loops: of the first program and of the last.
hubs = torch.stack([torch.arange(140) % 2 * 300, torch.arange(140)])
GRAPHS.append(Graph(torch.cat([hubs, hubs.flip(0)], 1), 301))
for graph in GRAPHS:
    found = sort_edges(graph)
    for name, value in zip(names := ["adjacency", "random_walk"], operator_values(names, found, torch.float32)):
        operator = from_name(name, graph)
        expected = norm_of(operator, graph.offsets)
        csr = found.pattern.with_value(value)
        torch.testing.assert_close(schur_bounds(csr, graph.offsets), expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(schur_bounds(operator.csr, graph.offsets), expected, rtol=1e-12, atol=0)
        long_rows = rounding_norm(operator, graph.offsets)
        torch.testing.assert_close(rounding_norm(MatrixOperator(csr), graph.offsets), long_rows, rtol=1e-6, atol=0)
        if graph.num_graphs == 1:
            for one in (csr, operator.csr):
                torch.testing.assert_close(norm_with_long_rows(expected, one), long_rows, rtol=1e-6, atol=0)
print("equal")
"""


def test_edges_are_sorted_and_hashed() -> None:
    run_interpreted(GRAPHS + SORTED)


def test_operators_are_those_of_their_rules() -> None:
    run_interpreted(GRAPHS + OPERATORS)


def test_norms_are_those_of_their_rule() -> None:
    run_interpreted(GRAPHS + NORMS)
