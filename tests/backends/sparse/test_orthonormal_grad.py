"""The guarded backward of QR: exact where the rank is full, finite and bounded where it is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rfp import normalization
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.backends.sparse.orthonormal_grad import GRADIENT_FLOOR, guarded_inverse, orthonormalize
from rfp.operators import DenseOperator
from rfp.propagate import propagate


def ladder(ptr: list[int], columns: int) -> Orthonormalizer:
    return Orthonormalizer.of(torch.tensor(ptr), columns)


@pytest.mark.parametrize("ptr", [[0, 7], [0, 4, 9], [0, 3, 3, 7]])
@pytest.mark.parametrize("trajectories", [1, 2])
def test_gradcheck_at_full_rank(ptr: list[int], trajectories: int) -> None:
    torch.manual_seed(0)
    a = torch.randn(trajectories, ptr[-1], 3, dtype=torch.float64, requires_grad=True)
    one = ladder(ptr, trajectories * 3)
    assert torch.autograd.gradcheck(lambda x: orthonormalize(one, x)[0], a)


def test_one_large_graph_in_node_first_memory_has_the_reference_gradient() -> None:
    # The layout for which the ladder may use kernels that expect triangular factors; the backward has none.
    torch.manual_seed(6)
    storage = torch.randn(600, 2, 5)
    target = torch.randn(600, 2, 5).transpose(0, 1)
    fast = storage.clone().requires_grad_()
    (orthonormalize(ladder([0, 600], 10), fast.transpose(0, 1))[0] * target).sum().backward()
    plain = storage.double().requires_grad_()
    (normalization.qr(plain.transpose(0, 1), torch.tensor([0, 600]))[0] * target).sum().backward()
    assert torch.allclose(fast.grad.double(), plain.grad, atol=1e-5)  # type: ignore[union-attr, arg-type]


def test_gradcheck_of_a_square_block() -> None:
    torch.manual_seed(1)
    a = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: orthonormalize(ladder([0, 3], 3), x)[0], a)


def test_dropped_columns_get_no_gradient_and_the_others_the_right_one() -> None:
    torch.manual_seed(2)
    free = torch.randn(1, 9, 3, dtype=torch.float64)

    def with_dependent(x: Tensor) -> Tensor:  # the column between is twice the first
        return torch.stack([x[..., 0], 2 * x[..., 0].detach(), x[..., 1], x[..., 2]], dim=-1)

    # Computed on the independent columns alone, by torch's own decomposition.
    alone = free.clone().requires_grad_()
    q, r = torch.linalg.qr(alone[0])
    target = torch.randn(9, 3, dtype=torch.float64)
    ((q * r.diagonal().sign()) * target).sum().backward()
    x = free.clone().requires_grad_()
    a = with_dependent(x)
    a.retain_grad()
    out = orthonormalize(ladder([0, 9], 4), a)[0]
    assert not out[..., 1].any()
    weighted = torch.stack([target[:, 0], torch.ones(9, dtype=torch.float64), target[:, 1], target[:, 2]], dim=-1)
    (out[0] * weighted).sum().backward()
    assert a.grad is not None
    assert not a.grad[..., 1].any()
    assert torch.allclose(x.grad, alone.grad, atol=1e-10)  # type: ignore[arg-type]


def test_fewer_nodes_than_channels() -> None:
    torch.manual_seed(3)
    a = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    out = orthonormalize(ladder([0, 3], 10), a)[0]
    assert not out[..., 3:].any()
    grad = torch.autograd.grad((out * torch.randn_like(out)).sum(), a)[0]
    assert grad.isfinite().all()
    assert not grad[..., 3:].any()
    part = a.detach()[..., :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: orthonormalize(ladder([0, 3], 6), x)[0], part)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-7, 1e-10, 0.0])
def test_gradient_is_bounded_whatever_the_rank(gap: float, dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    base = torch.randn(2, 40, 6, dtype=torch.float64)
    base[..., 3] = base[..., 2] + gap * base[..., 3]
    base[1, :20] *= 1e3  # another scale, for the second trajectory
    a = base.to(dtype).requires_grad_()
    out = orthonormalize(ladder([0, 20, 40], 12), a)[0]
    grad_q = torch.randn_like(out)
    grad = torch.autograd.grad((out * grad_q).sum(), a)[0]
    assert grad.isfinite().all()
    for rows in (slice(0, 20), slice(20, 40)):
        for b in range(2):
            scale = float(a[b, rows].detach().norm(dim=0).max())
            assert float(grad[b, rows].norm()) <= 1.001 * float(grad_q[b, rows].norm()) / (GRADIENT_FLOOR * scale)
    if gap == 1e-2:
        exact = a.detach().double().requires_grad_()
        normalized = normalization.qr(exact, torch.tensor([0, 20, 40]))[0]
        expected = torch.autograd.grad((normalized * grad_q).sum(), exact)[0]
        assert torch.allclose(grad.double(), expected, rtol=1e-2, atol=1e-2 * float(expected.abs().max()))


def test_raised_pivots_and_left_out_columns() -> None:
    r = torch.tensor([[[[2.0, 1.0, 5.0], [0.0, 1e-9, 1.0], [0.0, 0.0, 4.0]]]], dtype=torch.float64)
    kept = torch.tensor([[[True, True, True]]])
    inverse, floor = guarded_inverse(r, kept)
    largest = (25 + 1 + 16) ** 0.5
    assert float(floor) == pytest.approx(GRADIENT_FLOOR * largest)
    assert float(inverse[0, 0, 1, 1]) == pytest.approx(1 / (GRADIENT_FLOOR * largest))
    without, _ = guarded_inverse(r, torch.tensor([[[True, False, True]]]))
    expected = torch.tensor([[0.5, 0.0, -5 / 8], [0, 0, 0], [0, 0, 0.25]], dtype=torch.float64)
    assert torch.allclose(without[0, 0], expected)


def test_without_gradient_it_is_the_plain_ladder() -> None:
    a = torch.randn(1, 9, 3)
    one = ladder([0, 9], 3)
    assert torch.equal(orthonormalize(one, a)[0], one(a)[0])
    a.requires_grad_()
    with torch.no_grad():
        assert orthonormalize(one, a)[0].grad_fn is None


@pytest.mark.parametrize("normalization_name", ["qr", "l2", "none"])
@pytest.mark.parametrize("every", [1, 2])
def test_a_learned_operator_has_the_gradient_of_the_reference(normalization_name: str, every: int) -> None:
    torch.manual_seed(5)
    features = torch.randn(2, 11, 3, dtype=torch.float64)
    weight = torch.randn(2, 11, 5, 3, dtype=torch.float64)
    blocks = torch.block_diag(torch.rand(5, 5), torch.rand(6, 6)).double()
    grads, values = [], []
    for backend in ("reference", "auto"):
        matrix = blocks.clone().requires_grad_()
        t = propagate(
            DenseOperator(matrix),
            features,
            num_steps=4,
            normalization=normalization_name,
            normalize_every=every,
            ptr=torch.tensor([0, 5, 11]),
            backend=backend,
        )
        assert t.report.backend == ("reference" if backend == "reference" else "sparse")
        values.append(t.states.detach())
        grads.append(torch.autograd.grad((t.states * weight).sum(), matrix)[0])
    assert torch.allclose(values[0], values[1], atol=1e-10)
    assert torch.allclose(grads[0], grads[1], atol=1e-8)


def test_l2_of_a_zero_column_has_a_finite_gradient() -> None:
    a = torch.randn(1, 6, 2, dtype=torch.float64)
    a[..., 1] = 0
    for ptr in ([0, 6], [0, 2, 6]):
        x = a.clone().requires_grad_()
        normalization.l2(x, torch.tensor(ptr))[0].sum().backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_a_gradient_longer_than_the_bound_is_shortened_to_it_and_keeps_its_direction() -> None:
    """Pivots at twice the floor are left as they are; only the length of what they make of it is limited."""
    generator = torch.Generator().manual_seed(6)
    low = 2 * GRADIENT_FLOOR
    factor = torch.tensor([[1.0, 0.5, 0.5], [0.0, low, 0.5], [0.0, 0.0, low]], dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(20, 3, generator=generator, dtype=torch.float64))[0]
    weight = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    ptr, largest = torch.tensor([0, 20]), 1.0
    a = (basis @ factor)[None].requires_grad_()
    guarded = torch.autograd.grad((orthonormalize(Orthonormalizer.of(ptr, 3), a)[0] * weight).sum(), a)[0]
    free = torch.autograd.grad((normalization.qr(a, ptr)[0] * weight).sum(), a)[0]
    longest = float(weight.norm()) / (GRADIENT_FLOOR * largest)
    assert float(free.norm()) > 1.2 * longest
    torch.testing.assert_close(guarded, free * (longest / free.norm()), rtol=1e-5, atol=1e-5 * longest)
