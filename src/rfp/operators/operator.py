"""What the propagation loop needs of S, and the forms it comes in: a matrix, a function, a power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rfp.csr import CSR
from rfp.errors import ArgumentError


class Operator(Protocol):
    """What the propagation loop needs of S. A learned operator implements this and sets ``differentiable``."""

    @property
    def num_nodes(self) -> int: ...

    @property
    def differentiable(self) -> bool:
        """Whether gradients are to flow through ``S @ a`` into the operator's own parameters."""
        ...

    @property
    def symmetric(self) -> bool:
        """Whether S equals its transpose, for the methods that assume it."""
        ...

    def __matmul__(self, a: Tensor, /) -> Tensor:  # [n, c] -> [n, c]
        ...


@dataclass(frozen=True)
class DenseBlock:
    """Matrices of several graphs, padded to one width.

    Args:
        matrix: ``[g, width, width]``; what lies at the padding is of no meaning.
        rows: ``[g, width]`` node numbers, those of a graph in a row; n (one past the last node) at the padding.
    """

    matrix: Tensor
    rows: Tensor


class BlockOperator(Operator, Protocol):
    """An operator that may hold its matrices as padded blocks, which kernels for small graphs read."""

    def dense_blocks(self) -> list[DenseBlock] | None:
        """Blocks that together hold every node of a graph once; ``None`` if the matrices are not formed."""
        ...


def blocks_of(operator: Operator) -> list[DenseBlock] | None:
    """The operator's padded blocks, if it is a :class:`BlockOperator` that has formed them."""
    read: Callable[[], list[DenseBlock] | None] | None = getattr(operator, "dense_blocks", None)
    return None if read is None else read()


@dataclass(frozen=True)
class MatrixOperator:
    """A sparse matrix as an operator; never differentiated through.

    Args:
        csr: S.
        norm: What :func:`rfp.operator_norms.norm_of` is known to be.
        rounding_norm: ``[G]`` float64, what :func:`rfp.operator_norms.rounding_norm` is known to be.
    """

    csr: CSR
    differentiable: bool = False
    norm: float | None = None
    rounding_norm: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        return self.csr.num_rows

    @property
    def symmetric(self) -> bool:
        if self.csr.value.is_cuda:
            twin = self.csr.transpose()  # a sort, where the way to the host and back would take many times as long
            if torch.equal(twin.crow, self.csr.crow) and torch.equal(twin.col, self.csr.col) and self.csr.nnz:
                largest = 4 * torch.finfo(twin.value.dtype).eps * self.csr.value.abs().max()
                return bool((twin.value - self.csr.value).abs().max() <= largest)
        matrix = self.csr.to_scipy()
        difference = abs(matrix - matrix.T)
        # Rounding in the last place of D^-1/2 A D^-1/2 is no asymmetry.
        return not difference.nnz or bool(
            difference.max() <= 4 * torch.finfo(self.csr.value.dtype).eps * abs(matrix).max()
        )

    def __matmul__(self, a: Tensor) -> Tensor:
        return self.csr.to(a.dtype) @ a

    def to_dense(self) -> Tensor:
        return torch.from_numpy(self.csr.to_scipy().toarray()).to(self.csr.value.device)


@dataclass(frozen=True)
class DenseOperator:
    """A dense matrix as an operator; differentiated through when the matrix requires a gradient."""

    matrix: Tensor  # [n, n]

    @property
    def num_nodes(self) -> int:
        return self.matrix.size(0)

    @property
    def differentiable(self) -> bool:
        return self.matrix.requires_grad

    @property
    def symmetric(self) -> bool:
        return bool(torch.allclose(self.matrix, self.matrix.T))

    def __matmul__(self, a: Tensor) -> Tensor:
        return self.matrix.to(a.dtype) @ a

    def to_dense(self) -> Tensor:
        return self.matrix


@dataclass(frozen=True)
class FunctionOperator:
    """A callable ``a -> S a`` on ``[n, c]`` as an operator. ``norm``: :func:`rfp.operator_norms.norm_of`."""

    function: Callable[[Tensor], Tensor]
    num_nodes: int
    symmetric: bool = False
    differentiable: bool = False
    norm: float | Tensor | None = None

    def __matmul__(self, a: Tensor) -> Tensor:
        out = self.function(a)
        if not isinstance(out, Tensor) or out.shape != a.shape:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ArgumentError(f"the operator's function must keep the shape {tuple(a.shape)}, got {got}")
        return out


@dataclass(frozen=True)
class PowerOperator:
    r""":math:`S^p` as p products; the matrix power is never formed."""

    base: Operator
    exponent: int

    @property
    def num_nodes(self) -> int:
        return self.base.num_nodes

    @property
    def differentiable(self) -> bool:
        return self.base.differentiable

    @property
    def symmetric(self) -> bool:
        return self.base.symmetric

    def __matmul__(self, a: Tensor) -> Tensor:
        for _ in range(self.exponent):
            a = self.base @ a
        return a


def factors(operator: Operator) -> tuple[Operator, ...]:
    """The operators whose product this one is, the first to be applied first: p times S for a power."""
    return factors(operator.base) * operator.exponent if isinstance(operator, PowerOperator) else (operator,)
