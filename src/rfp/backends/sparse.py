"""The loop for large graphs and general batches: one fast sparse product a step, Gram-matrix orthonormalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor

from rfp.available import compiled_available
from rfp.backends.orthonormal import Orthonormalizer
from rfp.backends.orthonormal_grad import orthonormalize
from rfp.backends.problem import Problem, fold, unfold
from rfp.normalization import NormalizationChoice, Tally, as_normalization
from rfp.operators import MatrixOperator, Operator


def loop(problem: Problem, operator: Operator, tally: Tally) -> Iterator[Tensor]:
    """Yield the states ``[B, n, k]`` of Eq. 1, equal to the reference up to rounding.

    A learned operator is differentiated through, with the guarded backward of :mod:`rfp.backends.orthonormal_grad`.
    O(P (m k B + n k² B)); beside the states of one step it holds one more copy of them and k x k matrices.
    """
    product = fast_product(operator, problem.features)
    num_columns = problem.features.size(0) * problem.features.size(2)
    normalize = fast_normalization(problem.normalization, problem.ptr, num_columns, operator.differentiable)
    a = problem.features
    yield a
    for p in range(1, problem.num_steps + 1):
        with problem.gradients(operator):
            a = unfold(product(fold(a)), a)
            if p % problem.normalize_every == 0:
                a = normalize(a, tally)
        yield a


def fast_product(operator: Operator, like: Tensor) -> Callable[[Tensor], Tensor]:
    """The quickest available ``a -> S a`` for this operator, type and device."""
    if isinstance(operator, MatrixOperator) and like.device.type == "cpu" and compiled_available():
        from rfp.backends import compiled

        csr = operator.csr.to(like.dtype)
        return lambda a: compiled.spmm(csr.crow, csr.col, csr.value, a.contiguous())
    return lambda a: operator @ a


def fast_normalization(
    normalization: NormalizationChoice, ptr: Tensor, num_columns: int, differentiable: bool = False
) -> Callable[[Tensor, Tally], Tensor]:
    """QR by the ladder of :mod:`rfp.backends.orthonormal`; every other normalisation as it is defined.

    Args:
        normalization: N, by name or as a callable.
        ptr: ``[num_graphs + 1]``.
        num_columns: B k.
        differentiable: Whether a gradient is to flow through it.
    """
    if normalization == "qr":
        ladder = Orthonormalizer(ptr, num_columns)
        return partial(orthonormalize, ladder) if differentiable else ladder
    normalize = as_normalization(normalization)
    return lambda a, tally: normalize(a, ptr, tally)
