"""The steps of one graph on a CPU in memory that is used again at every step."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from rfp.backends.backend import Place
from rfp.backends.compiled.dense_products import times_upper
from rfp.backends.compiled.sparse_product import sparse_product
from rfp.backends.problem import Problem, Step
from rfp.backends.reference.plain_loop import Normalize
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.backends.sparse.segments import Segments
from rfp.csr import CSR
from rfp.pages import empty
from rfp.rounding import Rounding


class StepMemory(Segments):
    """Products that overwrite what nobody reads any more.

    The system clears fresh pages, which costs a good part of what writing a product into them does. So two places serve
    all sparse products, one of which is read while the other is written, and one all orthonormal states. What is kept
    of those is written in the same pass: rows of a trajectory lie apart, and the next product gathers from rows that
    lie together.

    Args:
        problem: Of one graph on a CPU.
        place: Where a state is kept.
    """

    def __init__(self, problem: Problem, place: Place) -> None:
        super().__init__(problem.ptr, problem.shape[0] * problem.shape[2])
        self._place = place
        self._kept: Tensor | None = None  # where the step that is normalised is kept
        self._every, self._step = problem.normalize_every, 0
        self._products: list[Tensor] = []  # [n, B k], at most two
        self._state: Tensor | None = None  # [n, B, k]

    def product_with(self, csr: CSR) -> Callable[[Tensor], Tensor]:
        """``a -> S a`` on ``[n, B k]``."""

        def product(a: Tensor) -> Tensor:
            a = a.contiguous()
            free = [out for out in self._products if out.data_ptr() != a.data_ptr()]
            if not free:
                free = [empty(*a.shape, dtype=a.dtype)]
                self._products += free
            return sparse_product(csr.crow, csr.col, csr.value, a, free[0])

        return product

    def normalization(self) -> Normalize:
        """QR by the ladder of :mod:`rfp.backends.sparse.orthonormal`, of each state that is normalised in its turn."""
        # The ladder knows this object and not the other way round: a ring of references would hold the result too.
        ladder = Orthonormalizer(self)

        def orthonormalize(a: Tensor, ptr: Tensor, rounding: Rounding | None) -> Step:
            self._step += self._every
            self._kept = self._place(self._step)
            return ladder.step(a, rounding)

        return orthonormalize

    def apply(self, a: Tensor, weight: Tensor, upper: bool = True) -> Tensor:
        rows = a.transpose(0, 1)
        if self._state is None:
            self._state = empty(*rows.shape, dtype=a.dtype)
        return times_upper(rows, weight[0], self._state, self._kept).transpose(0, 1)

    def by_vectors(
        self, a: Tensor, q: Tensor, chosen: list[tuple[int, int]], exact: Callable[[Tensor, int, int], Tensor]
    ) -> Tensor:
        q = super().by_vectors(a, q, chosen, exact)
        if self._kept is not None:
            self._kept.copy_(q.transpose(0, 1))
        return q
