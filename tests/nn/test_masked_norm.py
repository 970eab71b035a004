"""Batch normalisation that leaves padding out, against PyTorch's on the real rows alone."""

import copy

import pytest
import torch
from tests.interpreter import run_interpreted
from torch import nn

from rfp.nn.layers import MLP, FeatureNorm, real_rows
from rfp.nn.masked_norm import masked_batch_norm


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_equals_batch_norm_of_the_real_rows(leading: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(*leading, 7, 4) * 3 + 5
    real = torch.tensor([1.0, 1, 1, 1, 1, 0, 0])[:, None]
    norm = nn.BatchNorm1d(4)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    twin = copy.deepcopy(norm)
    some = x[..., :5, :].clone().requires_grad_()
    x[..., 5:, :] = 1e6  # whatever stands there
    padded = x.clone().requires_grad_()
    weight = torch.randn(*leading, 5, 4)
    out = masked_batch_norm(padded, real, norm)[..., :5, :]
    expected = twin(some.reshape(-1, 4)).view(some.shape)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(padded.grad[..., :5, :], some.grad, atol=1e-5, rtol=1e-4)
    assert padded.grad[..., 5:, :].abs().max() == 0
    torch.testing.assert_close(norm.weight.grad, twin.weight.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm.bias.grad, twin.bias.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm.running_mean, twin.running_mean)
    torch.testing.assert_close(norm.running_var, twin.running_var)


def test_real_rows_is_for_a_while_and_for_training() -> None:
    torch.manual_seed(0)
    mlp = MLP(4, 4, norm="batch")
    x = torch.randn(6, 4)
    real = torch.tensor([1.0, 1, 1, 0, 0, 0])[:, None]
    usual = copy.deepcopy(mlp)(x[:3])
    with real_rows(mlp, real):
        torch.testing.assert_close(mlp(x)[:3], usual)
    norms = [module for module in mlp.modules() if isinstance(module, FeatureNorm)]
    assert [norm.real for norm in norms] == [None]
    mlp.eval()
    with real_rows(mlp, real):
        torch.testing.assert_close(mlp(x)[:3], mlp(x[:3]))


def test_half_precision_keeps_its_type() -> None:
    norm = nn.BatchNorm1d(4)
    out = masked_batch_norm(torch.randn(6, 4, dtype=torch.bfloat16), torch.ones(6, 1), norm)
    assert out.dtype == torch.bfloat16
    assert norm.running_mean.dtype == torch.float32


KERNELS = """
import copy, torch
from torch import nn
from rfp.nn import triton_masked_norm
from rfp.nn.masked_norm import FusedMaskedNorm, masked_batch_norm
triton_masked_norm._MAX_PARTS = 4  # so that a part has several tiles
torch.manual_seed(0)
shapes = (((7, 4), 5), ((1, 3), 1), ((150, 33), 149), ((3, 150, 33), 97), ((2, 400, 5), 400), ((300, 40), 20))
for shape, keep in shapes:
    norm = nn.BatchNorm1d(shape[-1])
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    twin = copy.deepcopy(norm)
    x = torch.randn(shape) * 3 + 100
    real = (torch.arange(shape[-2]) < keep).float()[:, None]
    weight = torch.randn(shape) * real  # no gradient comes in at the padding
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    fused, plain = FusedMaskedNorm.apply(mine, real, norm.weight, norm.bias, norm), masked_batch_norm(other, real, twin)
    torch.testing.assert_close(fused * real, plain * real, atol=1e-4, rtol=1e-4)
    (fused * weight).sum().backward()
    (plain * weight).sum().backward()
    torch.testing.assert_close(mine.grad, other.grad, atol=1e-4, rtol=1e-4)
    for name in ("weight", "bias"):
        torch.testing.assert_close(getattr(norm, name).grad, getattr(twin, name).grad, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(norm.running_mean, twin.running_mean)
    torch.testing.assert_close(norm.running_var, twin.running_var, atol=1e-5, rtol=1e-4)
print("equal")
"""


def test_kernels_equal_the_plain_path() -> None:
    run_interpreted(KERNELS)
