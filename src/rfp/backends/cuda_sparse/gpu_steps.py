"""One large graph on a GPU: the sparse loop in Triton kernels that the host never waits for.

Float64 Gram matrices decide about dependent columns and ill-conditioning on the device (``triton_large``). Rows of many
entries are summed in pieces, so that hubs of a skewed graph do not hold up the rest (``row_plan``). All sums are made
in a fixed order: the same graph on the same GPU gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor

from rfp.backends.cuda_sparse.row_plan import row_plan
from rfp.backends.cuda_sparse.triton_factorization import REPORTED_WORDS, STATUS_WORDS
from rfp.backends.cuda_sparse.triton_large import apply_kernel, gram_kernel, product_kernel, sum_kernel
from rfp.backends.finite import NotFiniteError, numbered
from rfp.backends.problem import Problem, Step, tell_nobody
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.normalization import Events, count_events
from rfp.operators import MatrixOperator, Operator
from rfp.rounding import Rounding
from rfp.triton_launch import LoopLaunches, on_device

# Elements of the states that a program of the product holds: few, so that none waits long for the longest row of
# another. Entries of each row that it asks for at a time.
_PRODUCT_TILE = {16: 128, 32: 128, 64: 128}
_UNROLL = {16: 8, 32: 8, 64: 8}
# Programs for pieces of heavy rows: one for so many places, times those that a program takes at a time. Of the room for
# pieces hardly more than an eighth is taken, unless rows are made to fill it.
_ROOM_FOR_EACH = 8
# For each width of the states: rows that the other kernels take at a time, and programs of theirs on each
# multiprocessor.
_ROWS = {16: 128, 32: 64, 64: 64}
_PROGRAMS = {16: 8, 32: 4, 64: 2}
# Programs that add up the parts of a Gram matrix, and words that each of them asks for at a time. Up to so many words
# in all, one program adds them up in less time than another launch takes.
_SUMMING_PROGRAMS = 64
_SUMMED_WORDS = 2048
_FEW_WORDS = 1 << 15


def cuda_sparse_trajectory(
    problem: Problem, storage_dtype: torch.dtype, done: Callable[[int], None] = tell_nobody
) -> tuple[Tensor, Events]:
    """The trajectory of all operators, ``[n, B, O, P + 1, k]``, equal to the reference up to rounding.

    One pass of Cholesky QR serves a large graph almost always. It is made without looking; the device keeps record, and
    if any step was too ill-conditioned for it, the operator's states are computed once more, looking at each step.

    O(P O (m k B + n k² B)); beside the result it holds the states of one step.
    """
    b, n, k = problem.features.shape
    shape = (n, b, len(problem.operators), problem.num_steps + 1, k)
    out = torch.empty(shape, dtype=storage_dtype, device=problem.features.device)
    found: list[Events] = []
    for o, operator in enumerate(problem.operators):
        blindly = None if storage_dtype != torch.float32 else _filled_blindly(problem, operator, out[:, :, o])
        if blindly is not None:
            found.append(blindly)
        else:
            number = o if len(problem.operators) > 1 else None
            for p, (a, events, _) in enumerate(numbered(cuda_sparse_steps(problem, operator), number)):
                out[:, :, o, p] = a.transpose(0, 1)
                found.append(events)
        done(problem.num_steps)
    return out, count_events(found)


def _filled_blindly(problem: Problem, operator: Operator, out: Tensor) -> Events | None:  # out: [n, B, P + 1, k]
    """Compute all steps without waiting for the device; then, once: what happened, if all of them are to be trusted."""
    stages = Stages(problem, operator)
    product = torch.empty(out.size(0), out.size(1), out.size(3), device=out.device)
    states = out.unbind(2)
    states[0].copy_(problem.features.transpose(0, 1))
    with on_device(out):
        stages.begin(states[0])
        for p, (source, target) in enumerate(pairwise(states), start=1):
            stages.step(source, product, target, p)
    try:
        return stages.trusted()
    except NotFiniteError:
        return None  # at which step, the careful way tells


def cuda_sparse_steps(problem: Problem, operator: Operator) -> Iterator[Step]:
    """Yield the states ``[B, n, k]`` of Eq. 1 one at a time; three steps' worth of memory with the one yielded.

    The host looks at each step, and takes one that is ill-conditioned through :mod:`rfp.backends.sparse.orthonormal`.
    """
    stages = Stages(problem, operator)
    ladder = Orthonormalizer.of(problem.ptr, problem.features.size(0) * problem.features.size(2))
    a = problem.features.transpose(0, 1).contiguous()
    product = torch.empty_like(a)
    with on_device(a):
        stages.begin(a)
    yield Step(a.transpose(0, 1), {})
    for p in range(1, problem.num_steps + 1):
        target = torch.empty_like(a)
        normalize = stages.normalizes(p)
        rounding = stages.rounding_so_far() if normalize else None
        with on_device(a):
            stages.step(a, product, target, p)
        events: Events | None = {}
        if normalize:
            events = stages.trusted()
            stages.forget()
        if events is None:
            careful, events = ladder(product.transpose(0, 1), rounding)
            target = careful.transpose(0, 1)
        a = target
        yield Step(a.transpose(0, 1), events)


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
        self.rows = _ROWS[self.width]
        self.blocks = -(-self.num_rows // self.rows)
        processors = 1
        if problem.features.is_cuda:
            processors = torch.cuda.get_device_properties(self.device).multi_processor_count
        self.programs = min(processors * _PROGRAMS[self.width], self.blocks)
        # W, the Gram matrix and its parts: each is written before it is read.
        square = (self.num_trajectories, self.width, self.width)
        self.weight, self.gram = torch.empty(2, *square, dtype=torch.float64, device=self.device).unbind()
        self.grams = torch.empty(square[0], self.programs, *square[1:], dtype=torch.float64, device=self.device)
        self.pieces = torch.empty(self.plan.room, self.num_trajectories, self.k, device=self.device)
        self.every = problem.normalize_every
        self.last = problem.num_steps // self.every * self.every  # the last normalisation
        self.factorized = 0
        self._launches = LoopLaunches(self.device)
        # Lengths of the columns and what rounding may have added to them, as the kernels keep them; what they report;
        # how many pieces of each heavy row are done.
        b = self.num_trajectories
        sizes = [4 * b * self.width, b * STATUS_WORDS, b * self.plan.room]
        zeros = torch.zeros(sum(sizes), dtype=torch.int32, device=self.device)
        lengths, reports, self.arrived = torch.split(zeros, sizes)
        self.rounding = lengths.view(torch.float64).view(-1, 2, self.width)
        self.status = reports.view(-1, STATUS_WORDS)
        self.unit = problem.rounding_units((operator,))[0]

    def normalizes(self, p: int) -> bool:
        """Whether step ``p`` ends with a normalisation."""
        return p % self.every == 0 and self.normalization != "none"

    def rounding_so_far(self) -> Rounding:
        """Of the columns before the next product."""
        length, noise = self.rounding[:, :, : self.k].clone().unbind(1)
        return Rounding(self.unit.view(1, 1, 1), length[None], noise[None])

    def begin(self, state: Tensor) -> None:
        """Learn how long the columns of the first state are, ``[n, B, k]``, to which rounding has added nothing yet."""
        if self.num_rows and self.normalization != "none":
            self.measure(state)

    def step(self, source: Tensor, product: Tensor, target: Tensor, p: int) -> None:
        """Step p: ``target = N(S source)`` or, where it is not normalised, ``S source``; all ``[n, B, k]``.

        ``product`` is scratch, and holds the product after a normalisation.
        """
        if not self.num_rows:
            return
        normalize = self.normalizes(p)
        self.multiply(source, product if normalize else target)
        if normalize:
            self.normalize(product, target)
        elif self.normalization != "none" and p < self.last:
            self.measure(target)

    def trusted(self) -> Events | None:
        """What happened from the beginning or :meth:`forget` on; ``None`` if a step is unsound. Waits for a GPU."""
        status = self.status.tolist()
        if any(words[2] for words in status):
            raise NotFiniteError(torch.float32)
        factorized, self.factorized = self.factorized, 0
        if any(words[0] for words in status):
            return None
        found = sum(words[1] for words in status)
        if self.normalization != "qr":
            return {"zero_columns": found}
        return {"cholesky": factorized, "dependent_columns": found}

    def forget(self) -> None:
        """What happened so far is told, and not to be told again."""
        self.status[:, :REPORTED_WORDS].zero_()

    def multiply(self, source: Tensor, target: Tensor) -> None:
        """``target = S source``."""
        name = ("product", source.stride(), target.stride())
        if self._launches.again(name, source, target):
            return
        plan, rows = self.plan, _PRODUCT_TILE[self.width] // self.width
        piece_programs = -(-plan.room // (_ROOM_FOR_EACH * rows))
        self._launches.first(
            name,
            product_kernel,
            (piece_programs + -(-(len(plan.row) - plan.room) // rows), self.num_trajectories),
            (source, target),
            (
                self.pieces,
                plan.row,
                plan.begin,
                plan.end,
                plan.num_pieces,
                plan.heavy,
                plan.heavy_end,
                self.arrived,
                self.csr.col,
                self.csr.value,
                len(plan.row),
                plan.room,
                piece_programs,
                self.num_trajectories,
                *source.stride()[:2],
                *target.stride()[:2],
                self.k,
            ),
            {"K": self.width, "ROWS": rows, "UNROLL": _UNROLL[self.width]},
            num_warps=1,
        )

    def measure(self, product: Tensor) -> None:
        """Note how long the columns of a state are that is not normalised: one more pass over it."""
        self._gram(product, diagonal=True, normalize=False)

    def _gram(self, source: Tensor, *, diagonal: bool, normalize: bool) -> None:
        """The Gram matrix of a state, and what follows from it: W where it is normalised, else its rounding alone."""
        b, apart, words = self.num_trajectories, self.grams.stride(0), self.width * self.width
        small = (self.grams, self.gram, self.weight, self.status, self.rounding, self.unit)
        few = self.programs * words <= _FEW_WORDS
        then = {"L2": diagonal, "NORMALIZE": normalize}
        name: tuple[object, ...] = ("gram", diagonal, normalize, source.stride())
        if not self._launches.again(name, source):
            self._launches.first(
                name,
                gram_kernel,
                (self.programs, b),
                (source,),
                (*small, self.num_rows, self.blocks, *source.stride()[:2], self.k, apart),
                {"K": self.width, "ROWS": self.rows, "PARTS": max(1, _SUMMED_WORDS // words) if few else 0, **then},
                num_warps=4,
            )
        name = ("sum", diagonal, normalize)
        if few or self._launches.again(name):
            return
        each = words // _SUMMING_PROGRAMS
        self._launches.first(
            name,
            sum_kernel,
            (_SUMMING_PROGRAMS, b),
            (),
            (*small, self.programs, apart, self.k),
            {"K": self.width, "WORDS": each, "PARTS": _SUMMED_WORDS // each, **then},
            num_warps=4,
        )

    def normalize(self, source: Tensor, target: Tensor) -> None:
        """``target = N(source)``."""
        b = self.num_trajectories
        l2 = self.normalization == "l2"
        self._gram(source, diagonal=l2, normalize=True)
        name = ("apply", source.stride(), target.stride())
        if not self._launches.again(name, source, target):
            strides = (*source.stride()[:2], *target.stride()[:2])
            self._launches.first(
                name,
                apply_kernel,
                (self.programs, b),
                (source, target),
                (self.weight, self.status, self.num_rows, self.blocks, *strides, self.k),
                {"K": self.width, "ROWS": self.rows, "L2": l2},
                num_warps=4,
            )
        self.factorized += b
