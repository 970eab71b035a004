"""The bound on rounding: by hand, against exact arithmetic, and the amplification against a perturbed decomposition."""

import numpy as np
import pytest
import torch

from rfp.rounding import UNITS, Rounding, amplification, rounding_unit


def test_by_hand() -> None:
    norm, lengths = torch.tensor([2.0]), torch.tensor([[[3.0, 1.0, 0.0]]], dtype=torch.float64)
    u = rounding_unit(torch.float32)
    assert u == UNITS * 2.0**-23
    first = Rounding.start(norm, lengths, torch.float32).after(torch.tensor([[[6.0, 1e-9, 0.0]]]).double())
    assert first.noise.flatten().tolist() == [6 * u, 2 * u, 0.0]
    second = first.after(torch.tensor([[[3.0, 2e-9, 0.0]]]).double())  # grows with the column
    torch.testing.assert_close(second.noise.flatten(), torch.tensor([3 * u + 12 * u, 4 * u + 2e-9 * u, 0.0]).double())
    assert second.renewed().after(lengths).noise.flatten().tolist() == [2 * u] * 3


def test_an_unknown_norm_is_the_largest_growth_seen() -> None:
    start = Rounding.start(None, torch.ones(1, 1, 2, dtype=torch.float64), torch.float64)
    u = rounding_unit(torch.float64)
    first = start.after(torch.tensor([[[3.0, 1e-17]]]).double())
    assert first.noise.flatten().tolist() == [3 * u, 3 * u]
    assert first.renewed().after(torch.tensor([[[0.5, 1e-17]]]).double()).noise.flatten().tolist() == [3 * u, 3 * u]


def test_amplification_by_hand() -> None:
    r = torch.tensor([[2.0, 4.0, 6.0], [0.0, 0.5, 1.0], [0.0, 0.0, 3.0]], dtype=torch.float64)
    # z1² = 1/4; a2² = 1 + 16/4 = 5, z2² = 5/.25 = 20; a3² = 1 + 36/4 + 1 * 20 = 30.
    torch.testing.assert_close(amplification(r), torch.tensor([1.0, 5**0.5, 30**0.5], dtype=torch.float64))


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_amplification_is_how_much_noise_the_residuals_carry(scale: float) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((9, 6))
    a[:, 3] = a[:, :3] @ [1.0, -2.0, 0.5] + scale * a[:, 3]  # nearly dependent
    r = np.linalg.qr(a)[1]
    alpha = amplification(torch.from_numpy(r * np.sign(np.diag(r))[:, None])).numpy()
    seen = []
    for _ in range(400):
        noise = 1e-9 * rng.standard_normal(a.shape)
        _, perturbed = np.linalg.qr(a + noise)
        seen.append(np.abs(np.diag(perturbed)) - np.abs(np.diag(r)))
    spread = np.std(seen, axis=0) / 1e-9
    np.testing.assert_array_less(spread, 2 * alpha)
    np.testing.assert_array_less(alpha, 5 * spread)
