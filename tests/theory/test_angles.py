"""Principal angles against known rotations and SciPy."""

import math

import pytest
import scipy.linalg
import torch

from rfp.errors import ArgumentError
from rfp.theory.angles import principal_angles


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 0.3, math.pi / 4, 1.5, math.pi / 2 - 1e-9, math.pi / 2])
def test_a_plane_turned_about_an_axis(angle: float) -> None:
    plane = torch.eye(4, dtype=torch.float64)[:, :2]
    turned = plane.clone()
    turned[1, 1], turned[2, 1] = math.cos(angle), math.sin(angle)
    measured = principal_angles(plane, turned)
    assert measured[0] == pytest.approx(0, abs=1e-15)
    assert float(measured[1]) == pytest.approx(angle, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(("k", "l"), [(1, 1), (4, 4), (5, 2)])
def test_against_scipy_and_any_basis(k: int, l: int) -> None:  # noqa: E741
    generator = torch.Generator().manual_seed(k)
    u, v = (torch.randn(20, size, generator=generator, dtype=torch.float64) for size in (k, l))
    angles = principal_angles(u, v)
    expected = scipy.linalg.subspace_angles(u.numpy(), v.numpy())[::-1]
    assert angles.numpy() == pytest.approx(expected.copy(), abs=1e-12)
    change = torch.randn(k, k, generator=generator, dtype=torch.float64)
    assert torch.allclose(principal_angles(u @ change, v), angles, atol=1e-10)


@pytest.mark.parametrize("shapes", [((5, 2), (6, 2)), ((5, 2), (5, 3)), ((2, 3), (2, 1)), ((5,), (5, 1))])
def test_shapes_that_have_no_angles(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ArgumentError, match="principal angles need"):
        principal_angles(torch.ones(shapes[0]), torch.ones(shapes[1]))
