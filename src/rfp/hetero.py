r"""Graphs with several types of nodes and edges (PyG's ``HeteroData``): the encoding along each relation.

A *relation* is what an operator is made of, and may be

* an **edge type** ``("author", "writes", "paper")``: the graph of the nodes of its two types and of these edges alone.
  Between two types an edge counts both ways, for S would otherwise lead nowhere after one step; within a type the
  direction is kept;
* a **metapath**, edge types one after the other from a type back to itself, ``[("author", "writes", "paper"),
  ("paper", "written_by", "author")]``: :math:`S = S_1 S_2 \cdots`, applied as products, never formed;
* ``"homogeneous"``: all nodes and edges as one graph, as ``data.to_homogeneous()`` gives it.

A node is encoded along every relation that its type is part of, so types differ in the width of their encoding, as they
do in the number of their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor

from rfp.encode import encode
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph
from rfp.operator_norms import norms_of_entries
from rfp.operators import FunctionOperator, parse_name
from rfp.ragged import offsets
from rfp.settings import Arguments, Settings, shows_settings

EdgeType = tuple[str, str, str]
HOMOGENEOUS = "homogeneous"


@shows_settings(Arguments)
def encode_hetero(
    data: Any, settings: Settings | None = None, *, relations: Any = "edge_types", **arguments: Unpack[Arguments]
) -> dict[str, Tensor]:
    r"""Encode every node type of a ``HeteroData`` along relations.

    Args:
        data: A ``HeteroData`` with ``edge_index`` (and ``edge_weight``, where there is one) for its edge types, or a
            batch of them, whose graphs do not mix.
        settings: All arguments in one :class:`rfp.Settings`, or as keywords. Each operator is built for each relation;
            along a metapath the four names without suffixes are defined, :math:`S_r` being :math:`A_r`,
            :math:`D^{-1/2} A_r D^{-1/2}` or :math:`D^{-1} A_r` without self-loops, and the Laplacian I minus the
            product of the second.
        relations: ``"edge_types"`` (each, but for one that is another reversed), or a list of edge types, metapaths and
            ``"homogeneous"``.

    Returns:
        For each node type that has a relation ``[n_t, C_t]``, or ``[n_t, B, C_t]`` for several trajectories:
        :meth:`rfp.Trajectory.node_first` of one relation after the other.

    Example:
        >>> from torch_geometric.data import HeteroData
        >>> data = HeteroData()
        >>> data["author"].num_nodes, data["paper"].num_nodes = 2, 3
        >>> data["author", "writes", "paper"].edge_index = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]])
        >>> {t: tuple(x.shape) for t, x in encode_hetero(data, num_channels=2, num_steps=4).items()}
        {'author': (2, 10), 'paper': (3, 10)}
    """
    settings = Settings.of(settings, arguments)
    found: dict[str, list[Tensor]] = {}
    for relation in resolved(data, relations):
        for node_type, rows in _encoded(data, relation, settings).items():
            found.setdefault(node_type, []).append(rows)
    return {node_type: torch.cat(parts, dim=-1) for node_type, parts in found.items()}


def hetero_widths(data: Any, settings: Settings, relations: Any = "edge_types") -> dict[str, int]:
    """The width :math:`C_t` of each node type's encoding, without computing it."""
    widths: dict[str, int] = {}
    for relation in resolved(data, relations):
        for node_type in _types(data, relation):
            widths[node_type] = widths.get(node_type, 0) + settings.num_columns
    return widths


def resolved(data: Any, relations: Any) -> list[Any]:
    """The relations one by one: edge types as triples, metapaths as tuples of them, ``"homogeneous"``."""
    if not hasattr(data, "edge_types") or not hasattr(data, "node_types"):
        raise GraphError(f"expected a PyG HeteroData, got {type(data).__name__}; rfp.encode takes graphs of one type")
    if not data.edge_types:
        raise GraphError("the HeteroData has no edge types, so there is nothing to propagate along")
    if isinstance(relations, str) and relations == "edge_types":
        return list(_without_reversed(data))
    if isinstance(relations, str):
        relations = [relations]
    out = [relation if isinstance(relation, str) else _as_tuple(relation) for relation in relations]
    if not out:
        raise ArgumentError("at least one relation is needed, got none")
    for relation in out:
        if isinstance(relation, str) and relation != HOMOGENEOUS:
            raise ArgumentError(f"a relation is an edge type, a metapath or 'homogeneous', got {relation!r}")
        for edge_type in _edge_types(data, relation):
            if edge_type not in data.edge_types:
                raise ArgumentError(f"there is no edge type {edge_type}; there are {list(data.edge_types)}")
        if not isinstance(relation, str) and _is_metapath(relation):
            _check_metapath(relation)
    return out


def _as_tuple(relation: Any) -> tuple[Any, ...]:
    if all(isinstance(part, str) for part in relation):
        return tuple(relation)
    return tuple(tuple(edge_type) for edge_type in relation)


def _is_metapath(relation: Any) -> bool:
    return not isinstance(relation, str) and not isinstance(relation[0], str)


def _check_metapath(path: tuple[EdgeType, ...]) -> None:
    ends = [edge_type[0] for edge_type in path] + [path[-1][2]]
    for edge_type, start in zip(path, ends[1:], strict=True):
        if edge_type[2] != start:
            raise ArgumentError(
                f"in the metapath {path} the edge type after {edge_type} must start at {edge_type[2]!r}"
            )
    if ends[0] != ends[-1]:
        raise ArgumentError(f"a metapath must end where it starts, so that it can be walked again; got {path}")


def _edge_types(data: Any, relation: Any) -> list[EdgeType]:
    if isinstance(relation, str):
        return list(data.edge_types)
    return list(relation) if _is_metapath(relation) else [relation]


def _types(data: Any, relation: Any) -> list[str]:
    """The node types that a relation encodes, in the order of their nodes."""
    if isinstance(relation, str):
        return list(data.node_types)
    if _is_metapath(relation):
        return [relation[0][0]]
    return [relation[0]] if relation[0] == relation[2] else [relation[0], relation[2]]


def _without_reversed(data: Any) -> Iterator[EdgeType]:
    """Edge types, but for those between two types that are another one turned round, as ``T.ToUndirected`` adds."""
    seen: dict[tuple[str, str], list[Tensor]] = {}
    for edge_type in data.edge_types:
        source, _, target = edge_type
        edges = _sorted(_edges(data, edge_type)[0])
        turned = [_sorted(known.flip(0)) for known in seen.get((target, source), [])] if source != target else []
        if any(torch.equal(edges, known) for known in turned):
            continue
        seen.setdefault((source, target), []).append(edges)
        yield edge_type


def _sorted(edges: Tensor) -> Tensor:
    order = torch.argsort(edges[1], stable=True)
    edges = edges[:, order]
    return edges[:, torch.argsort(edges[0], stable=True)]


def _edges(data: Any, edge_type: EdgeType) -> tuple[Tensor, Tensor | None]:
    store = data[edge_type]
    edge_index = getattr(store, "edge_index", None)
    if edge_index is None:
        raise GraphError(f"the edge type {edge_type} has no edge_index")
    weight = getattr(store, "edge_weight", None)
    return edge_index.long(), None if weight is None else weight.view(-1)


def _num_nodes(data: Any, node_type: str) -> int:
    size = data[node_type].num_nodes
    if size is None:
        raise GraphError(f"the number of nodes of type {node_type!r} is not known; set data[{node_type!r}].num_nodes")
    return int(size)


@dataclass(frozen=True)
class _Stacked:
    """Nodes of some types as those of one graph, type after type in each graph of a batch.

    Args:
        graph: The graph.
        place: ``[n]``: where the i-th of the nodes, taken type after type, is in the graph.
        sizes: Sizes of the types.
    """

    graph: Graph
    place: Tensor
    sizes: dict[str, int]

    @classmethod
    def of(cls, data: Any, types: Sequence[str], edge_types: Sequence[EdgeType], *, both_ways: bool) -> _Stacked:
        sizes = {node_type: _num_nodes(data, node_type) for node_type in types}
        first = dict(zip(sizes, offsets(torch.tensor(list(sizes.values()))).tolist(), strict=False))
        parts, weights = [], []
        for edge_type in edge_types:
            edges, weight = _edges(data, edge_type)
            shift = torch.tensor([[first[edge_type[0]]], [first[edge_type[2]]]], device=edges.device)
            limits = torch.tensor([[sizes[edge_type[0]]], [sizes[edge_type[2]]]], device=edges.device)
            if bool(((edges < 0) | (edges >= limits)).any()):
                raise GraphError(f"edge_index of {edge_type} holds a node beyond {limits.flatten().tolist()}")
            parts.append(edges + shift)
            weights.append(torch.ones(edges.size(1), device=edges.device) if weight is None else weight)
        edge_index, weighted = torch.cat(parts, dim=1), any(_edges(data, e)[1] is not None for e in edge_types)
        place, ptr = _places(data, sizes, edge_index.device)
        graph = Graph(place[edge_index], sum(sizes.values()), torch.cat(weights) if weighted else None, ptr)
        return cls(graph.to_undirected() if both_ways else graph, place, sizes)

    def split(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows of the graph, type by type."""
        return dict(zip(self.sizes, torch.split(rows[self.place], list(self.sizes.values())), strict=True))


def _places(data: Any, sizes: dict[str, int], device: torch.device) -> tuple[Tensor, Tensor | None]:
    if not all(hasattr(data[node_type], "batch") for node_type in sizes):
        return torch.arange(sum(sizes.values()), device=device), None
    batch = torch.cat([data[node_type].batch for node_type in sizes]).to(device)
    order = torch.argsort(batch, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=device)
    # What a loader samples apart has a batch and does not say of how many.
    return place, offsets(torch.bincount(batch, minlength=int(getattr(data, "num_graphs", 0))))


def _encoded(data: Any, relation: Any, settings: Settings) -> dict[str, Tensor]:
    if _is_metapath(relation):
        return _along_metapath(data, relation, settings)
    between = not isinstance(relation, str) and relation[0] != relation[2]
    stacked = _Stacked.of(data, _types(data, relation), _edge_types(data, relation), both_ways=between)
    return stacked.split(encode(stacked.graph, settings).node_first())


def _along_metapath(data: Any, path: tuple[EdgeType, ...], settings: Settings) -> dict[str, Tensor]:
    node_type = path[0][0]
    size = _num_nodes(data, node_type)
    first = _Stacked.of(data, _types(data, path[0]), path[:1], both_ways=path[0][0] != path[0][2]).graph
    ptr = getattr(data[node_type], "ptr", None)
    if ptr is None and hasattr(data[node_type], "batch"):
        raise GraphError(
            f"along a metapath the nodes of a batch must stand graph by graph, with ptr, but {node_type!r} has batch "
            "alone; make the batch by PyG's Batch.from_data_list, or take edge types"
        )
    # Nodes of one type; the draw is that of the graph of the first edge type.
    nodes = Graph.unchecked(first.edge_index[:, :0], size, None, ptr, known_keys=first.keys)
    operators = [_metapath_operator(data, path, name, size, settings.dtype) for name in settings.operators]
    rows = encode(nodes, replace(settings, operators=tuple(operators))).node_first()
    return {node_type: rows}


def _metapath_operator(
    data: Any, path: tuple[EdgeType, ...], name: Any, size: int, dtype: torch.dtype
) -> FunctionOperator:
    base = parse_name(name)["base"] if isinstance(name, str) else None
    if base is None or base != name:
        raise ArgumentError(f"along a metapath an operator is a name without suffixes, got {name!r}")
    parts = [_part(data, edge_type, base, dtype) for edge_type in path]

    def walk(a: Tensor) -> Tensor:  # S_1 (S_2 (... a))
        out = a
        for part in reversed(parts):
            out = part @ out
        return a - out if base == "normalized_laplacian" else out

    return FunctionOperator(walk, size, norm=_walk_norm(data, path, parts, base))


def _walk_norm(data: Any, path: tuple[EdgeType, ...], parts: Sequence[Tensor], base: str) -> Tensor:
    r"""What rounding of :math:`S_1 (S_2 (\cdots a))` scales with, ``[G]``: that of each product, carried by the others.

    .. math:: \sum_i \rho_i \prod_{j \neq i} \lVert S_j \rVert

    with :math:`\rho` as :func:`rfp.operator_norms.rounding_norm` has it; for the Laplacian 1 more.
    """
    ends = [edge_type[0] for edge_type in path] + [path[-1][2]]
    batched = all(getattr(data[node_type], "ptr", None) is not None for node_type in ends)
    bounds: list[Tensor] = [
        data[node_type].ptr if batched else torch.tensor([0, _num_nodes(data, node_type)]) for node_type in ends
    ]
    product, total = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for part, ptr, column_ptr in zip(parts, bounds[:-1], bounds[1:], strict=True):
        (row, col), value, device = part.indices(), part.values(), part.device
        norm, own = norms_of_entries(row, col, value, tuple(part.shape), ptr.to(device), column_ptr.to(device))
        total = total.to(device) * norm + product.to(device) * own
        product = product.to(device) * norm
    return total + (base == "normalized_laplacian")


def _part(data: Any, edge_type: EdgeType, base: str, dtype: torch.dtype) -> Tensor:
    r""":math:`S_r`, ``[n_source, n_target]``."""
    edges, weight = _edges(data, edge_type)
    shape = (_num_nodes(data, edge_type[0]), _num_nodes(data, edge_type[2]))
    values = torch.ones(edges.size(1), dtype=torch.float64, device=edges.device) if weight is None else weight.double()
    matrix = torch.sparse_coo_tensor(edges, values, shape, check_invariants=True).coalesce()
    (row, col), value = matrix.indices(), matrix.values()
    degree: Callable[[int], Tensor] = lambda axis: torch.zeros(  # noqa: E731
        shape[axis], dtype=torch.float64, device=edges.device
    ).index_add_(0, (row, col)[axis], value.abs())
    if base == "random_walk":
        value = value / degree(0)[row]
    elif base != "adjacency":
        value = value / (degree(0)[row] * degree(1)[col]).sqrt()
    scaled = torch.where(torch.isfinite(value), value, 0.0)  # entries of weight zero in rows without any other
    return torch.sparse_coo_tensor(matrix.indices(), scaled.to(dtype), shape, is_coalesced=True, check_invariants=False)
