"""Encodings are made in full precision wherever they are called; autocast is for the network around them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

import rfp
from rfp import baselines
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.backends.sparse.orthonormal_grad import orthonormalize
from rfp.nn import LearnedOperator, RandomFeaturePropagation, RFPModel


def ring(n: int) -> torch.Tensor:
    nodes = torch.arange(n)
    there = torch.stack([nodes, (nodes + 1) % n])
    return torch.cat([there, there.flip(0)], dim=1)


def rings() -> Batch:
    draw = torch.Generator().manual_seed(0)
    return Batch.from_data_list([Data(edge_index=ring(n), x=torch.rand(n, 3, generator=draw)) for n in (5, 4)])


def encoded(*operators: Any, **more: Any) -> Callable[[], torch.Tensor]:
    return lambda: rfp.encode(rings(), operators=operators, num_channels=3, num_steps=3, **more).flat()


def last_state() -> torch.Tensor:
    S = rfp.operators.from_matrix(torch.rand(4, 4, generator=torch.Generator().manual_seed(1)))
    found = []
    for state in rfp.states(S, torch.ones(4, 2), num_steps=2, normalization="l2"):
        assert torch.is_autocast_enabled("cpu") is WITHIN[-1]  # whoever takes the states keeps autocast
        found.append(state)
    return found[-1]


def estimated() -> torch.Tensor:
    torch.manual_seed(0)
    model = RFPModel({"out_channels": 1, "in_channels": 3, "encodings": [{"name": "estimated_random_walk"}]}).eval()
    found: list[torch.Tensor] = []
    model.embed.register_forward_pre_hook(lambda module, args: found.extend(args[0]))
    model(rings())
    return found[-1]


WITHIN = [False]
ENCODINGS = {
    "power": encoded("normalized_adjacency^2"),
    "callable": encoded(lambda a: 2 * a),
    "dense": encoded(torch.block_diag(torch.ones(5, 5), torch.ones(4, 4))),
    "sparse": encoded("normalized_adjacency", backend="sparse"),
    "reference": encoded("normalized_adjacency", backend="reference"),
    "states": last_state,
    "diagonal": lambda: rfp.products.diagonal(rings(), num_powers=4).value,
    "return_probabilities": lambda: rfp.products.return_probabilities(rings(), walk_length=4).value,
    "estimated_random_walk": estimated,
    "random_walk": lambda: baselines.random_walk_pe(rings(), walk_length=4),
    "eigenvectors": lambda: baselines.eigenvectors(rings(), num_eigenvectors=3),
    "sgc": lambda: baselines.sgc(rings()),
    "nfp": lambda: baselines.nfp(rings(), num_steps=2),
    "power_embed": lambda: baselines.power_embed(rings(), num_steps=2),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_autocast_changes_no_encoding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = ENCODINGS[name]()
    monkeypatch.setitem(globals(), "WITHIN", [True])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        within = ENCODINGS[name]()
        assert torch.is_autocast_enabled("cpu")
    assert within.dtype == outside.dtype
    assert torch.equal(within, outside)


def learned() -> RandomFeaturePropagation:
    torch.manual_seed(0)
    operator = LearnedOperator(3)
    with torch.no_grad():  # far from a constant matrix
        operator.query.weight.mul_(3)
        operator.key.weight.mul_(3)
    return RandomFeaturePropagation(4, operators=[operator], num_steps=4).eval()


def test_features_in_half_precision_make_a_learned_operator_in_full() -> None:
    x = rings().x.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        within = learned()(rings(), x=x)
    assert within.dtype == torch.float32
    assert torch.equal(within, learned()(rings(), x=x.float()))


@pytest.mark.parametrize("ptr", [[0, 9], [0, 5, 9]])
def test_the_gradient_of_qr_is_in_full_precision_too(ptr: list[int]) -> None:
    grads = []
    for enabled in (False, True):
        a = torch.rand(1, 9, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
        q, _ = orthonormalize(Orthonormalizer.of(torch.tensor(ptr), 4), a)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            (q * torch.arange(4)).sum().backward()
        grads.append(a.grad)
    assert torch.equal(*grads)
