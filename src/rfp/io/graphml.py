"""GraphML, through NetworkX."""

from __future__ import annotations

import io
from pathlib import Path

from rfp.conversion import as_graph
from rfp.errors import FileError, GraphError, MissingExtraError
from rfp.io.edge_list import read_bytes
from rfp.io.node_ids import simplify
from rfp.io.options import LoadedGraph, ReadOptions


def read_graphml(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read the first graph of the file: its order of nodes, its direction, its edge attribute ``weight`` if any."""
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtraError("networkx", "cli", "reading GraphML") from error
    content = read_bytes(path)
    try:
        graph = nx.read_graphml(io.BytesIO(content), node_type=str)
    except MemoryError:
        raise
    except Exception as error:  # damaged XML makes NetworkX fail in any way
        raise FileError(f"{path}: not a readable GraphML file ({error or type(error).__name__})") from error
    if options.num_nodes not in (None, len(graph)):
        raise GraphError(f"{path} has {len(graph)} nodes, but --num-nodes is {options.num_nodes}; leave it out")
    name = options.weight_column or "weight"
    weighted = not options.unweighted and (
        name in graph.graph.get("edge_default", {}) or any(name in data for _, _, data in graph.edges(data=True))
    )
    if options.weight_column is not None and not weighted:
        raise GraphError(f"{path}: no edge has the attribute {name!r} asked for by --weight-column")
    # The file may declare a value for edges that have none of their own; NetworkX keeps it aside.
    default = graph.graph.get("edge_default", {}).get(name)
    # A fresh graph: only ids, edges and the chosen weight, whatever else the file carries.
    plain = nx.MultiDiGraph() if graph.is_directed() else nx.MultiGraph()
    plain.add_nodes_from(graph)
    for u, v, value in graph.edges(data=name, default=default):
        plain.add_edge(u, v, **({"weight": _number(value, u, v, path)} if weighted else {}))
    loaded = as_graph(plain)
    # As stored: a directed file keeps its direction, an undirected one counts every edge both ways.
    directed = graph.is_directed() and options.directed is not False
    return LoadedGraph(
        graph=loaded if directed or not graph.is_directed() else loaded.to_undirected(),
        node_ids=simplify([str(node) for node in graph]),
        directed=directed,
        weights=f"attribute {name!r}" if weighted else None,
    )


def _number(value: object, source: object, target: object, path: Path) -> float:
    try:
        number = 1.0 if value is None else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = float("nan")
    if not -float("inf") < number < float("inf"):
        raise GraphError(
            f"{path}, edge {source} - {target}: weight {value!r} is not a finite number; correct it, choose another "
            "attribute with --weight-column, or ignore weights with --unweighted"
        )
    return number
