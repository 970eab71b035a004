"""From the forms people hold a graph in to :class:`~rfp.graph.Graph`."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.available import is_frame, is_scipy_sparse
from rfp.edge_table.table_options import LoadedGraph
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph, batch_graphs, refuse_masked
from rfp.node_offsets import check_batch, check_offsets_form, offsets_of_batch


def as_graph(graph: Any, *, weight: Any = None) -> Graph:
    """Read a graph from any of the forms people hold one in.

    =================================  ================================================================================
    :class:`~rfp.graph.Graph`          as it is; so is what :func:`rfp.read_graph` returns
    PyG ``Data``, ``Batch``            ``edge_index``, or ``adj_t`` (transposed, as PyG keeps it); ``edge_weight`` where
                                       there is one, ``edge_attr`` never
    ``edge_index``                     a tensor or array of integers ``[2, m]``; the nodes are 0 to its largest number
    ``(edge_index, num_nodes)``        the same with isolated nodes at the end
    a square matrix                    SciPy sparse, torch sparse, NumPy or torch dense: ``A[i, j]`` is the edge i -> j
    NetworkX graph                     nodes in its own order, attribute ``weight``
    data frame                         of pandas, Polars, ...: a row for each edge, by the rules of
                                       :func:`rfp.read_graph`, if its ids are 0 to n - 1
    a list of these                    one batch
    =================================  ================================================================================

    Args:
        graph: One of these.
        weight: Weights that the graph itself does not carry or that have another name: a tensor or array with one for
            each edge of ``edge_index``; or the name of an attribute (PyG, NetworkX) or a column (frames).

    Example:
        >>> import numpy as np
        >>> as_graph(np.array([[0, 1, 2], [1, 2, 0]]), weight=np.array([1.0, 2.0, 3.0])).edge_weight
        tensor([1., 2., 3.], dtype=torch.float64)
    """
    match _form(graph):
        case "graph":
            return _reweighted(graph if isinstance(graph, Graph) else graph.graph, weight)
        case "pair":
            return Graph(_edge_index(graph[0]), _num_nodes(graph[1]), edge_weights(weight))
        case "networkx":
            return _from_networkx(graph, weight)
        case "pyg":
            return _from_pyg(graph, weight)
        case "transposed":
            matrix = _from_matrix(graph.adj_t)
            ptr = _offsets_of(graph, matrix.num_nodes)
            return _no_weights_beside(
                Graph(matrix.edge_index.flip(0), matrix.num_nodes, matrix.edge_weight, ptr), weight
            )
        case "edge_index":
            edge_index = _edge_index(graph)
            return Graph(edge_index, _known_size(graph) or _least_size(edge_index), edge_weights(weight))
        case "matrix":
            return _no_weights_beside(_from_matrix(graph), weight)
        case "frame":
            from rfp.edge_table.frames import graph_of_frame

            return graph_of_frame(graph, weight)
        case "list":
            if weight is not None and not isinstance(weight, str):
                raise ArgumentError("weight must be a name for a list of graphs; give each its own edge_weight")
            return batch_graphs([as_graph(one, weight=weight) for one in graph])
    raise GraphError(
        f"cannot read a graph from {type(graph).__name__}; expected a PyG Data or Batch with edge_index, an rfp.Graph, "
        "edge_index or (edge_index, num_nodes), a matrix (SciPy, NumPy, torch), a NetworkX graph, a data frame of "
        "edges, or a list of these (a file: rfp.read_graph; a HeteroData: rfp.hetero.encode_hetero, or "
        "data.to_homogeneous())"
    )


def _form(graph: Any) -> str | None:
    """Which form a graph is given in; ``None`` if it is none of those that :func:`as_graph` reads."""
    if isinstance(graph, Graph | LoadedGraph):
        return "graph"
    if isinstance(graph, tuple):
        if len(graph) != 2 or not isinstance(graph[0], Tensor | np.ndarray):
            raise GraphError("a graph given as a tuple must be (edge_index, num_nodes)")
        return "pair"
    if is_frame(graph):  # before what is asked for attributes, which the columns of a frame are too
        return "frame"
    if is_scipy_sparse(graph) or hasattr(graph, "sparse_sizes"):
        return "matrix"
    if hasattr(graph, "is_directed") and hasattr(graph, "edges"):
        return "networkx"
    if getattr(graph, "edge_index", None) is not None:
        return "pyg"
    if getattr(graph, "adj_t", None) is not None:
        return "transposed"
    if isinstance(graph, Tensor | np.ndarray):
        return "edge_index" if _is_edge_index(graph) else "matrix"
    return "list" if isinstance(graph, list) else None


def _num_nodes(value: Any) -> int:
    try:
        return index(value)
    except TypeError as error:
        raise GraphError(
            f"a graph given as a tuple must be (edge_index, num_nodes), got {type(value).__name__} as number of nodes; "
            "weights are given as weight="
        ) from error


def _is_edge_index(values: Tensor | np.ndarray[Any, Any]) -> bool:
    """Whether an array is ``edge_index`` and not a matrix; raises where it may be either, or neither."""
    if isinstance(values, Tensor) and values.layout != torch.strided:
        return False
    if hasattr(values, "sparse_size"):  # PyG's EdgeIndex says what it is
        return True
    kind = values.dtype
    integers = (
        not (kind.is_floating_point or kind.is_complex or kind == torch.bool)
        if isinstance(kind, torch.dtype)
        else kind.kind in "iu"
    )
    shape = tuple(values.shape)
    if shape == (2, 2) and integers:
        raise GraphError(
            "an array of integers [2, 2] may be edge_index with two edges or the matrix of two nodes; give "
            "(edge_index, num_nodes), or the matrix in floating point"
        )
    if len(shape) == 2 and shape[0] == 2 and integers:
        return True
    if len(shape) != 2 or shape[0] != shape[1]:
        hint = "; transpose it" if len(shape) == 2 and shape[1] == 2 else ""
        raise GraphError(
            f"an array must be edge_index, integers [2, m], or a square matrix, got {kind} of shape {list(shape)}{hint}"
        )
    return False


def _known_size(edge_index: Any) -> int | None:
    """The number of nodes that a PyG ``EdgeIndex`` may know; a plain tensor does not."""
    sizes = edge_index.sparse_size() if hasattr(edge_index, "sparse_size") else ()
    known = [size for size in sizes if size is not None]
    if len(set(known)) > 1:
        raise GraphError(f"an EdgeIndex must be of a square matrix, got sparse_size={tuple(sizes)}")
    return known[0] if known else None


def _least_size(edge_index: Tensor) -> int:
    return int(edge_index.max()) + 1 if edge_index.numel() else 0


def _edge_index(values: Any) -> Tensor:
    if isinstance(values, Tensor):
        return values.as_tensor() if hasattr(values, "as_tensor") else values
    refuse_masked(values, "edge_index")
    if values.dtype.kind not in "iu":
        raise GraphError(f"edge_index must hold integers, got {values.dtype}; convert it with .astype(np.int64)")
    return torch.from_numpy(np.ascontiguousarray(values.astype(np.int64, casting="same_kind", copy=False)))


def edge_weights(weight: Any) -> Tensor | None:
    """Weights given as values."""
    if weight is None:
        return None
    if isinstance(weight, str):
        raise ArgumentError(f"weight must hold one value for each edge, for edge_index has no names; got {weight!r}")
    values = weight.detach() if isinstance(weight, Tensor) else _weight_array(weight)
    if values.is_complex():
        raise GraphError("weights must be real, got complex numbers; take their absolute values")
    return values.squeeze(1) if values.dim() == 2 and values.size(1) == 1 else values


def _weight_array(weight: Any) -> Tensor:
    array = _numbers(weight, "edge_weight")
    return torch.from_numpy(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))


def _numbers(values: Any, what: str) -> np.ndarray[Any, Any]:
    """Values as an array of numbers, one of objects in float64; neither text nor dates."""
    refuse_masked(values, what)
    try:
        array = np.asarray(values)
        array = array.astype(np.float64) if array.dtype.kind == "O" else array
    except (TypeError, ValueError) as error:
        raise GraphError(f"{what} must hold numbers: {error}") from error
    if array.dtype.kind not in "biufc":
        raise GraphError(f"{what} must hold numbers, got {array.dtype}; convert it with .astype(float)")
    return array


def _reweighted(graph: Graph, weight: Any) -> Graph:
    if weight is None:
        return graph
    reweighted = Graph(graph.edge_index, graph.num_nodes, edge_weights(weight), graph.ptr)
    return reweighted if graph.known_keys is None else reweighted.with_keys(graph.known_keys)


def _no_weights_beside(graph: Graph, weight: Any) -> Graph:
    if weight is not None:
        raise ArgumentError("the entries of a matrix are its weights; leave weight out, or give edge_index")
    return graph


def _from_matrix(matrix: Any) -> Graph:
    """A matrix of any kind, on the device it is on; entries that are all 1 are no weights."""
    if hasattr(matrix, "sparse_sizes"):  # torch_sparse.SparseTensor
        row, col, value = matrix.coo()
        return _from_entries(torch.stack([row, col]), value, tuple(matrix.sparse_sizes()))
    if not isinstance(matrix, Tensor):  # of SciPy or NumPy
        import scipy.sparse as sp

        matrix = matrix if is_scipy_sparse(matrix) else _numbers(matrix, "a matrix")
        _refuse_complex(np.iscomplexobj(matrix))
        listed = sp.coo_array(matrix)
        edge_index = torch.from_numpy(np.stack([listed.row, listed.col]).astype(np.int64))
        return _from_entries(edge_index, torch.from_numpy(listed.data.astype(np.float64)), matrix.shape)
    _refuse_complex(matrix.is_complex())
    sparse = matrix.to_sparse() if matrix.layout == torch.strided else matrix.to_sparse_coo()  # type: ignore[no-untyped-call]
    entries = sparse.coalesce()
    return _from_entries(entries.indices(), entries.values(), tuple(matrix.shape))


def _refuse_complex(found: bool) -> None:
    if found:
        raise GraphError("the matrix is complex; real weights are needed, e.g. abs(matrix)")


def _from_entries(edge_index: Tensor, value: Tensor | None, shape: tuple[int, ...]) -> Graph:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(f"an adjacency matrix must be square, got shape {shape}")
    weighted = value is not None and not bool((value == 1).all())
    return Graph(edge_index, shape[0], value.to(torch.float64) if weighted and value is not None else None)


def _from_pyg(data: Any, weight: Any) -> Graph:
    name = weight if isinstance(weight, str) else "edge_weight"
    values = getattr(data, name, None) if weight is None or isinstance(weight, str) else weight
    if isinstance(weight, str) and values is None:
        raise ArgumentError(f"weight={weight!r}: the graph has no such attribute; it has {', '.join(data.keys())}")
    values = edge_weights(values)
    if values is not None and not values.is_floating_point():
        values = values.to(torch.float64)
    num_nodes = int(data.num_nodes)
    return Graph(data.edge_index, num_nodes, values, _offsets_of(data, num_nodes))


def _offsets_of(data: Any, num_nodes: int) -> Tensor | None:
    """Which nodes of a PyG object are of which graph; ``None`` where it is one graph."""
    ptr, batch = getattr(data, "ptr", None), getattr(data, "batch", None)
    if batch is None:
        return ptr
    check_batch(batch, num_nodes, values=True)
    if ptr is not None:
        check_offsets_form(ptr)
    return offsets_of_batch(batch, ptr)


def _from_networkx(nx_graph: Any, weight: Any) -> Graph:
    if weight is not None and not isinstance(weight, str):
        raise ArgumentError(
            f"weight must be the name of an edge attribute for a NetworkX graph, got {type(weight).__name__}"
        )
    number = {node: i for i, node in enumerate(nx_graph.nodes)}
    edges = [(number[u], number[v], w) for u, v, w in nx_graph.edges(data=weight or "weight")]
    weighted = any(w is not None for _, _, w in edges)
    if weight is not None and not weighted:
        raise ArgumentError(f"weight={weight!r}: no edge has such an attribute")
    if not nx_graph.is_directed():
        edges += [(v, u, w) for u, v, w in edges if u != v]
    edge_index = torch.tensor([[u for u, _, _ in edges], [v for _, v, _ in edges]], dtype=torch.long)
    try:
        values = torch.tensor([1.0 if w is None else float(w) for _, _, w in edges], dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise GraphError(f"the edge attribute {weight or 'weight'!r} holds what is no number: {error}") from error
    return Graph(edge_index.view(2, -1), len(number), values if weighted else None)
