"""Kernels of products (interpreted) against the plain form in float64, and the rule that chooses them."""

from __future__ import annotations

import pytest
import torch
from tests.interpreter import run_interpreted
from torch._subclasses.fake_tensor import FakeTensorMode

from rfp.nn import multiplied_states
from rfp.nn.multiplied_states import kernels_multiply

# [L, n, T, k, m]: one of everything; more rows than a tile has; more products and states than a tile has, and channels
# in two pieces, the second not full. Tiles are made small below, for the interpreter is slow.
SIZES = {
    "gram": [(None, 1, 1, 1, 1), (2, 9, 4, 5, 3), (None, 3, 17, 70, 18)],
    "weighted": [(None, 1, 1, 1, 1), (2, 3, 17, 40, 18)],
}

KERNELS = """
import torch
from rfp.nn import TrajectoryProducts, trajectory_products
from rfp.nn import triton_gram_products, triton_weighted_products

triton_gram_products._PROGRAMS = triton_weighted_products._PROGRAMS = 5  # so that programs share rows, and sums are cut
triton_gram_products._ROWS = triton_gram_products._PRODUCTS = triton_gram_products._COLUMNS = 16
triton_gram_products._TILES = {{"ROWS": 16, "COLUMNS": 16, "M": 16}}
trajectory_products.products_agree = lambda *arguments, **options: True  # has a test of its own
generator = torch.Generator().manual_seed(0)


def gradients(module, t, pairs, weight):
    y = module.node_products(t) if pairs is None else module.pair_products(t, pairs)
    kept = [p for p in (module.first, module.second, module.alpha) if p is not None]
    return y.detach(), *torch.autograd.grad((y * weight[: y.numel()].view(y.shape).to(y.dtype)).sum(), kept)


for leading, n, states, channels, products in {sizes}:
    torch.manual_seed(1)
    module = TrajectoryProducts(channels, states, 4, num_products=products, channel_weights={weighted})
    if module.alpha is not None:
        torch.nn.init.uniform_(module.alpha, -1, 1)
    shape = (n, states * channels) if leading is None else (leading, n, states * channels)
    t = torch.randn(shape, generator=generator)
    t = t if leading is None else t.transpose(0, 1).contiguous().transpose(0, 1)  # node-first in memory
    weight = torch.randn(10_000, generator=generator)
    some = torch.randint(0, n, (2, 4), generator=generator)
    turned = some.T.contiguous().T  # the ends of a pair side by side in memory
    for pairs in (None, some, turned, some[:, :0]) if n == 3 else (None, some):
        trajectory_products.kernels_multiply = lambda *arguments, **options: True
        found = gradients(module, t, pairs, weight)
        trajectory_products.kernels_multiply = lambda *arguments, **options: False
        expected = gradients(module.double(), t.double(), pairs, weight)
        module.float()
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape, (one.shape, other.shape)
            assert one.dtype == torch.float32
            error = float((one - other).norm())
            assert error <= 1e-6 * float(other.norm()), (leading, n, states, channels, products, error)
"""

GRAMS = """
from rfp.nn.gram_rows import gram_rows
from rfp.nn.multiplied_states import node_grams, products_of_grams

for shape in ((3, 4, 5), (2, 3, 4, 5)):
    states, scale = torch.randn(shape), torch.rand(3, 1) + 1
    for given in (None, scale):
        rows = node_grams(states, given)
        torch.testing.assert_close(rows, gram_rows(states, given))
    first, second = torch.randn(6, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    node_first = rows.movedim(-2, 0).contiguous().movedim(0, -2)
    spread = torch.stack([rows, rows], -1)[..., 0]
    expected = ((states.mT @ first.mT) * (states.mT @ second.mT)).mean(-2) * scale
    for laid_out in (rows, node_first, spread):
        y = products_of_grams(laid_out, first, second)
        torch.testing.assert_close(y, expected)
        found, right = (torch.autograd.grad(one.square().sum(), [first, second]) for one in (y, expected))
        for one, other in zip(found, right, strict=True):
            torch.testing.assert_close(one, other)
        expected = ((states.mT @ first.mT) * (states.mT @ second.mT)).mean(-2) * scale
"""

REPLICAS = """
import copy
from rfp.nn import replicated

plain = [TrajectoryProducts(4, 3, 2, num_products=5, norm="layer") for _ in range(2)]
together = replicated.replicate(torch.nn.ModuleList([copy.deepcopy(plain[0])]), 2)[0]
with torch.no_grad():
    for name, p in together.named_parameters():
        for r in range(2):
            p[r].copy_(dict(plain[r].named_parameters())[name])
t, pairs = torch.randn(2, 3, 12), torch.tensor([[0, 2], [1, 2]])
expected = [torch.stack([one(t) for one in plain]), torch.stack([one.pairs(t, pairs) for one in plain])]
trajectory_products.kernels_multiply = lambda *arguments, **options: True
trajectory_products._PAIR_BYTES = 1  # one pair at a time, where no gradient is kept
with torch.no_grad():
    found = [together(t), together.pairs(t, pairs)]
for one, other in zip(found, expected, strict=True):
    torch.testing.assert_close(one, other)
"""


def test_kernels_equal_the_plain_form() -> None:
    # Without weights more states for so few channels would take the plain form.
    assert all(states <= 2 * channels for _, _, states, channels, _ in SIZES["gram"])
    code = KERNELS.format(sizes=SIZES["gram"], weighted=False) + REPLICAS + GRAMS
    run_interpreted(code + 'print("equal")\n')


def test_kernels_with_channel_weights_equal_the_plain_form() -> None:
    run_interpreted(KERNELS.format(sizes=SIZES["weighted"], weighted=True) + 'print("equal")\n')


def test_which_trajectories_the_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplied_states, "triton_available", lambda: True)
    shape, strides = (100, 51, 64), (51 * 64, 64, 1)
    with FakeTensorMode():
        zinc = torch.empty(shape, device="cuda")
        assert kernels_multiply(zinc, 64, weighted=False)
        assert kernels_multiply(zinc, 64, weighted=True)
        assert kernels_multiply(zinc, 500, weighted=False)
        node_first = torch.empty_strided((5, *shape), (strides[0], 5 * strides[0], *strides[1:]), device="cuda")
        assert kernels_multiply(node_first, 64, weighted=False)
        learned = torch.empty(shape, device="cuda", requires_grad=True)
        refused = {
            "a CPU": (torch.empty(shape), 64, False),
            "float64": (torch.empty(shape, device="cuda", dtype=torch.float64), 64, False),
            "a gradient": (learned, 64, False),
            "replicas of their own": (torch.empty(2, 3, *shape, device="cuda"), 64, False),
            "channels first": (torch.empty_strided(shape, (51 * 64, 1, 51), device="cuda"), 64, False),
            "every other channel": (torch.empty_strided(shape, (51 * 128, 128, 2), device="cuda"), 64, False),
            "too many states": (torch.empty(100, 129, 64, device="cuda"), 64, False),
            "too many products with weights": (zinc, 65, True),
            "no node": (torch.empty(0, 51, 64, device="cuda"), 64, False),
        }
        for reason, (states, products, weighted) in refused.items():
            assert not kernels_multiply(states, products, weighted=weighted), reason
        with torch.no_grad():
            assert kernels_multiply(learned, 64, weighted=False)
    monkeypatch.setattr(multiplied_states, "triton_available", lambda: False)
    with FakeTensorMode():
        assert not kernels_multiply(torch.empty(100, 51, 64, device="cuda"), 64, weighted=False)
