"""Learned operators on a GPU: the kernels beside the loop that goes step by step. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

import rfp
import rfp.nn
from rfp.backends.problem import Problem
from rfp.bench.gate import step_errors
from rfp.bench.generated_graphs import molecule_like
from rfp.graph import Graph
from rfp.settings import Settings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def learned_encoder(backend: str, **options: object) -> rfp.nn.RandomFeaturePropagation:
    """In training mode, with the same weights and draws at every call."""
    torch.manual_seed(0)
    operator = rfp.nn.LearnedOperator(12)
    with torch.no_grad():
        # A sharp attention: that of fresh weights is almost of rank one, and rounding decides on what remains of it.
        operator.query.weight *= 4
        operator.key.weight *= 4
    return rfp.nn.RandomFeaturePropagation(operators=[operator], backend=backend, **options).to("cuda").train()


@pytest.mark.parametrize("trajectories", [1, 5])
@pytest.mark.parametrize("start", ["drawn", "unit", "orthonormal"])
@pytest.mark.parametrize(("normalization", "every"), [("qr", 1), ("qr", 2), ("l2", 1), ("none", 1)])
def test_learned_operators_in_one_kernel(normalization: str, every: int, start: str, trajectories: int) -> None:
    graph = molecule_like(128).to("cuda")
    x = torch.randn(graph.num_nodes, 12, generator=torch.Generator().manual_seed(1)).to("cuda")
    # Two products between normalisations square the condition number, which eight columns do not bear in float32.
    options = {"num_channels": 8 // every, "num_steps": 6, "normalization": normalization, "normalize_every": every}
    options |= {"num_trajectories": trajectories, "start": start}
    found = []
    for backend in ("learned", "sparse"):
        encoder = learned_encoder(backend, **options)
        out = encoder(graph, x=x)
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to("cuda")
        found.append((out.detach(), torch.autograd.grad((out * weight).sum(), list(encoder.parameters()))))
    (states, grads), (right, right_grads) = found
    torch.testing.assert_close(states, right, atol=1e-4, rtol=1e-4)
    for got, want in zip(grads, right_grads, strict=True):
        assert float((got - want).norm()) <= 1e-3 * float(want.norm())


@pytest.mark.parametrize("num_channels", [16, 32])
@pytest.mark.parametrize("sizes", [(1, 14), (15, 30), (31, 64)])
def test_learned_operators_of_every_width(num_channels: int, sizes: tuple[int, int]) -> None:
    # Rounding decides on small directions here, so each state is held against the one before it.
    numbers = torch.randint(sizes[0], sizes[1] + 1, (40,), generator=torch.Generator().manual_seed(3))
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), numbers.cumsum(0)])
    graph = Graph(torch.zeros(2, 0, dtype=torch.long), int(ptr[-1]), ptr=ptr).to("cuda")
    torch.manual_seed(4)
    x = torch.randn(graph.num_nodes, 6, device="cuda", requires_grad=True)
    learned = rfp.nn.LearnedOperator(6).to("cuda")(x, graph)
    features = rfp.random_features(graph, num_channels=num_channels)
    trajectory = rfp.propagate(learned, features, num_steps=8, ptr=graph.offsets)
    assert trajectory.report.backend == "learned"
    (gradient,) = torch.autograd.grad(trajectory.storage.pow(3).sum(), [x])
    assert bool(gradient.isfinite().all())
    assert float(gradient.norm()) > 0
    with torch.no_grad():
        matrix = (learned @ torch.eye(graph.num_nodes, device="cuda")).cpu().to_sparse_csr()
    settings = Settings(num_channels=num_channels, num_steps=8, operators=(matrix,))
    errors = step_errors(trajectory.storage.detach().cpu(), Problem.of(settings, graph.to("cpu")))
    assert errors.acceptable, errors


def test_auto_chooses_the_kernel_of_learned_operators() -> None:
    graph = molecule_like(20).to("cuda")
    learned = rfp.nn.LearnedOperator(3).to("cuda")(torch.randn(graph.num_nodes, 3, device="cuda"), graph)
    trajectory = rfp.encode(graph, operators=[learned], num_steps=3)
    assert trajectory.report.backend == "learned"
    assert "small graphs" in trajectory.report.reason
    assert rfp.encode(graph, operators=[learned, "adjacency"], num_steps=3).report.backend == "sparse"
