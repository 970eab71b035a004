"""What a Monte-Carlo estimate is asked for, when it stops, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import scipy.special
import torch
from torch import Tensor

from rfp.errors import ArgumentError, NumericalError, check_names
from rfp.features import Distribution
from rfp.settings import as_integer

# Samples between two looks at the interval, and the fewest an estimate may stop at: below that Student's interval is
# wide and its own width too uncertain to stop on.
ROUND = 32
# Channels drawn for one trajectory: a word of the hash serves two channels, and the word of a node serves them all. On
# 169,343 nodes 64 samples took 2.7 s as 64 trajectories of one channel and 0.9 s as channels of one trajectory.
SAMPLES_AT_ONCE = 8
# Samples drawn when nothing is said, without and with an interval to reach.
DEFAULT_SAMPLES = 256
DEFAULT_LIMIT = 16_384
# Bytes of one state of a block of samples when block_size is not given; about four states are held at once.
BLOCK_BYTES = 1 << 27


@dataclass(frozen=True)
class SampleEstimate:
    """The mean of independent samples, with its uncertainty.

    Args:
        value: The estimate. It is unbiased, so an estimated count is no integer and may be negative.
        standard_error: Sample deviation over the square root of the number of samples.
        interval: Student's confidence interval around ``value``.
        confidence: Its nominal coverage.
        num_samples: M, how many were drawn.
        reached: Whether the interval asked for by ``epsilon`` was reached; ``True`` if none was asked for.
        per_node: Estimate for each node, ``[n]`` float64, if asked for.
        per_node_standard_error: ``[n]`` float64.
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    confidence: float
    num_samples: int
    reached: bool
    per_node: Tensor | None = None
    per_node_standard_error: Tensor | None = None

    @property
    def half_width(self) -> float:
        return self.interval[1] / 2 - self.interval[0] / 2  # the width itself may be beyond float64

    @property
    def relative_half_width(self) -> float:
        """Half the width of the interval over the value: the quantity ``epsilon`` bounds. Infinite at value 0."""
        if self.half_width == 0:
            return 0.0
        return self.half_width / abs(self.value) if self.value else math.inf


@dataclass(frozen=True)
class Sampling:
    """How many samples, from what, until when; the fields are the keyword arguments of :func:`rfp.theory.trace`."""

    num_samples: int | None = None
    epsilon: float | None = None
    confidence: float = 0.95
    distribution: Distribution = "rademacher"
    seed: int = 0
    deflation: int = 0
    per_node: bool = False
    block_size: int | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Sampling:
        """From the keywords of a face."""
        check_names("an argument", arguments, SamplingArguments.__annotations__)
        return cls(**arguments)

    def __post_init__(self) -> None:
        if self.num_samples is not None and self.num_samples < 2:
            raise ArgumentError(f"num_samples must be at least 2 (one sample has no deviation), got {self.num_samples}")
        if self.epsilon is not None and not self.epsilon > 0:
            raise ArgumentError(
                f"epsilon must be above 0, got {self.epsilon}; it is the relative half-width of the interval, e.g. 0.05"
            )
        if not 0 < self.confidence < 1:
            raise ArgumentError(f"confidence must be between 0 and 1, got {self.confidence}; e.g. 0.95")
        if self.distribution not in ("rademacher", "normal"):
            raise ArgumentError(
                f'distribution must be "rademacher" or "normal" (mean 0, variance 1), got {self.distribution!r}'
            )
        as_integer("deflation", self.deflation, 0)
        if self.block_size is not None and self.block_size < 1:
            raise ArgumentError(f"block_size must be at least 1 sample, got {self.block_size}")

    @property
    def limit(self) -> int:
        """The most samples that may be drawn."""
        if self.num_samples is not None:
            return self.num_samples
        return DEFAULT_SAMPLES if self.epsilon is None else DEFAULT_LIMIT

    def trajectories_at_once(self, num_nodes: int) -> int:
        """How many trajectories of :data:`SAMPLES_AT_ONCE` samples one product serves."""
        samples = self.block_size or BLOCK_BYTES // (8 * max(num_nodes, 1))
        return min(max(1, samples // SAMPLES_AT_ONCE), ROUND // SAMPLES_AT_ONCE)


class SamplingArguments(TypedDict, total=False):
    """The fields of :class:`Sampling` as keywords."""

    num_samples: int | None
    epsilon: float | None
    confidence: float
    distribution: Distribution
    seed: int
    deflation: int
    per_node: bool
    block_size: int | None


@dataclass(frozen=True)
class Affine:
    """What is counted: ``scale * trace + offset``, and per node ``node_scale * diagonal + node_offset``."""

    scale: float = 1.0
    offset: float = 0.0
    node_scale: float = 1.0
    node_offset: Tensor | None = None  # [n]


class Moments:
    """Sums of the samples and, if asked for, of each node's terms.

    Squares of numbers above 1e154 leave float64, so all are divided by a scale first. It is a power of two, which
    rounds nothing: where no square would overflow, the results are those without it, bit for bit.
    """

    def __init__(self) -> None:
        self.samples: list[Tensor] = []
        self.count = 0
        self.node_scale: Tensor = torch.zeros(())
        self.node_sum: Tensor | float = 0.0  # over the scale of the node, and its square below
        self.node_square_sum: Tensor | float = 0.0

    def add(self, terms: Tensor, per_node: bool) -> None:  # terms: [n, m], one column a sample
        self.samples.append(terms.sum(dim=0).cpu())
        self.count += terms.size(1)
        if per_node:
            scale = torch.maximum(_power_of_two(terms.abs().amax(dim=1)), self.node_scale.to(terms))
            shrunk = self.node_scale.to(terms) / scale
            scaled = terms / scale[:, None]
            self.node_sum = self.node_sum * shrunk + scaled.sum(dim=1)
            self.node_square_sum = self.node_square_sum * shrunk.square() + scaled.square_().sum(dim=1)
            self.node_scale = scale

    def estimate(
        self, sampling: Sampling, target: Affine, known: float, known_diagonal: Tensor | None
    ) -> SampleEstimate:
        """The affine target of (known part + mean of the samples).

        Raises:
            NumericalError: It, or an end of its interval, leaves float64.
        """
        samples = torch.cat(self.samples)
        scale = float(_power_of_two(samples.abs().max()))
        scaled = samples / scale
        value = target.scale * (known + float(scaled.mean()) * scale) + target.offset
        error = math.inf
        if self.count > 1:
            error = abs(target.scale) * float(scaled.std()) / math.sqrt(self.count) * scale
        quantile = float(scipy.special.stdtrit(max(self.count - 1, 1), (1 + sampling.confidence) / 2))
        half = quantile * error
        # Without an end is the interval also of a single sample, and at a confidence that rounds to 1.
        overflows = self.count > 1 and math.isfinite(quantile) and not math.isfinite(abs(value) + half)
        if overflows or not math.isfinite(value):
            raise NumericalError(
                "the trace exceeds the range of float64; use a smaller power or a normalised operator "
                "(normalized_adjacency has eigenvalues in [-1, 1])"
            )
        reached = sampling.epsilon is None or bool(half <= sampling.epsilon * abs(value))
        interval = (value - half, value + half)
        nodes = self._nodes(target, known_diagonal) if sampling.per_node else (None, None)
        return SampleEstimate(value, error, interval, sampling.confidence, self.count, reached, *nodes)

    def _nodes(self, target: Affine, known_diagonal: Tensor | None) -> tuple[Tensor, Tensor]:
        scaled = torch.as_tensor(self.node_sum / self.count)
        variance = (torch.as_tensor(self.node_square_sum) / self.count - scaled.square()).clamp_min_(0)
        error = abs(target.node_scale) * (variance / max(self.count - 1, 1)).sqrt() * self.node_scale
        mean = scaled * self.node_scale
        diagonal = mean if known_diagonal is None else mean + known_diagonal
        value = target.node_scale * diagonal
        return value if target.node_offset is None else value + target.node_offset, error


def _power_of_two(magnitude: Tensor) -> Tensor:
    """The largest power of two up to a magnitude; 1 for 0, and NaN for infinity.

    >>> _power_of_two(torch.tensor([0.0, 1.0, 5.0, 1e300], dtype=torch.float64)).tolist() == [1, 1, 4, 2.0**996]
    True
    """
    mantissa = torch.frexp(magnitude).mantissa  # in [1/2, 1): what is left of the magnitude without it is exact
    return torch.where(magnitude > 0, magnitude / (2 * mantissa), torch.ones_like(magnitude))
