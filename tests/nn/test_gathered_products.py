"""Products of one matrix whose gradient in it is written once."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor

from rfp.nn.gathered_products import GatheredProducts
from rfp.train.replica_memory import LiveBytes


class Full(torch.autograd.Function):
    """Nothing, and in the backward pass no room for it."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise torch.OutOfMemoryError


def test_the_gradients_are_those_of_plain_products() -> None:
    draw = torch.Generator().manual_seed(0)
    matrix = torch.randn(2, 5, 5, generator=draw, dtype=torch.float64)
    start = torch.randn(2, 5, 3, generator=draw, dtype=torch.float64)

    def gradients(*, gathered: bool) -> list[Tensor]:
        S, a = matrix.clone().requires_grad_(), start.clone().requires_grad_()
        products = GatheredProducts(S) if gathered else S
        first = (products @ a).tanh()
        second = products @ (first / first.norm())  # of which another branch follows
        (first.sum() + (products @ second).square().sum() + second.sum()).backward()
        assert S.grad is not None
        assert a.grad is not None
        return [S.grad, a.grad]

    for one, expected in zip(gradients(gathered=True), gradients(gathered=False), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("products_first", [0, 1, 3])
def test_a_backward_pass_that_fails_halfway_leaves_nothing(products_first: int) -> None:
    """What was gathered must not hold the history that leads back to it: a smaller try needs the memory."""
    with LiveBytes(most=float("inf")) as live:

        def one() -> None:
            S = torch.rand(1, 30, 30).requires_grad_()
            products, a = GatheredProducts(S), torch.ones(1, 30, 2)
            for number in range(4):
                a = products @ a
                if number == products_first:
                    a = Full.apply(a)
            with pytest.raises(torch.OutOfMemoryError):
                a.sum().backward()

        one()
        # On a CPU the engine keeps what it had not come to until the next pass of this thread.
        torch.zeros((), requires_grad=True).backward()
        gc.collect()
        assert live.now == 0
