"""Moments, intervals and the stopping rule against SciPy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from rfp.errors import ArgumentError, NumericalError
from rfp.theory.sampling import ROUND, Affine, Moments, SampleEstimate, Sampling


def test_interval_is_students() -> None:
    terms = torch.from_numpy(np.random.default_rng(0).normal(3, 2, (7, 40)))
    moments = Moments()
    moments.add(terms[:, :25], per_node=True)
    moments.add(terms[:, 25:], per_node=True)
    got = moments.estimate(
        Sampling(confidence=0.9, per_node=True), Affine(scale=-2, offset=5), known=1.5, known_diagonal=None
    )
    samples = -2 * (1.5 + terms.sum(0).numpy()) + 5
    expected = scipy.stats.t.interval(0.9, 39, loc=samples.mean(), scale=scipy.stats.sem(samples))
    assert got.value == pytest.approx(samples.mean())
    assert got.standard_error == pytest.approx(scipy.stats.sem(samples))
    assert got.interval == pytest.approx(expected)
    assert got.half_width == pytest.approx((expected[1] - expected[0]) / 2)
    assert got.relative_half_width == pytest.approx(got.half_width / abs(samples.mean()))
    assert got.num_samples == 40
    assert got.per_node is not None
    np.testing.assert_allclose(got.per_node, terms.mean(1))
    np.testing.assert_allclose(got.per_node_standard_error, scipy.stats.sem(terms.numpy(), axis=1))


def test_affine_per_node() -> None:
    moments = Moments()
    moments.add(torch.tensor([[1.0, 3.0], [5.0, 5.0]], dtype=torch.float64), per_node=True)
    target = Affine(node_scale=0.5, node_offset=torch.tensor([10.0, 20.0], dtype=torch.float64))
    known = torch.tensor([100.0, 0.0], dtype=torch.float64)
    got = moments.estimate(Sampling(per_node=True), target, known=100.0, known_diagonal=known)
    assert got.per_node is not None
    assert got.per_node_standard_error is not None
    assert got.per_node.tolist() == [0.5 * 102 + 10, 0.5 * 5 + 20]
    assert got.per_node_standard_error.tolist() == [0.5, 0.0]


def test_reached_compares_half_width_with_value() -> None:
    moments = Moments()
    moments.add(torch.tensor([[9.0, 11.0, 10.0, 10.0]], dtype=torch.float64), per_node=False)
    half = float(scipy.stats.t.ppf(0.975, 3) * scipy.stats.sem([9, 11, 10, 10]))
    for epsilon, reached in ((half / 10 * 1.01, True), (half / 10 * 0.99, False)):
        assert moments.estimate(Sampling(epsilon=epsilon), Affine(), 0.0, None).reached is reached
    assert moments.estimate(Sampling(), Affine(), 0.0, None).reached


def test_no_variance_is_reached_even_at_zero() -> None:
    moments = Moments()
    moments.add(torch.zeros(3, 5, dtype=torch.float64), per_node=False)
    got = moments.estimate(Sampling(epsilon=0.01), Affine(), 0.0, None)
    assert (got.reached, got.value, got.interval, got.relative_half_width) == (True, 0.0, (0.0, 0.0), 0.0)


def test_relative_half_width_of_zero_is_infinite() -> None:
    assert SampleEstimate(0.0, 1.0, (-2.0, 2.0), 0.95, 10, False).relative_half_width == math.inf


def test_a_confidence_that_rounds_to_1_has_an_interval_without_ends() -> None:
    moments = Moments()
    moments.add(torch.tensor([[9.0, 11.0]], dtype=torch.float64), per_node=False)
    got = moments.estimate(Sampling(confidence=math.nextafter(1, 0)), Affine(), 0.0, None)
    assert (got.value, got.interval) == (10.0, (-math.inf, math.inf))


def test_not_finite_is_refused() -> None:
    moments = Moments()
    moments.add(torch.tensor([[math.inf, 1.0]], dtype=torch.float64), per_node=False)
    with pytest.raises(NumericalError, match="range of float64"):
        moments.estimate(Sampling(), Affine(), 0.0, None)


def test_squares_beyond_float64_are_never_taken() -> None:
    """The same samples a power of two larger: the same estimate larger, bit for bit, also where squares overflow."""
    terms = torch.from_numpy(np.random.default_rng(1).normal(3, 2, (7, 40)))
    terms[2] *= 1e-9  # the scale is each node's own
    terms[3] = 0
    target, known = Affine(scale=-2, node_scale=0.5), torch.ones(7, dtype=torch.float64)
    estimates = []
    for factor in (1.0, 2.0**700):
        moments = Moments()
        moments.add(terms[:, :25] * factor, per_node=True)
        moments.add(terms[:, 25:] * factor, per_node=True)
        estimates.append(moments.estimate(Sampling(per_node=True), target, 1.5 * factor, known * factor))
    small, large = estimates
    assert large.value == small.value * 2.0**700
    assert large.standard_error == small.standard_error * 2.0**700
    assert large.interval == tuple(end * 2.0**700 for end in small.interval)
    assert large.half_width == small.half_width * 2.0**700
    assert small.per_node is not None
    assert small.per_node_standard_error is not None
    assert large.per_node is not None
    assert large.per_node_standard_error is not None
    assert torch.equal(large.per_node, small.per_node * 2.0**700)
    assert torch.equal(large.per_node_standard_error, small.per_node_standard_error * 2.0**700)
    expected = 0.5 * scipy.stats.sem(terms.numpy(), axis=1)
    np.testing.assert_allclose(small.per_node_standard_error, expected, rtol=1e-9)


def test_a_mean_or_an_interval_beyond_float64_is_refused() -> None:
    near = torch.full((1, 8), 1.2e308, dtype=torch.float64)  # whose sum is not finite, unlike their mean
    moments = Moments()
    moments.add(near, per_node=False)
    assert moments.estimate(Sampling(), Affine(), 0.0, None).interval == pytest.approx((1.2e308, 1.2e308))
    with pytest.raises(NumericalError, match="range of float64"):
        moments.estimate(Sampling(), Affine(), 1.2e308, None)
    moments.add(-near, per_node=False)
    with pytest.raises(NumericalError, match="range of float64"):
        moments.estimate(Sampling(confidence=1 - 1e-9), Affine(), 0.0, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be above 0, got 0.0"),
        ({"epsilon": -1.0}, "epsilon must be above 0"),
        ({"epsilon": math.nan}, "epsilon must be above 0"),
        ({"confidence": 1.0}, "confidence must be between 0 and 1, got 1.0"),
        ({"num_samples": 1}, "num_samples must be at least 2"),
        ({"distribution": "uniform"}, "variance 1"),
        ({"deflation": -1}, "deflation must be an integer of at least 0, got -1"),
        ({"deflation": 2.0}, "deflation must be an integer of at least 0, got 2.0"),
        ({"block_size": 0}, "block_size must be at least 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Sampling(**arguments)  # type: ignore[arg-type]


def test_blocks_fit_in_memory_and_in_a_round() -> None:
    assert Sampling().trajectories_at_once(100) == ROUND // 8
    assert Sampling().trajectories_at_once(10**9) == 1
    assert Sampling(block_size=1).trajectories_at_once(100) == 1
    assert Sampling(block_size=17).trajectories_at_once(100) == 2
    # One state of a block stays below 128 MiB.
    assert Sampling().trajectories_at_once(1_000_000) * 8 * 8 * 1_000_000 <= 2**27


def test_limits() -> None:
    assert Sampling().limit == 256
    assert Sampling(epsilon=0.1).limit == 16_384
    assert Sampling(epsilon=0.1, num_samples=50).limit == 50
