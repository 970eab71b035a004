"""Norms and perceptrons on any number of leading dimensions."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from rfp.errors import ArgumentError
from rfp.nn.layers import ACTIVATIONS, MLP, FeatureNorm, activation
from rfp.nn.settled_norm import SETTLED_AFTER, SettledNorm


def test_batch_norm_takes_trajectories_and_nodes_alike() -> None:
    torch.manual_seed(0)
    norm = FeatureNorm("batch", 3).train()
    x = 5 + 2 * torch.randn(4, 6, 3)
    out = norm(x)
    assert out.shape == x.shape
    assert torch.allclose(out.mean((0, 1)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(out.var((0, 1), unbiased=False), torch.ones(3), atol=1e-3)
    assert torch.allclose(norm(x.flatten(0, 1)).view_as(x), out, atol=1e-6)


def test_layer_norm_and_none() -> None:
    x = torch.randn(2, 5, 8)
    assert torch.allclose(FeatureNorm("layer", 8)(x).mean(-1), torch.zeros(2, 5), atol=1e-6)
    assert torch.equal(FeatureNorm("none", 8)(x), x)
    with pytest.raises(ArgumentError, match="norm must be one of 'batch', 'layer', 'none', 'settled'"):
        FeatureNorm("instance", 8)


def test_batch_norm_of_one_row_uses_the_running_statistics() -> None:
    norm = FeatureNorm("batch", 3).train()
    x = torch.tensor([[1.0, 2.0, 3.0]])
    assert torch.allclose(norm(x), x, atol=1e-4)  # running mean 0, variance 1


def test_settled_norm_averages_the_first_batches_and_then_stays() -> None:
    torch.manual_seed(0)
    norm = FeatureNorm("settled", 3).train()
    batches = [3 + 2 * torch.randn(2, 7, 3) for _ in range(SETTLED_AFTER + 5)]
    for count, x in enumerate(batches, start=1):
        seen = batches[: min(count, SETTLED_AFTER)]
        mean = torch.stack([one.mean((0, 1)) for one in seen]).mean(0)
        var = torch.stack([one.var((0, 1), unbiased=False) for one in seen]).mean(0)
        torch.testing.assert_close(norm(x), (x - mean) / (var + 1e-5).sqrt(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm.eval()(x), norm.train()(x))
    norm.reset_parameters()
    torch.testing.assert_close(norm.eval()(x), x, atol=1e-4, rtol=1e-4)


def test_settled_norm_leaves_padding_and_gradients_out_of_its_statistics() -> None:
    torch.manual_seed(0)
    x, real = torch.randn(4, 6, 3), torch.tensor([1, 1, 0, 1, 0, 1.0])[:, None]
    padded, plain = FeatureNorm("settled", 3).train(), FeatureNorm("settled", 3).train()
    rows = real.flatten() > 0
    torch.testing.assert_close(padded(x, real)[:, rows], plain(x[:, rows]))
    x.requires_grad_()
    padded(x, real).sum().backward()
    assert x.grad is not None
    norm = padded.norm
    assert isinstance(norm, SettledNorm)
    torch.testing.assert_close(x.grad, (norm.weight / (norm.var + 1e-5).sqrt()).expand_as(x))
    assert torch.equal(FeatureNorm("settled", 3).train()(x[:0]), x[:0])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_the_functions_they_name(name: str) -> None:
    x = torch.linspace(-2, 2, 9)
    functions = {"relu": torch.relu, "tanh": torch.tanh, "none": lambda t: t}
    expected = functions.get(name, getattr(torch.nn.functional, name, None))
    assert torch.allclose(activation(name)(x), expected(x))  # type: ignore[misc]


def test_mlp_widths_and_leading_dimensions() -> None:
    mlp = MLP(3, 2, hidden_channels=7, num_layers=3, norm="batch", dropout=0.1).eval()
    assert [tuple(p.shape) for p in mlp.parameters() if p.dim() == 2] == [(7, 3), (7, 7), (2, 7)]
    x = torch.randn(4, 5, 3)
    assert torch.allclose(mlp(x)[2], mlp(x[2]), atol=1e-6)
    single = MLP(3, 2, num_layers=1)
    weight, bias = single.parameters()
    assert torch.allclose(single(x), x @ weight.T + bias, atol=1e-6)
    before = weight.clone()
    single.reset_parameters()
    assert not torch.equal(before, weight)
    with pytest.raises(ArgumentError, match="num_layers must be at least 1, got 0"):
        MLP(3, 2, num_layers=0)
    with pytest.raises(ArgumentError, match="activation must be one of"):
        MLP(3, 2, act="swish")


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_settled_norm_learns_once_from_a_batch_that_is_computed_again(use_reentrant: bool) -> None:
    torch.manual_seed(0)
    plain, again = SettledNorm(3), SettledNorm(3)
    for _ in range(2):
        x = torch.randn(5, 3)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        plain(inputs[0]).square().sum().backward()
        checkpoint(again, inputs[1], use_reentrant=use_reentrant).square().sum().backward()
        assert torch.equal(inputs[0].grad, inputs[1].grad)  # type: ignore[arg-type]
    for mine, other in zip(again.buffers(), plain.buffers(), strict=True):
        assert torch.equal(mine, other)
