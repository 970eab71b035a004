"""What rounding scales with is the same from blocks in files as from the matrix in memory."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.operator_norms import rounding_norm
from rfp.operators import as_operator, factors
from rfp.partitioned import block_tasks, encode, rounds_of_tasks

OPERATORS = [
    "normalized_adjacency",
    "normalized_laplacian",
    "random_walk",
    "adjacency",
    "random_walk.T",
    "adjacency.sym.T^2",
]


def hub(directed: bool) -> rfp.Graph:
    """Random edges of random weights of either sign, a node joined to 150 others, some nodes to none."""
    rng = np.random.default_rng(0)
    graph: Any = nx.gnp_random_graph(180, 0.02, seed=1, directed=directed)
    graph.add_edges_from((3, i) for i in range(20, 170))
    graph.remove_edges_from([edge for edge in graph.edges if 0 in edge or 179 in edge])
    for _, _, edge in graph.edges(data=True):
        edge["weight"] = float(rng.normal())
    return rfp.as_graph(graph)


@pytest.mark.parametrize("directed", [False, True])
def test_equals_that_in_memory(directed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[float] = []
    usual = rounds_of_tasks.norms.rounding_norm_of_rows
    monkeypatch.setattr(
        rounds_of_tasks.norms, "rounding_norm_of_rows", lambda *given: found.append(usual(*given)) or found[-1]
    )
    graph = hub(directed)
    arguments = {"num_channels": 2, "num_steps": 2, "operators": OPERATORS, "normalization": "l2"}
    encoded = encode(graph, tmp_path, memory=20_000, **arguments)
    assert encoded.manifest.graph.num_blocks > 2
    wanted = [rounding_norm(factors(as_operator(name, graph, torch.float32))[0], graph.offsets) for name in OPERATORS]
    assert found == pytest.approx([float(norm) for norm in wanted if norm is not None], rel=1e-12)
    assert found[0] > 1.1  # more than the norm, for the hub's sake


@pytest.mark.parametrize("normalization", ["l2", "qr"])
def test_a_product_that_is_zero_on_paper_is_zero(
    normalization: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants under the Laplacian of a complete graph: sums of 400 equal terms, more off than short ones are."""
    features = torch.ones(1, 400, 3) * torch.tensor([1.15, 1.0, 2.3])
    features[..., 1] = torch.randn(400, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(block_tasks, "random_features", lambda graph, rows, **options: features[:, rows])
    graph = rfp.as_graph(nx.complete_graph(400))
    arguments = {"num_steps": 1, "operators": ["normalized_laplacian"], "normalization": normalization}
    encoded = encode(graph, tmp_path, num_channels=3, memory=300_000, **arguments)
    assert encoded.manifest.graph.num_blocks > 2
    state = encoded.step(1)[0]
    assert state.norm(dim=0).tolist() == pytest.approx([0, 1, 0], abs=1e-6)
    expected = rfp.encode(graph, features=features, **arguments).states[0, :, 1]
    torch.testing.assert_close(state, expected, rtol=0, atol=1e-6)
