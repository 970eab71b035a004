"""The definition of correct: Eq. 1 step by step in plain PyTorch, on any device, with autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from rfp.backends.finite import NotFiniteError, all_finite
from rfp.backends.problem import Problem, Step, fold, unfold
from rfp.normalization import NormalizationChoice, as_normalization, column_lengths
from rfp.operators import Operator, factors
from rfp.rounding import Rounding

# N on a product, with what rounding left in the state before it: (a [B, n, k], ptr, rounding) -> a step.
Normalize = Callable[[Tensor, Tensor, Rounding | None], Step]


def reference_steps(problem: Problem, operator: Operator) -> Iterator[Step]:
    r"""Yield :math:`a^{(0)}, \dots, a^{(P)}`, each ``[B, n, k]``.

    .. math:: \hat a^{(p)} = S a^{(p-1)}, \qquad
              a^{(p)} = N(\hat a^{(p)}) \text{ if } p \bmod w = 0 \text{ else } \hat a^{(p)}
    """
    return loop_with(problem, operator, [S.__matmul__ for S in factors(operator)], as_steps(problem.normalization))


def loop_with(
    problem: Problem, operator: Operator, products: Sequence[Callable[[Tensor], Tensor]], normalize: Normalize
) -> Iterator[Step]:
    """The loop with these ways of multiplying by the factors of S, ``[n, B k] -> [n, B k]``, and of normalising."""
    a, rounding = problem.features, problem.rounding(operator)
    unit_columns = problem.normalization in ("l2", "qr")
    yield Step(a, {})
    for p in range(1, problem.num_steps + 1):
        with problem.gradients(operator):
            for i, product in enumerate(products):
                if i and rounding is not None:
                    rounding = rounding.after(column_lengths(a.detach(), problem.ptr))
                a = unfold(product(fold(a)), a)
            if p % problem.normalize_every == 0:
                a, events, factor = normalize(a, problem.ptr, rounding)
                if rounding is not None:
                    rounding = rounding.renewed(None if unit_columns else column_lengths(a.detach(), problem.ptr))
            else:
                events, factor = {}, None
                if rounding is not None:
                    rounding = rounding.after(column_lengths(a.detach(), problem.ptr))
        yield Step(a, events, factor)


def as_steps(normalization: NormalizationChoice) -> Normalize:
    """A normalisation as it is defined: no factor is formed."""
    normalize = as_normalization(normalization)
    # These two make NaN of what is not finite, which is seen afterwards; others may fail on it in their own ways.
    looks = normalization not in ("none", "l2")
    # These sum squares in float64, which may not hold those of finite numbers.
    squares = normalization in ("qr", "inverse_gram")

    def step(a: Tensor, ptr: Tensor, rounding: Rounding | None) -> Step:
        if looks and not (all_finite(a) and (not squares or all_finite(column_lengths(a.detach(), ptr)))):
            raise NotFiniteError(a.dtype)
        return Step(*normalize(a, ptr, rounding))

    return step
