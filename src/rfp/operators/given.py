"""An operator from what a user gives: a name, a matrix, a callable, an object."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from rfp.available import is_scipy_sparse
from rfp.csr import CSR, from_entries
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph, refuse_masked
from rfp.operators.operator import DenseOperator, FunctionOperator, MatrixOperator, Operator, PowerOperator, factors
from rfp.operators.predefined import NORMS, OPERATORS, EntryTable, parse_name
from rfp.ragged import owners


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
        dtype: Type of its entries.
        sources: Those of the same graph, where several operators share them.

    Example:
        >>> import torch
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> from_name("random_walk", path).to_dense()
        tensor([[0.0000, 1.0000, 0.0000],
                [0.5000, 0.0000, 0.5000],
                [0.0000, 1.0000, 0.0000]])
    """
    parts = parse_name(name)
    _check_weights(parts["base"], graph, dtype)
    sources = sources or Sources(graph)
    pattern, entries = sources.symmetrised if parts["sym"] else sources.directed
    csr = pattern.with_value(entries.memo.of(OPERATORS[parts["base"]], entries).to(dtype))
    base = MatrixOperator(csr.transpose() if parts["transposed"] else csr, norm=NORMS.get(parts["base"]))
    if parts["power"] is None:
        return base
    return PowerOperator(base, int(parts["power"]))


def _check_weights(name: str, graph: Graph, dtype: torch.dtype) -> None:
    """Raise where the weights of a graph are so small that entries of an operator vanish; not on a GPU, to wait for."""
    # The entries of A are the weights themselves; the others are quotients of weights, in float64.
    dtype = dtype if name == "adjacency" else torch.float64
    if graph.edge_weight is None or graph.device.type != "cpu":
        return
    size, tiny = graph.edge_weight.detach().double().abs(), torch.finfo(dtype).tiny
    if bool(((size > 0) & (size < tiny)).any()):
        largest = torch.zeros(graph.num_graphs, dtype=torch.float64)
        largest.scatter_reduce_(0, graph.batch[graph.edge_index[0].long()], size, "amax")
        vanishing = ((largest > 0) & (largest < tiny)).nonzero()
        if len(vanishing):
            number = int(vanishing[0])
            of = f" of graph {number}" if graph.num_graphs > 1 else ""
            raise GraphError(
                f"the weights{of} are at most {float(largest[number]):.2g}, and {dtype} holds no numbers below "
                f"{tiny:.2g} in full; multiply all weights by {1 / tiny:.0e}"
            )


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
    import scipy.sparse as sp

    refuse_masked(matrix, "an operator")
    coo = sp.coo_array(matrix)
    entries = [torch.from_numpy(x) for x in (coo.row, coo.col, coo.data)]
    return MatrixOperator(from_entries(entries[0], entries[1], entries[2].to(dtype), matrix.shape[0]))


def as_operators(operators: Sequence[Any], graph: Graph, dtype: torch.dtype = torch.float32) -> tuple[Operator, ...]:
    """Read several, each as :func:`as_operator` does; the predefined ones share degrees and what else they can."""
    made: dict[str, MatrixOperator] = {}
    if graph.sorts_on_gpu:
        made = _by_kernels(operators, graph, dtype)
    elif graph.sorts_compiled:
        made = _by_compiled_kernels(operators, graph, dtype)
    sources = Sources(graph)
    return tuple(
        made[operator]
        if isinstance(operator, str) and operator in made
        else as_operator(operator, graph, dtype, sources=sources)
        for operator in operators
    )


def _by_kernels(operators: Sequence[Any], graph: Graph, dtype: torch.dtype) -> dict[str, MatrixOperator]:
    """The predefined ones without suffixes by kernels that nobody waits for, by their names."""
    names = list(dict.fromkeys(name for name in operators if isinstance(name, str) and name in OPERATORS))
    if not names:
        return {}
    if graph.is_small_batch and _agrees(tuple(names), graph, dtype):
        from rfp.operators.triton_small_graphs import launch_small_graphs

        found = launch_small_graphs(tuple(names), graph, dtype)
        parts = zip(names, found.matrices(), found.norms.unbind(1), strict=True)
        return {name: MatrixOperator(csr, norm=NORMS.get(name), rounding_norm=norm) for name, csr, norm in parts}
    from rfp.operators.triton_values import operator_values

    edges = graph.kernel_pattern
    values = operator_values(names, edges, dtype)
    matrices = [edges.pattern.with_value(value) for value in values.unbind()]
    return {name: MatrixOperator(csr, norm=NORMS.get(name)) for name, csr in zip(names, matrices, strict=True)}


def _by_compiled_kernels(operators: Sequence[Any], graph: Graph, dtype: torch.dtype) -> dict[str, MatrixOperator]:
    """Those that a CPU has a kernel for, by their names."""
    from rfp.compiled.operator_values import compiled_operator_values

    names = [name for name in operators if isinstance(name, str)]
    for name in names:
        _check_weights(name, graph, dtype)
    values = compiled_operator_values(names, graph.pattern, dtype)
    return {
        name: MatrixOperator(graph.pattern.with_value(value), norm=NORMS.get(name)) for name, value in values.items()
    }


def _agrees(names: tuple[str, ...], graph: Graph, dtype: torch.dtype) -> bool:
    from rfp.operators.small_graphs_agree import small_graphs_agree  # which compares with what is here

    return small_graphs_agree(names, graph, dtype)


def as_operator(
    operator: Any, graph: Graph, dtype: torch.dtype = torch.float32, *, sources: Sources | None = None
) -> Operator:
    """Read an operator given as a name (:func:`from_name`), an :class:`Operator`, a matrix or a callable."""
    if isinstance(operator, str):
        resolved: Operator = from_name(operator, graph, dtype, sources=sources)
    elif isinstance(operator, Tensor) or is_scipy_sparse(operator):
        resolved = from_matrix(operator, dtype)
    elif hasattr(type(operator), "__matmul__") and hasattr(operator, "num_nodes"):
        resolved = operator  # not isinstance(..., Operator): that would evaluate `symmetric`, which costs O(m)
    elif isinstance(operator, torch.nn.Module):
        raise ArgumentError(
            f"{type(operator).__name__} is a module, which makes an operator of node features inside a model: give "
            "it to rfp.nn.RandomFeaturePropagation (a module that maps states to states: its forward)"
        )
    elif callable(operator):
        resolved = FunctionOperator(operator, graph.num_nodes)
    else:
        raise ArgumentError(
            f"operator must be a name, a matrix, a callable or have .num_nodes and `@`, got {type(operator).__name__}"
        )
    if resolved.num_nodes != graph.num_nodes:
        raise ArgumentError(f"the operator has {resolved.num_nodes} rows but the graph has {graph.num_nodes} nodes")
    if graph.num_graphs > 1 and not isinstance(operator, str):
        check_within_graphs(resolved, graph.offsets)
    return resolved


def check_within_graphs(operator: Operator, ptr: Tensor) -> None:
    """Raise where a matrix joins two graphs of a batch: kernels for small graphs hold the nodes of one alone.

    Args:
        operator: What is no matrix is not looked at.
        ptr: ``[num_graphs + 1]``. O(m), and a GPU is waited for.
    """
    S, graph = factors(operator)[0], owners(ptr.diff(), operator.num_nodes)
    if isinstance(S, MatrixOperator):
        places = torch.stack([S.csr.row, S.csr.col.long()])
        apart = places[:, graph[places[0]] != graph[places[1]]]
    elif isinstance(S, DenseOperator):
        apart = ((graph[:, None] != graph) & (S.matrix.detach() != 0)).nonzero().T
    else:
        return
    if apart.size(1):
        i, j = apart[:, 0].tolist()
        raise GraphError(
            f"the operator joins the nodes {i} and {j}, which are of two graphs of the batch; graphs of a batch never "
            "mix: encode them as one graph, or give a block for each"
        )
