"""The look at kernels of products before they count: right ones are taken, wrong ones are not and are reported."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.interpreter import run_interpreted

from rfp.nn import TrajectoryProducts, products_agree
from rfp.nn.replicated import replicate


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("of_pairs", [False, True])
def test_the_definition_is_that_of_the_module(weighted: bool, of_pairs: bool) -> None:
    torch.manual_seed(0)
    module = TrajectoryProducts(4, 3, 2, num_products=5, channel_weights=weighted).double()
    t, pairs = torch.randn(2, 6, 12).double(), torch.tensor([[0, 2, 5], [1, 2, 0]]) if of_pairs else None
    expected = module.node_products(t) if pairs is None else module.pair_products(t, pairs)
    weights = [module.first, module.second] + ([module.alpha] if weighted else [])
    found = products_agree._defined(t.view(2, 6, 3, 4), *weights, pairs)
    torch.testing.assert_close(found, expected)


def test_the_definition_of_replicas() -> None:
    module = TrajectoryProducts(4, 3, 2, num_products=5, norm="layer").double()
    together = replicate(torch.nn.ModuleList([copy.deepcopy(module)]), 3)[0]
    t = torch.randn(2, 6, 12).double()
    found = products_agree._defined(t.view(2, 6, 3, 4), together.first, together.second, None)
    torch.testing.assert_close(found, together.node_products(t))


LOOK = """
import warnings
import torch
from rfp.nn import TrajectoryProducts, multiplied_states, products_agree, trajectory_products
from rfp.nn import triton_gram_products, triton_weighted_products

trajectory_products.kernels_multiply = lambda *arguments, **options: True
products_agree._ROWS = 5
calls = []


def spied(module, name, wrong=None):
    right = getattr(module, name)

    def launch(*arguments):
        calls.append(name)
        out = right(*arguments)
        return out if wrong is None else wrong(out)

    setattr(module, name, launch)
    return right


for weighted, module in ((False, triton_gram_products), (True, triton_weighted_products)):
    forward = "launch_weighted_products" if weighted else "launch_gram_products"
    backward = forward + "_gradient"
    products = TrajectoryProducts(2, 3, 2, num_products=4, channel_weights=weighted)
    t, pairs = torch.randn(1, 4, 6), torch.tensor([[0, 1], [2, 3]])
    expected = products._by_channels(*[t.view(1, 4, 3, 2)] * 2, each=False).detach()

    # Right kernels are looked at once, in both directions, and then used.
    right = spied(module, forward), spied(module, backward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.no_grad():
            torch.testing.assert_close(products.node_products(t), expected)
        assert calls == [forward, backward, forward], calls
        products.node_products(t)
        assert calls == [forward, backward, forward, forward], calls
        products.pair_products(t, pairs)  # of another form: looked at too
        assert calls[4:] == [forward, backward, forward], calls
    setattr(module, forward, right[0]), setattr(module, backward, right[1])

    # A product that is wrong by a little, or a gradient: the plain form is taken, and it is said once.
    for wrong in (lambda y: y * 1.0001, lambda y: y * float("nan")):
        for name in (forward, backward):
            products_agree._looks.known.clear()
            each = wrong if name == forward else lambda several: (*several[:-1], wrong(several[-1]))
            kept = spied(module, name, each)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for _ in range(2):
                    torch.testing.assert_close(products.node_products(t), expected)
            assert len(said) == 1 and "wrong on cpu" in str(said[0].message), [str(one.message) for one in said]
            setattr(module, name, kept)
    products_agree._looks.known.clear()
    calls.clear()
print("equal")
"""


def test_kernels_are_looked_at_before_they_count() -> None:
    run_interpreted(LOOK)
