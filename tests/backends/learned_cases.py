"""Cases for the backend of learned operators: batches of small dense matrices, padded into blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rfp.backends.problem import Problem
from rfp.operators import DenseBlock
from rfp.settings import Settings

# What a matrix holds at the padding, where nothing may read it.
GARBAGE = 7.0


@dataclass(frozen=True)
class Blocks:
    """A :class:`rfp.operators.BlockOperator` whose matrices are given."""

    blocks: list[DenseBlock]
    num_nodes: int
    norm: float | None = None
    differentiable: bool = True
    symmetric: bool = False

    def dense_blocks(self) -> list[DenseBlock]:
        return self.blocks

    def __matmul__(self, a: Tensor) -> Tensor:
        out = torch.zeros(self.num_nodes + 1, a.size(1), dtype=a.dtype)
        padded = torch.cat([a, a.new_zeros(1, a.size(1))])
        for block in self.blocks:
            real = block.rows < self.num_nodes
            matrix = torch.where(real[:, :, None] & real[:, None, :], block.matrix.to(a.dtype), 0.0)
            out = out.index_put((block.rows,), matrix @ padded[block.rows])
        return out[:-1]


@dataclass(frozen=True)
class Case:
    """A problem to be solved and differentiated by the kernels and by another method, in float64.

    Args:
        sizes: Nodes of each graph.
        groups: Numbers of the graphs of each block.
        kind: What the matrices are: ``"spread"`` (well-conditioned), ``"identity"``, ``"rank two"``,
            ``"centring"``, which takes constant columns to zero, or ``"broken"``, with a NaN.
        features: ``[n, k]``, if not random.
        against: The backend that is right.
    """

    sizes: list[int]
    groups: list[list[int]]
    channels: int = 4
    steps: int = 3
    trajectories: int = 1
    operators: int = 1
    normalization: str = "qr"
    every: int = 1
    kind: str = "spread"
    features: Tensor | None = None
    norm: float | None = None
    against: str = "reference"
    tolerance: float = 2e-6
    storage: torch.dtype = torch.float32
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def _matrix(self, size: int) -> Tensor:
        if self.kind == "identity":
            return torch.eye(size, dtype=torch.float64)
        if self.kind == "broken":
            matrix = torch.ones(size, size, dtype=torch.float64)
            matrix[-1, 0] = float("nan")
            return matrix
        if self.kind == "centring":
            return torch.eye(size, dtype=torch.float64) - torch.full((size, size), 1 / size, dtype=torch.float64)
        if self.kind == "rank two":  # small integers: exactly so in float32 too
            left = torch.randint(-3, 4, (size, 2), generator=self.generator).double()
            return left @ torch.randint(-3, 4, (2, size), generator=self.generator).double()
        rotation = torch.linalg.qr(torch.randn(size, size, generator=self.generator, dtype=torch.float64))[0]
        return rotation + 0.1 * torch.rand(size, size, generator=self.generator, dtype=torch.float64)

    def problem(self, dtype: torch.dtype, device: str = "cpu") -> Problem:
        """With matrices that are leaves of the graph of gradients; the same numbers whatever the type."""
        self.generator.manual_seed(0)
        n = sum(self.sizes)
        starts = torch.tensor([0, *self.sizes]).cumsum(0)
        operators = []
        for _ in range(self.operators):
            blocks = []
            for group in self.groups:
                width = max(self.sizes[g] for g in group)
                matrix = torch.full((len(group), width, width), GARBAGE, dtype=torch.float64)
                rows = torch.full((len(group), width), n)
                for i, g in enumerate(group):
                    matrix[i, : self.sizes[g], : self.sizes[g]] = self._matrix(self.sizes[g])
                    rows[i, : self.sizes[g]] = torch.arange(int(starts[g]), int(starts[g + 1]))
                leaf = matrix.float().to(device, dtype).requires_grad_()
                blocks.append(DenseBlock(leaf, rows.to(device)))
            operators.append(Blocks(blocks, n, self.norm))
        shape = (self.trajectories, n, self.channels)
        features = torch.randn(shape, generator=self.generator) if self.features is None else self.features[None]
        return Problem(
            tuple(operators),
            features.float().to(device, dtype),
            starts.to(device),
            Settings(num_steps=self.steps, normalization=self.normalization, normalize_every=self.every),
        )

    def weight(self, shape: torch.Size) -> Tensor:
        """The gradient of every state."""
        return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def nearly_dependent() -> Tensor:
    """Columns closer than the gradient's floor and farther apart than the dependent: both guards are needed.

    The last one, the longest, is dependent, and so is left out of the scale on which the floor is measured.
    """
    a = torch.randn(30, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    a[:, 1:] = a[:, :1] + 4e-5 * a[:, 1:]
    a[:, 8] = 2 * a[:, 0]
    return a


def dependent() -> Tensor:
    """A column twice another, a zero column and a sum of two others, exact in float32."""
    a = torch.randint(-8, 9, (17, 7), generator=torch.Generator().manual_seed(3)).double()
    a[:, 1] = 2 * a[:, 0]
    a[:, 3] = 0
    a[:, 6] = a[:, 0] + a[:, 4]
    return a


def cases() -> dict[str, Case]:
    zero_column = torch.randn(9, 3, generator=torch.Generator().manual_seed(4))
    zero_column[:, 1] = 0
    return {
        "one block": Case([9, 20, 14], [[0, 1, 2]], trajectories=2),
        "several widths and an empty graph": Case([40, 5, 0, 7, 33], [[1, 3], [0, 4]], channels=3, trajectories=2),
        "seldom": Case([11, 16], [[0, 1]], steps=5, every=2, trajectories=3),
        "two operators": Case([8, 6], [[0, 1]], operators=2, channels=3, steps=2),
        "many channels": Case([33, 25], [[0, 1]], channels=20, steps=2),
        "wide beside small": Case([9, 100, 20, 70], [[0, 2], [1, 3]], trajectories=2),
        "very wide": Case([6, 150], [[0], [1]], channels=20, steps=2, operators=2),
        "wide, seldom": Case([70, 11], [[1], [0]], steps=5, every=2),
        "wide, l2": Case([70, 11, 90], [[1], [0, 2]], normalization="l2", trajectories=2),
        "wide, l2 seldom": Case([70, 11], [[1], [0]], normalization="l2", steps=5, every=2),
        "wide, none": Case([11, 70, 80], [[0], [1, 2]], normalization="none", trajectories=2),
        "wide, no steps": Case([11, 70], [[0], [1]], steps=0),
        "wide, rank two": Case([10, 70], [[0], [1]], kind="rank two", channels=5, against="sparse"),
        "l2": Case([9, 12], [[0], [1]], normalization="l2", trajectories=2),
        "l2 of a zero column": Case([9], [[0]], channels=3, normalization="l2", features=zero_column),
        "l2 seldom": Case([9, 12], [[0, 1]], normalization="l2", steps=5, every=2),
        "none": Case([9, 12], [[0, 1]], normalization="none", trajectories=2),
        "half precision": Case([9], [[0]], storage=torch.float16, tolerance=2e-3),
        "no steps": Case([9, 4], [[0, 1]], steps=0),
        "one channel": Case([6], [[0]], channels=1),
        "dependent columns": Case([17], [[0]], channels=7, kind="identity", features=dependent(), against="sparse"),
        "fewer nodes than channels": Case([3, 1, 9], [[0, 1, 2]], channels=6, trajectories=2, against="sparse"),
        "rank two": Case([10, 7], [[0, 1]], kind="rank two", channels=5, against="sparse"),
        "nearly dependent": Case(
            [30],
            [[0]],
            channels=9,
            steps=1,
            kind="identity",
            features=nearly_dependent(),
            against="sparse",
            tolerance=1e-4,
        ),
    }


def zero_products() -> dict[str, Case]:
    """Constant columns beside a random one, whose products are zero but for rounding of the matrix."""
    features = torch.full((12, 3), 0.7)
    features[:, 1] = torch.randn(12, generator=torch.Generator().manual_seed(5))
    return {
        f"zero product, {normalization}, w = {every}, norm {norm}": Case(
            [5, 7],
            [[0, 1]],
            channels=3,
            steps=2 * every,
            normalization=normalization,
            every=every,
            kind="centring",
            features=features,
            norm=norm,
        )
        for normalization in ("l2", "qr")
        for every, norm in ((1, None), (2, 2.0))
    }


def solve(case: Case, device: str) -> tuple[Tensor, list[Tensor], dict[str, int]]:
    """States, gradients of the blocks and events by the kernels."""
    from rfp.backends.learned import learned_trajectory as learned
    from rfp.normalization import count_events
    from rfp.operators import blocks_of

    problem = case.problem(torch.float32, device)
    out, events = learned.learned_trajectory(problem, case.storage)
    matrices = [block.matrix for operator in problem.operators for block in blocks_of(operator) or []]
    loss = (out * case.weight(out.shape).to(device)).sum()
    grads = torch.autograd.grad(loss, matrices) if matrices else ()
    return out.detach().cpu(), [grad.cpu() for grad in grads], dict(count_events([events]))


def overflow(normalization: str = "qr") -> Case:
    """Products that leave float32 before they are normalised."""
    features = torch.full((8, 2), 1e38)
    return Case([3, 5], [[0, 1]], channels=2, every=3, features=features, kind="rank two", normalization=normalization)


def watched_cases() -> dict[str, Case]:
    """States that leave float32, and, where each step is normalised, an operator whose weights have become NaN."""
    broken = {
        f"{normalization} of NaN": Case([3, 5], [[0, 1]], kind="broken", normalization=normalization)
        for normalization in ("qr", "l2")
    }
    return {"qr seldom": overflow(), "none": overflow("none"), **broken}


def solve_all(device: str) -> dict[str, Any]:
    others = {"no nodes": Case([0, 0], [], channels=2), "overflow": overflow()}
    return {name: solve(case, device) for name, case in {**cases(), **others, **zero_products()}.items()}
