"""One large graph on a GPU: the loop of :mod:`rfp.backends.sparse` in Triton kernels that the host never waits for.

A step reads one row of states for each non-zero, writes the product, reads it once more and writes the state: the Gram
matrix is summed while the product's rows are in registers. Float64 Gram matrices decide about dependent columns and
ill-conditioning on the device; a second pass of Cholesky QR runs only where it is wanted. Rows of many entries are summed
in pieces, so that hubs of a skewed graph do not hold up the rest (:mod:`rfp.backends.row_plan`).

The sums are made in a fixed order: the same graph on the same GPU gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor

from rfp.backends.problem import Problem
from rfp.backends.row_plan import row_plan
from rfp.backends.tally import count_later
from rfp.backends.triton_large import (
    STATUS_WORDS,
    apply_kernel,
    factor_kernel,
    gram_kernel,
    product_kernel,
    sum_kernel,
)
from rfp.errors import NumericalError
from rfp.normalization import Tally
from rfp.operators import MatrixOperator, Operator

# Rows a program takes at a time, entries of each row it asks for at a time.
_ROWS = 64
_UNROLL = 4


def run(
    problem: Problem, storage_dtype: torch.dtype, tally: Tally, progress: Callable[[int], None] | None = None
) -> Tensor:
    """The trajectory of all operators, ``[n, B, O, P + 1, k]``, equal to the reference up to rounding.

    O(P O (m k B + n k² B)); beside the result it holds the states of one step.
    """
    b, n, k = problem.features.shape
    shape = (n, b, len(problem.operators), problem.num_steps + 1, k)
    out = torch.empty(shape, dtype=storage_dtype, device=problem.features.device)
    for o, operator in enumerate(problem.operators):
        if storage_dtype == torch.float32:
            stages = Stages(problem, operator)
            product = torch.empty(n, b, k, device=out.device)
            out[:, :, o, 0] = problem.features.transpose(0, 1)
            for p in range(1, problem.num_steps + 1):
                stages.step(out[:, :, o, p - 1], product, out[:, :, o, p], p % problem.normalize_every == 0)
                if progress is not None:
                    progress(1)
            stages.report(tally)
        else:
            for p, a in enumerate(loop(problem, operator, tally)):
                out[:, :, o, p] = a.transpose(0, 1)
                if progress is not None and p:
                    progress(1)
    return out


def loop(problem: Problem, operator: Operator, tally: Tally) -> Iterator[Tensor]:
    """Yield the states ``[B, n, k]`` of Eq. 1 one at a time; three steps' worth of memory with the one yielded."""
    stages = Stages(problem, operator)
    a = problem.features.transpose(0, 1).contiguous()
    yield a.transpose(0, 1)
    for p in range(1, problem.num_steps + 1):
        product = torch.empty_like(a)
        stages.step(a, product, product, p % problem.normalize_every == 0)
        a = product
        yield a.transpose(0, 1)
    stages.report(tally)


class Stages:
    """The kernels of a step and the small matrices between them, for one operator.

    Args:
        problem: Float32 features of one graph; its normalisation is ``"none"``, ``"l2"`` or ``"qr"``.
        operator: A sparse matrix.
    """

    def __init__(self, problem: Problem, operator: Operator) -> None:
        self.num_trajectories, self.num_rows, self.k = problem.features.shape
        self.normalization = cast(str, problem.normalization)
        self.device = problem.features.device
        self.csr = cast(MatrixOperator, operator).csr.to(torch.float32)
        self.plan = row_plan(self.csr)
        self.width = 16 if self.k <= 16 else 32 if self.k <= 32 else 64
        self.warps = max(4, self.width // 8)
        if problem.features.is_cuda:
            multiprocessors = torch.cuda.get_device_properties(self.device).multi_processor_count
            self.programs = multiprocessors * {16: 6, 32: 4, 64: 2}[self.width]
        else:
            self.programs = 2
        self.programs = min(self.programs, -(-self.num_rows // _ROWS))
        self.heavy_programs = min(self.programs, -(-len(self.plan.heavy) // _ROWS))
        parts = self.programs + self.heavy_programs
        square = (self.width, self.width)
        floats = {"dtype": torch.float64, "device": self.device}
        self.grams = torch.zeros(self.num_trajectories, parts, *square, **floats)  # type: ignore[call-overload]
        self.gram = torch.empty(self.num_trajectories, *square, **floats)  # type: ignore[call-overload]
        self.weight = torch.empty_like(self.gram)
        self.status = torch.zeros(self.num_trajectories, STATUS_WORDS, dtype=torch.int32, device=self.device)
        self.pieces = torch.empty(len(self.plan.piece_begin), self.num_trajectories, self.k, device=self.device)
        self.calls = 0

    def step(self, source: Tensor, product: Tensor, target: Tensor, normalize: bool) -> None:
        """``target = N(S source)`` or, not normalised, ``S source``; all ``[n, B, k]``, ``product`` is scratch."""
        normalize = normalize and self.normalization != "none"
        with torch.cuda.device(self.device) if source.is_cuda else nullcontext():
            self._product(source, product if normalize else target, normalize and self.num_rows > 0)
            if normalize and self.num_rows:
                self._normalize(product, target, again=False)
                if self.normalization == "qr":
                    self._gram(target)
                    self._normalize(target, target, again=True)
                    self.calls += 1

    def report(self, tally: Tally) -> None:
        """Count what happened; the one place that waits for the device, to find states that are not finite."""
        count_later(tally, "dependent_columns", self.status[:, 1])
        count_later(tally, "cholesky", self.calls - self.status[:, 3])
        count_later(tally, "cholesky_twice", self.status[:, 3])
        if bool(self.status[:, 2].any()):
            raise NumericalError(
                "states are not finite in torch.float32; normalise more often (a smaller normalize_every) or use an "
                "operator of norm at most 1"
            )

    def _product(self, source: Tensor, target: Tensor, gram: bool) -> None:
        plan, csr = self.plan, self.csr
        ends = csr.crow[1:]
        if len(plan.heavy):
            self._sum(source, self.pieces, None, plan.piece_begin, plan.piece_end, self.programs, 0, False)
            begin, end = plan.heavy_begin, plan.heavy_end
            self._sum(self.pieces, target, plan.heavy, begin, end, self.heavy_programs, self.programs, gram, unit=True)
        self._sum(source, target, plan.light, csr.crow, ends, self.programs, 0, gram)

    def _sum(
        self,
        source: Tensor,
        target: Tensor,
        row_of: Tensor | None,
        begin: Tensor,
        end: Tensor,
        programs: int,
        first_part: int,
        gram: bool,
        unit: bool = False,
    ) -> None:
        num_rows = len(begin) if row_of is None else len(row_of)
        product_kernel[(programs, self.num_trajectories)](
            source,
            target,
            begin if row_of is None else row_of,
            begin,
            end,
            self.csr.col,
            self.csr.value,
            self.grams[:, first_part:],
            num_rows,
            -(-num_rows // _ROWS),
            source.stride(0),
            source.stride(1),
            target.stride(0),
            target.stride(1),
            self.k,
            self.grams.stride(0),
            UNROLL=_UNROLL,
            INDIRECT=row_of is not None,
            UNIT=unit,
            GRAM=gram,
            **self._launch(maxnreg=128),
        )

    def _gram(self, states: Tensor) -> None:
        gram_kernel[(self.programs, self.num_trajectories)](
            states,
            self.grams,
            self.status,
            self.num_rows,
            -(-self.num_rows // _ROWS),
            states.stride(0),
            states.stride(1),
            self.k,
            self.grams.stride(0),
            **self._launch(),
        )

    def _normalize(self, source: Tensor, target: Tensor, again: bool) -> None:
        parts = self.programs if again else self.grams.size(1)
        sum_kernel[(self.width * self.width // 64, self.num_trajectories)](
            self.grams,
            self.gram,
            self.status,
            parts,
            self.grams.stride(0),
            K=self.width,
            WORDS=64,
            AGAIN=again,
            num_warps=2,
        )
        factor_kernel[(self.num_trajectories,)](
            self.gram,
            self.weight,
            self.status,
            self.k,
            K=self.width,
            L2=self.normalization == "l2",
            AGAIN=again,
            num_warps=4,
        )
        apply_kernel[(-(-self.num_rows // _ROWS), self.num_trajectories)](
            source,
            target,
            self.weight,
            self.status,
            self.num_rows,
            source.stride(0),
            source.stride(1),
            target.stride(0),
            target.stride(1),
            self.k,
            AGAIN=again,
            **self._launch(),
        )

    def _launch(self, **more: Any) -> dict[str, Any]:
        return {"K": self.width, "ROWS": _ROWS, "num_warps": self.warps, **more}
