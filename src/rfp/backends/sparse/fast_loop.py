"""The loop for large graphs and general batches: one fast sparse product a step, Gram-matrix orthonormalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from rfp.available import compiled_available
from rfp.backends.backend import Place
from rfp.backends.problem import Problem, Step
from rfp.backends.reference.plain_loop import Normalize, as_steps, loop_with
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.normalization import NormalizationChoice
from rfp.operators import MatrixOperator, Operator, factors
from rfp.rounding import Rounding


def sparse_steps(problem: Problem, operator: Operator) -> Iterator[Step]:
    """Yield the states ``[B, n, k]`` of Eq. 1, equal to the reference up to rounding.

    A learned operator is differentiated through, with the guarded backward of ``orthonormal_grad``.
    O(P (m k B + n k² B)); beside the states of one step it holds one more copy of them and k x k matrices.
    """
    own = factors(operator)
    products = {id(S): fast_product(S, problem.features) for S in own}
    num_columns = problem.features.size(0) * problem.features.size(2)
    normalize = fast_normalization(
        problem.normalization, problem.ptr, num_columns, operator.differentiable, problem.known_sizes
    )
    return loop_with(problem, operator, [products[id(S)] for S in own], normalize)


def sparse_steps_in_place(problem: Problem, operator: Operator, place: Place) -> Iterator[Step]:
    """The same steps in memory that is used again: those of one graph on a CPU by compiled kernels."""
    own = factors(operator)
    matrices = [S.csr.to(problem.dtype) for S in own if isinstance(S, MatrixOperator)]
    one_on_cpu = problem.device.type == "cpu" and len(problem.ptr) == 2
    # Of more columns than nodes the ladder takes the leading ones alone.
    num_nodes, num_channels = problem.shape[1:]
    # Others than these normalisations may hold what they are given.
    known = problem.normalization in ("none", "l2", "qr") and len(matrices) == len(own)
    if not one_on_cpu or num_nodes < num_channels or not known or not compiled_available():
        return sparse_steps(problem, operator)
    from rfp.backends.compiled.drawn_features import compiled_features
    from rfp.backends.sparse.step_memory import StepMemory

    problem.draw_by(lambda draw: compiled_features(draw).transpose(0, 1))
    memory = StepMemory(problem, place)
    normalize = memory.normalization() if problem.normalization == "qr" else as_steps(problem.normalization)
    return loop_with(problem, operator, [memory.product_with(csr) for csr in matrices], normalize)


def fast_product(operator: Operator, like: Tensor) -> Callable[[Tensor], Tensor]:
    """The quickest available ``a -> S a`` for this operator, type and device."""
    if isinstance(operator, MatrixOperator) and like.device.type == "cpu" and compiled_available():
        from rfp.backends.compiled.sparse_product import sparse_product

        csr = operator.csr.to(like.dtype)
        return lambda a: sparse_product(csr.crow, csr.col, csr.value, a.contiguous())
    return lambda a: operator @ a


def fast_normalization(
    normalization: NormalizationChoice,
    ptr: Tensor,
    num_columns: int,
    differentiable: bool = False,
    sizes: tuple[int, int] | None = None,
) -> Normalize:
    """QR by the ladder of :mod:`rfp.backends.sparse.orthonormal`; every other normalisation as it is defined.

    Args:
        normalization: N, by name or as a callable.
        ptr: ``[num_graphs + 1]``.
        num_columns: B k.
        differentiable: Whether a gradient is to flow through it.
        sizes: Nodes of the smallest and of the largest graph, if they are known.
    """
    if normalization != "qr":
        return as_steps(normalization)
    ladder = Orthonormalizer.of(ptr, num_columns, sizes)

    if not differentiable:
        return lambda a, ptr, rounding: ladder.step(a, rounding)
    from rfp.backends.sparse.orthonormal_grad import orthonormalize  # which nothing but learned operators loads

    def differentiably(a: Tensor, ptr: Tensor, rounding: Rounding | None) -> Step:
        return Step(*orthonormalize(ladder, a, rounding))

    return differentiably
