"""A replicated model computes for each replica what the model computes alone."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn import RFPModel
from rfp.nn.replicas import SharedDropout, each_affine, replicate, shared_affine

R = 3
RING = torch.tensor([[0, 1, 2, 3, 4, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 0, 1, 2, 3, 4]])
DATA = Data(x=torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), edge_index=RING, num_nodes=5)
GRAPH = Graph(RING, 5)


def models(**changes: object) -> tuple[RFPModel, list[RFPModel]]:
    """A replicated model and the plain ones whose weights its replicas hold."""
    encoding = {"name": "rfp", "num_channels": 2, "num_steps": 3, **changes.pop("encoding", {})}
    values = {"out_channels": 3, "task": "node", "in_channels": 4, "encodings": [encoding], "norm": "none", **changes}
    torch.manual_seed(0)
    plain = [RFPModel({"hidden_channels": 8, "num_layers": 2, "backbone": "gcn", **values}) for _ in range(R)]
    together = copy.deepcopy(plain[0]).replicate(R)
    states = [dict(model.named_parameters()) for model in plain]
    with torch.no_grad():
        for name, p in together.named_parameters():
            for r in range(R):
                p[r].copy_(states[r][name].view_as(p[r]))
    return together, plain


LEARNED = {"operators": ["normalized_adjacency", "learned"], "num_trajectories": 2, "learned_heads": 2}
CASES = {
    "gcn": {},
    "mlp": {"backbone": "mlp"},
    "graph_conv": {"backbone": "graph_conv"},
    "layer norm": {"norm": "layer"},
    "dss": {"trajectories": "dss", "encoding": {"num_trajectories": 2}},
    "independent": {"trajectories": "independent", "encoding": {"num_trajectories": 2}},
    "several trajectories side by side": {"encoding": {"num_trajectories": 2}},
    "learned": {"trajectories": "dss", "encoding": LEARNED},
    "learned, side by side": {"encoding": LEARNED},
    "no features": {"in_channels": 0},
    "no encoding": {"encodings": []},
    "fixed": {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 3}]},
}


@pytest.mark.parametrize("kept", [True, False], ids=["kept graph", "new graph"])
@pytest.mark.parametrize("case", CASES)
def test_equals_the_models_alone(case: str, kept: bool) -> None:
    together, plain = models(**CASES[case])
    graph = GRAPH if kept else None
    out = together.eval()(DATA, graph=graph)
    assert out.shape == (R, 5, 3)
    for r in range(R):
        assert torch.allclose(out[r], plain[r].eval()(DATA, graph=graph), atol=1e-5)


@pytest.mark.parametrize("case", ["gcn", "dss", "learned"])
def test_gradients_equal_those_alone(case: str) -> None:
    together, plain = models(**CASES[case])
    together.eval()(DATA, graph=GRAPH).square().sum().backward()
    for model in plain:
        model.eval()(DATA, graph=GRAPH).square().sum().backward()
    for name, p in together.named_parameters():
        for r in range(R):
            expected = dict(plain[r].named_parameters())[name].grad
            assert (p.grad is None) == (expected is None), name
            if expected is not None:
                assert torch.allclose(p.grad[r], expected.view_as(p[r]), atol=1e-4, rtol=1e-3), name


def test_dropout_mask_is_that_of_one_replica() -> None:
    dropout = SharedDropout(0.5).train()
    torch.manual_seed(0)
    alone = dropout(torch.ones(1, 50, 4))
    torch.manual_seed(0)
    together = dropout(torch.ones(R, 50, 4))
    assert torch.equal(together, alone.expand(R, -1, -1))
    assert set(alone.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(dropout.eval()(together), together)


def test_affine_maps_by_hand() -> None:
    weight = torch.tensor([[[1.0, 0.0]], [[0.0, 2.0]]])  # [2, 1, 2]
    x = torch.tensor([[3.0, 5.0]])
    assert shared_affine(x, weight, torch.tensor([[1.0], [2.0]])).tolist() == [[[4.0]], [[12.0]]]
    assert each_affine(torch.stack([x, 2 * x]), weight).tolist() == [[[3.0]], [[20.0]]]
    with pytest.raises(ArgumentError, match="leading dimension of 2 replicas"):
        each_affine(x, weight)


def test_batch_normalisation_is_refused() -> None:
    with pytest.raises(ArgumentError, match="BatchNorm1d cannot be trained in replicas"):
        replicate(nn.Sequential(nn.BatchNorm1d(3)), 2)
