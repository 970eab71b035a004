"""The plain normalisations against their definitions, per graph."""

import numpy as np
import pytest
import torch

from rfp.errors import ArgumentError
from rfp.normalization import as_normalization, column_lengths, inverse_gram, l2, none, qr

ONE = torch.tensor([0, 6])
TWO = torch.tensor([0, 6, 12])


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(dtype)


def test_l2_divides_each_channel_of_each_graph() -> None:
    a = draw(2, 12, 3)
    a[0, :6, 1] = 0
    out = l2(a, TWO)[0]
    for b in range(2):
        for rows in (slice(0, 6), slice(6, 12)):
            norm = np.linalg.norm(a[b, rows].numpy(), axis=0)
            expected = a[b, rows].numpy() / np.where(norm > 0, norm, 1)
            np.testing.assert_allclose(out[b, rows], expected, atol=1e-15)
    assert out[0, :6, 1].eq(0).all()


def test_l2_survives_values_whose_squares_overflow() -> None:
    a = torch.full((1, 6, 2), 3e30)
    a[..., 1] = 1e-30
    torch.testing.assert_close(l2(a, ONE)[0], torch.full((1, 6, 2), 6**-0.5))


@pytest.mark.parametrize("shape", [(1, 6, 4), (3, 6, 6), (2, 6, 1)])
def test_qr_equals_householder_up_to_signs(shape: tuple[int, ...]) -> None:
    a = draw(*shape)
    q = qr(a, ONE)[0]
    plain, r = torch.linalg.qr(a)
    torch.testing.assert_close(q, plain * r.diagonal(dim1=1, dim2=2).sign()[:, None])
    assert ((q.mT @ a).diagonal(dim1=1, dim2=2) > 0).all()


def test_qr_of_a_batch_is_qr_of_each_graph() -> None:
    one = draw(1, 6, 3)
    q = qr(torch.cat([one, one], dim=1), TWO)[0]
    # One QR over both graphs would leave columns of squared norm 1/2 in each.
    torch.testing.assert_close(q[:, :6].square().sum(1), torch.ones(1, 3, dtype=torch.float64))
    torch.testing.assert_close(q[:, :6], q[:, 6:])


def test_qr_zeroes_dependent_columns_and_does_not_project_on_them() -> None:
    a = draw(1, 6, 5)
    a[..., 2] = 2 * a[..., 0] - a[..., 1]
    a[..., 3] = 0
    q, events = qr(a, ONE)
    assert q[..., 2:4].eq(0).all()
    kept = torch.linalg.qr(a[..., [0, 1, 4]])
    expected = kept.Q * kept.R.diagonal(dim1=1, dim2=2).sign()[:, None]
    torch.testing.assert_close(q[..., [0, 1, 4]], expected)
    assert events["dependent_columns"] == 2


def test_qr_with_fewer_nodes_than_channels_pads_with_zeros() -> None:
    q = qr(draw(1, 6, 9), ONE)[0]
    torch.testing.assert_close(q[0, :, :6].T @ q[0, :, :6], torch.eye(6, dtype=torch.float64))
    assert q[..., 6:].eq(0).all()


def test_qr_of_dependent_columns_is_equivariant_to_nodes() -> None:
    a = draw(1, 6, 2) @ draw(1, 2, 5)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    torch.testing.assert_close(qr(a[:, order], ONE)[0], qr(a, ONE)[0][:, order])


def test_inverse_gram() -> None:
    a = draw(2, 12, 3)
    out = inverse_gram(a, TWO)[0]
    for rows in (slice(0, 6), slice(6, 12)):
        block = a[1, rows].numpy()
        np.testing.assert_allclose(out[1, rows], block @ np.linalg.inv(block.T @ block), atol=1e-10)
    a[..., 2] = a[..., 0]
    assert inverse_gram(a, TWO)[0].isfinite().all()


def test_none_and_callables() -> None:
    a = draw(1, 6, 2)
    assert none(a, ONE)[0] is a
    halved = as_normalization(lambda a, ptr: a / len(ptr))
    torch.testing.assert_close(halved(a, ONE, None)[0], a / 2)
    with pytest.raises(ArgumentError, match="'l2', 'qr', 'inverse_gram', 'none', got 'QR'"):
        as_normalization("QR")


def test_inverse_gram_cuts_off_what_rounding_leaves_of_a_dependent_column() -> None:
    a = draw(1, 6, 3)
    a[..., 2] = a[..., 0] + 1e-7 * a[..., 2]  # 1e-14 of the Gram matrix, below the cut-off of 1e-12
    dependent = a.clone()
    dependent[..., 2] = a[..., 0]
    out = inverse_gram(a, ONE)[0]
    np.testing.assert_allclose(out[0], dependent[0].numpy() @ np.linalg.pinv(
        dependent[0].numpy().T @ dependent[0].numpy(), rcond=1e-12, hermitian=True), atol=1e-5)  # fmt: skip


def test_inverse_gram_keeps_what_is_above_the_cut_off() -> None:
    # A column of 1e-4: 1e-8 of the Gram matrix. a (a'a)^-1 of orthogonal columns divides each by its squared length.
    a = torch.tensor([[[1.0, 0.0], [0.0, 1e-4], [1.0, 0.0]]])
    np.testing.assert_allclose(inverse_gram(a, torch.tensor([0, 3]))[0][0], [[0.5, 0], [0, 1e4], [0.5, 0]], rtol=1e-6)


def test_with_fewer_nodes_than_channels_the_first_columns_are_kept() -> None:
    a = draw(1, 3, 5)
    a[..., 1] = 2 * a[..., 0]  # so columns 0, 2 and 3 span all; 1 and 4 are dropped
    kept = qr(a, torch.tensor([0, 3]))[0].abs().sum(1)[0] > 0
    assert kept.tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_nodes", [0, 3, 5000])  # more than are summed at a time
def test_column_lengths_of_one_graph(dtype: torch.dtype, num_nodes: int) -> None:
    a = torch.randn(2, num_nodes, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)
    before = a.clone()
    expected = a.double().square().sum(1).sqrt()[None]
    torch.testing.assert_close(column_lengths(a, torch.tensor([0, num_nodes])), expected, rtol=1e-12, atol=0)
    assert torch.equal(a, before)


def test_column_lengths_of_graphs_of_one_size() -> None:
    """Summed as a block when the size is known: the same numbers and gradients, also where a column is zero."""
    a = torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0)).double()
    a[0, 4:8, 1] = 0
    a.requires_grad_()
    ptr = torch.tensor([0, 4, 8, 12])
    expected, found = column_lengths(a, ptr), column_lengths(a, ptr, (4, 4))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    assert expected[1, 0, 1] == 0
    of_expected, of_found = (torch.autograd.grad(each.sum(), a)[0] for each in (expected, found))
    torch.testing.assert_close(of_found, of_expected, rtol=1e-12, atol=0)
    assert of_found.isfinite().all()
    uneven = torch.tensor([0, 3, 8, 12])
    torch.testing.assert_close(column_lengths(a, uneven, (3, 5)), column_lengths(a, uneven), rtol=0, atol=0)
