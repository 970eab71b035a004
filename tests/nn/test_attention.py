"""The three ways to multiply with an attention matrix, against one written out entry by entry."""

from __future__ import annotations

import math

import pytest
import torch

from rfp.nn.attention import attention_matrix, blockwise_product, fused_is_available, fused_product


def test_matrix_by_hand() -> None:
    q = torch.tensor([[[[1.0], [2.0]]]])  # one graph, one head, two nodes, d = 1
    k = torch.tensor([[[[0.0], [math.log(3.0)]]]])
    # Scores: row i is q_i times (0, log 3); softmax of (0, log 3) is (1/4, 3/4), of (0, 2 log 3) is (1/10, 9/10).
    expected = torch.tensor([[[0.25, 0.75], [0.1, 0.9]]])
    assert torch.allclose(attention_matrix(q, k, None), expected)


def test_heads_are_averaged_after_the_softmax() -> None:
    q = torch.tensor([[[[1.0]], [[-1.0]]]])  # two heads, one query
    k = torch.tensor([[[[0.0], [math.log(3.0)]], [[0.0], [math.log(3.0)]]]])
    assert torch.allclose(attention_matrix(q, k, None), torch.tensor([[[0.5, 0.5]]]))


def test_padding_gets_no_weight() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    real = torch.tensor([[True, True, False, False], [True, True, True, True]])
    matrix = attention_matrix(q, k, real)
    assert not matrix[0, :, 2:].any()
    assert torch.allclose(matrix.sum(-1), torch.ones(2, 4))
    assert torch.allclose(matrix[0, :2, :2], attention_matrix(q[:1, :, :2], k[:1, :, :2], None)[0])


@pytest.mark.parametrize("product", [blockwise_product, fused_product])
@pytest.mark.parametrize("columns", [1, 3, 8])
def test_products_equal_the_matrix(product: object, columns: int) -> None:
    torch.manual_seed(1)
    q, k = torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 8)
    a = torch.randn(2, 6, columns)
    for real in (None, torch.arange(6) < torch.tensor([[4], [6]])):
        expected = attention_matrix(q, k, real) @ a
        assert torch.allclose(product(q, k, a, real), expected, atol=1e-6)  # type: ignore[operator]


def test_fused_kernels_are_not_claimed_on_a_cpu() -> None:
    q = torch.randn(1, 2, 4, 8)
    assert not fused_is_available(q, q, 4, None)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_fused_product_on_a_gpu() -> None:
    torch.manual_seed(2)
    q, k, a = (
        torch.randn(2, 3, 700, 16, device="cuda"),
        torch.randn(2, 3, 700, 16, device="cuda"),
        torch.randn(2, 700, 20),
    )
    a = a.cuda()
    for real in (None, torch.arange(700, device="cuda") < torch.tensor([[400], [700]], device="cuda")):
        assert fused_is_available(q, k, 20, real)
        expected = attention_matrix(q.double(), k.double(), real) @ a.double()
        assert torch.allclose(fused_product(q, k, a, real).double(), expected, atol=1e-5)
