"""What every backend must satisfy: the reference's trajectory, on any graphs, operators and settings."""

from collections.abc import Sequence

import networkx as nx
import torch
from hypothesis import strategies as st

import rfp
from rfp.conversion import as_graph
from rfp.graph import Graph

OPERATORS = ("adjacency", "normalized_adjacency", "normalized_laplacian", "random_walk")


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 12, directed: bool = False) -> Graph:
    """Random graphs with isolated nodes, duplicate edges, self-loops and, half the time, weights."""
    n = draw(st.integers(1, max_nodes))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    pairs = draw(st.lists(pair, max_size=3 * n))
    if not directed:
        pairs = pairs + [(j, i) for i, j in pairs if i != j]
    edge_index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()
    weight = None
    if draw(st.booleans()):
        # Small integers keep A symmetric whatever the order in which duplicates are added.
        values = {frozenset(p): draw(st.sampled_from([0.5, 1.0, 2.0])) for p in pairs}
        weight = torch.tensor([values[frozenset(p)] for p in pairs])
    return Graph(edge_index, n, weight)


def check_backend(backend: str, graph: Graph, tolerance: float = 2e-4, device: str = "cpu", **settings) -> None:
    """The backend's states equal the reference's, computed in float64 where the float32 path branches alike."""
    expected = rfp.encode(graph, backend="reference", **settings)
    got = rfp.encode(graph.to(device), backend=backend, **settings)
    assert got.report.backend == backend
    columns = got.report.dependent_columns, expected.report.dependent_columns
    assert columns[0] == columns[1], f"dependent columns: {columns[0]}, the reference finds {columns[1]}"
    torch.testing.assert_close(got.storage.cpu(), expected.storage, atol=tolerance, rtol=tolerance)


def awkward_batch(sources: Sequence[nx.Graph]) -> Graph:
    """All of them side by side, unweighted."""
    return as_graph([Graph(as_graph(g).edge_index, g.number_of_nodes()) for g in sources])
