r"""Propagation operators :math:`S \in \mathbb R^{n \times n}` (section 3.2 of the paper).

An operator is anything with ``S @ a`` for ``a`` of shape ``[n, c]``. The predefined ones are sparse matrices built
from a :class:`~rfp.graph.Graph`; with :math:`A` as that module defines it and degrees the sums of *absolute* weights
(so that signed graphs keep a spectrum in [-1, 1]):

======================== ================================================== =========================================
name                     matrix                                             symmetric
======================== ================================================== =========================================
``adjacency``            :math:`A`                                          if the graph is undirected
``normalized_adjacency`` :math:`\hat A = \tilde D_{out}^{-1/2} \tilde A     if the graph is undirected
                         \tilde D_{in}^{-1/2}`
``normalized_laplacian`` :math:`\hat L = I - \hat A`                        if the graph is undirected
``random_walk``          :math:`D_{out}^{-1} A`, zero rows for isolated     no
                         nodes
======================== ================================================== =========================================

Here :math:`\tilde A` is :math:`A` with a self-loop of weight 1 on every node that has none; a self-loop that is there
keeps its weight. (PyG's ``get_laplacian(normalization="sym")`` adds no self-loops and is another matrix.)

A name may carry suffixes, in this order: ``.sym`` builds the operator of the symmetrised graph
(:meth:`~rfp.graph.Graph.to_undirected`), ``.T`` transposes it, ``^p`` takes its p-th power:
``"adjacency.T"``, ``"normalized_adjacency.sym^2"``.

Directed graphs: ``NAME.both`` stands for two operators, S and its transpose, along the edges and against them
(``"adjacency.both"``, ``"random_walk.both^2"``); ``"both_directions"`` is ``"normalized_adjacency.both"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Protocol

import scipy.sparse as sp
import torch
from torch import Tensor

from rfp.csr import CSR, from_entries
from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.memo import Memo


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


def factors(operator: Operator) -> tuple[Operator, ...]:
    """The operators whose product this one is, the first to be applied first: p times S for a power."""
    return factors(operator.base) * operator.exponent if isinstance(operator, PowerOperator) else (operator,)


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
    """A sparse matrix as an operator; never differentiated through. ``norm``: :func:`rfp.operator_norms.norm_of`."""

    csr: CSR
    differentiable: bool = False
    norm: float | None = None

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


@dataclass(frozen=True)
class EntryTable:
    r"""Entries of :math:`A`, all or those of some rows, every diagonal one among them (zero without a self-loop).

    Args:
        row: ``[m]``.
        col: ``[m]``.
        value: ``[m]`` float64.
        degree: ``(axis, looped) -> [n]``: sums of absolute weights over each ``"row"`` or ``"col"`` of :math:`A`, or of
            :math:`\tilde A` if looped.
    """

    row: Tensor
    col: Tensor
    value: Tensor
    degree: Callable[[str, bool], Tensor]
    # What several operators are computed from, so that each is computed once.
    memo: Memo = field(default_factory=Memo, repr=False)

    @classmethod
    def of(cls, pattern: CSR) -> EntryTable:
        """All entries of a graph (:attr:`rfp.Graph.pattern`)."""

        def degree(axis: str, looped: bool) -> Tensor:
            index = pattern.row if axis == "row" else pattern.col.long()
            value = (table.memo.of(_looped, table) if looped else pattern.value).abs()
            return torch.zeros(pattern.num_rows, dtype=value.dtype, device=value.device).index_add_(0, index, value)

        table = cls(pattern.row, pattern.col, pattern.value, cache(degree))
        return table


def _looped(entries: EntryTable) -> Tensor:
    r"""The entries of :math:`\tilde A`: a self-loop of weight 1 on every node that has none."""
    return torch.where((entries.row == entries.col) & (entries.value == 0), 1.0, entries.value)


def _inverse_power(degree: Tensor, exponent: float) -> Tensor:
    return torch.where(degree > 0, degree.clamp_min(torch.finfo(degree.dtype).tiny).pow(-exponent), 0.0)


def _adjacency(entries: EntryTable) -> Tensor:
    return entries.value


def _normalized_adjacency(entries: EntryTable) -> Tensor:
    left = _inverse_power(entries.degree("row", True), 0.5)
    right = _inverse_power(entries.degree("col", True), 0.5)
    return left[entries.row] * entries.memo.of(_looped, entries) * right[entries.col.long()]


def _normalized_laplacian(entries: EntryTable) -> Tensor:
    return (entries.row == entries.col).to(torch.float64) - entries.memo.of(_normalized_adjacency, entries)


def _random_walk(entries: EntryTable) -> Tensor:
    return _inverse_power(entries.degree("row", False), 1.0)[entries.row] * entries.value


# Name -> its values on the entries of A. A new predefined operator is one function and one line here.
OPERATORS: dict[str, Callable[[EntryTable], Tensor]] = {
    "adjacency": _adjacency,
    "normalized_adjacency": _normalized_adjacency,
    "normalized_laplacian": _normalized_laplacian,
    "random_walk": _random_walk,
}

# What is known of |S|: Schur's test with the roots of the degrees gives 1 for any weights and directions.
NORMS = {"normalized_adjacency": 1.0, "normalized_laplacian": 2.0}
# One word for a directed graph.
BOTH_DIRECTIONS = "both_directions"

_NAME = re.compile(r"(?P<base>[a-z_]+)(?P<sym>\.sym)?(?P<transposed>\.T)?(\^(?P<power>\d+))?")


def parse_name(name: str, others: Sequence[str] = ()) -> re.Match[str]:
    """The parts of an operator's name: ``base``, ``sym``, ``transposed``, ``power``; raises if there is no such name.

    Args:
        name: Such as ``"adjacency.sym.T^2"``.
        others: Further names to list in the error.
    """
    parts = _NAME.fullmatch(name)
    if parts is None or parts["base"] not in OPERATORS:
        known = (*OPERATORS, BOTH_DIRECTIONS, *others)
        raise unknown_choice("operator (without the suffixes .sym .T .both ^p)", name, known)
    if parts["power"] is not None and int(parts["power"]) < 1:
        raise ArgumentError(f"the power of an operator must be at least 1, got {name!r}")
    return parts


_BOTH = re.compile(r"(?P<base>[a-z_]+)\.both(?P<power>\^\d+)?")


def expanded(name: str) -> tuple[str, ...]:
    """The operators that a name stands for: two for ``NAME.both`` and ``"both_directions"``, else the one.

    Example:
        >>> expanded("both_directions"), expanded("adjacency.both^2"), expanded("adjacency")
        (('normalized_adjacency', 'normalized_adjacency.T'), ('adjacency^2', 'adjacency.T^2'), ('adjacency',))
    """
    parts = _BOTH.fullmatch("normalized_adjacency.both" if name == BOTH_DIRECTIONS else name)
    if parts is None:
        return (name,)
    power = parts["power"] or ""
    return (parts["base"] + power, parts["base"] + ".T" + power)


class Sources:
    """What predefined operators of a graph, and of its symmetrised form, are computed from while they are built."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def directed(self) -> tuple[CSR, EntryTable]:
        """Pattern and entries of the graph as it is."""
        return self._graph.pattern, EntryTable.of(self._graph.pattern)

    @cached_property
    def symmetrised(self) -> tuple[CSR, EntryTable]:
        """The same after :meth:`~rfp.graph.Graph.to_undirected`."""
        return Sources(self._graph.to_undirected()).directed


def from_name(
    name: str, graph: Graph, dtype: torch.dtype = torch.float32, *, sources: Sources | None = None
) -> Operator:
    r"""Build a predefined operator; degrees are computed in float64 and the entries rounded to ``dtype``.

    Args:
        name: As in the table above.
        graph: Whose operator.
        dtype: Of its entries.
        sources: Of the same graph, where several operators share them.

    Example:
        >>> import torch
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> from_name("random_walk", path).to_dense()
        tensor([[0.0000, 1.0000, 0.0000],
                [0.5000, 0.0000, 0.5000],
                [0.0000, 1.0000, 0.0000]])
    """
    parts = parse_name(name)
    sources = sources or Sources(graph)
    pattern, entries = sources.symmetrised if parts["sym"] else sources.directed
    csr = pattern.with_value(entries.memo.of(OPERATORS[parts["base"]], entries).to(dtype))
    base = MatrixOperator(csr.transpose() if parts["transposed"] else csr, norm=NORMS.get(parts["base"]))
    if parts["power"] is None:
        return base
    return PowerOperator(base, int(parts["power"]))


def from_matrix(matrix: Any, dtype: torch.dtype = torch.float32) -> MatrixOperator | DenseOperator:
    """An operator from a square matrix: torch dense or sparse (any layout), or SciPy sparse."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ArgumentError(f"an operator must be a square matrix, got shape {tuple(matrix.shape)}")
    if "complex" in str(matrix.dtype):
        raise ArgumentError(
            f"an operator must be a real matrix, got {matrix.dtype}; give its real part, or abs(matrix)"
        )
    if isinstance(matrix, Tensor):
        if matrix.layout == torch.strided:
            return DenseOperator(matrix)
        coo = matrix.to_sparse(layout=torch.sparse_coo).coalesce()
        row, col = coo.indices()
        return MatrixOperator(from_entries(row, col, coo.values().to(dtype), matrix.shape[0]))
    coo = sp.coo_array(matrix)
    entries = [torch.from_numpy(x) for x in (coo.row, coo.col, coo.data)]
    return MatrixOperator(from_entries(entries[0], entries[1], entries[2].to(dtype), matrix.shape[0]))


def as_operators(operators: Sequence[Any], graph: Graph, dtype: torch.dtype = torch.float32) -> tuple[Operator, ...]:
    """Read several, each as :func:`as_operator` does; the predefined ones share degrees and what else they can."""
    sources = Sources(graph)
    return tuple(as_operator(operator, graph, dtype, sources=sources) for operator in operators)


def as_operator(
    operator: Any, graph: Graph, dtype: torch.dtype = torch.float32, *, sources: Sources | None = None
) -> Operator:
    """Read an operator given as a name (:func:`from_name`), an :class:`Operator`, a matrix or a callable."""
    if isinstance(operator, str):
        resolved: Operator = from_name(operator, graph, dtype, sources=sources)
    elif isinstance(operator, Tensor) or sp.issparse(operator):
        resolved = from_matrix(operator, dtype)
    elif hasattr(type(operator), "__matmul__") and hasattr(operator, "num_nodes"):
        resolved = operator  # not isinstance(..., Operator): that would evaluate `symmetric`, which costs O(m)
    elif callable(operator):
        resolved = FunctionOperator(operator, graph.num_nodes)
    else:
        raise ArgumentError(
            f"operator must be a name, a matrix, a callable or have .num_nodes and `@`, got {type(operator).__name__}"
        )
    if resolved.num_nodes != graph.num_nodes:
        raise ArgumentError(f"the operator has {resolved.num_nodes} rows but the graph has {graph.num_nodes} nodes")
    return resolved
