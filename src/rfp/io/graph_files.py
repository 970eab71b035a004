"""Files that hold a graph with names and attributes: GraphML, GEXF, GML (through NetworkX), node-link JSON, Pajek.

As stored: the order of the nodes is that of the file, directed edges keep their direction, undirected ones count both
ways, parallel edges add up unless ``duplicates`` says otherwise. A parser is loaded with the first file of its format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rfp.edge_table.duplicates import both_ways, merge_duplicates
from rfp.edge_table.node_ids import shown, simplified_ids
from rfp.errors import FileError, GraphError, MissingExtraError
from rfp.graph import Graph
from rfp.io.compression import read_bytes
from rfp.io.options import LoadedGraph, ReadOptions

if TYPE_CHECKING:
    from rfp.io.xml_graphs import XMLGraph

_ODD = re.compile("[^-+.0-9eE \\t\\n]")
Edge = tuple[int, int, Any]  # node numbers and weight, None for none


def read_graphml(path: Path, options: ReadOptions) -> LoadedGraph:
    """The graph of a GraphML file; nodes are named by their ids."""
    from rfp.io.xml_graphs import parse_graphml

    return _from_xml(path, options, parse_graphml)


def read_gexf(path: Path, options: ReadOptions) -> LoadedGraph:
    """The graph of a GEXF file, as Gephi writes it; nodes are named by their ids."""
    from rfp.io.xml_graphs import parse_gexf

    return _from_xml(path, options, parse_gexf)


def read_gml(path: Path, options: ReadOptions) -> LoadedGraph:
    """The graph of a GML file; nodes are named by their labels where all have one of their own, else by their ids."""
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtraError("networkx", "cli", "reading GML") from error
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
        graph = nx.parse_gml(text, label="id")
    except MemoryError:
        raise
    except Exception as error:  # a damaged file makes NetworkX fail in any way
        raise FileError(f"{path}: not a readable GML file ({str(error)[:200] or type(error).__name__})") from error
    said = _directed_of_gml(text)
    if len(said) > 1 or not set(said) <= {"0", "1"}:
        raise FileError(f"{path}: a GML file says directed 0 or directed 1, once; got {shown(', '.join(said))}")
    name = options.weight or "weight"
    number = {node: i for i, node in enumerate(graph)}
    edges = [(number[u], number[v], value) for u, v, value in graph.edges(data=name)]
    _check_weight(edges, options, path)
    return load_edges(edges, _names(graph, path), graph.is_directed(), f"attribute {name!r}", options, path)


def _directed_of_gml(text: str) -> list[str]:
    r"""What a GML file has under the key ``directed`` of its graph, which NetworkX takes for yes whatever it is.

    >>> _directed_of_gml('graph [ directed 1 node [ id 0 directed 7 label "directed 2" ] ]')
    ['1']
    """
    lines = "\n".join(text.splitlines())
    bare = re.sub(r'("[^"]*")|^\s*#.*$', lambda found: '""' if found[1] else "", lines, flags=re.MULTILINE)
    found, depth, words = [], 0, iter(re.findall(r"[\[\]]|[^\s\[\]]+", bare))
    for word in words:
        depth += (word == "[") - (word == "]")
        if depth == 1 and word == "directed":
            found.append(next(words, ""))
    return found


def read_node_link(path: Path, options: ReadOptions) -> LoadedGraph:
    """The graph of node-link JSON."""
    from rfp.io.node_link import parse_node_link

    name = options.weight or "weight"
    found = parse_node_link(read_bytes(path), name, str(path))
    _check_weight(found.links, options, path)
    return load_edges(found.links, found.names, found.directed, f"attribute {name!r}", options, path)


def read_pajek(path: Path, options: ReadOptions) -> LoadedGraph:
    """A Pajek network: ``*Vertices``, then ``*Arcs``, ``*Edges``, their lists, or a ``*Matrix``."""
    from rfp.io.pajek import parse_pajek

    network = parse_pajek(read_bytes(path), str(path))
    if options.weight is not None:
        raise GraphError(f"{path}: the weights of a Pajek network have no name; leave --weight out")
    edges = _in_one_list(network.arcs, network.edges)
    return load_edges(edges, network.labels, bool(network.arcs), "the third number of a line", options, path)


def _from_xml(path: Path, options: ReadOptions, parse: Callable[[bytes, str, str], XMLGraph]) -> LoadedGraph:
    name = options.weight or "weight"
    found = parse(read_bytes(path), name, str(path))
    edges = _in_one_list(found.arcs, found.edges)
    _check_weight(edges, options, path)
    return load_edges(edges, list(found.nodes), bool(found.arcs), f"attribute {name!r}", options, path)


def _in_one_list(arcs: Sequence[Edge], edges: Sequence[Edge]) -> list[Edge]:
    """All edges of a graph; beside directed ones, an undirected one is two of them."""
    return [*arcs, *edges, *((v, u, weight) for u, v, weight in edges if u != v and arcs)]


def _check_weight(edges: Sequence[Edge], options: ReadOptions, path: Path) -> None:
    if options.weight is not None and all(value is None for *_, value in edges):
        raise GraphError(f"{path}: no edge has the attribute {options.weight!r} asked for by --weight")


def _names(graph: Any, path: Path) -> list[str]:
    labels = [data.get("label") for _, data in graph.nodes(data=True)]
    for node, label in zip(graph, labels, strict=True):
        if isinstance(label, list):  # what NetworkX makes of a key that is said again
            raise FileError(f"{path}: node {node} has {len(label)} labels; leave one")
    by_label = all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels)
    return [str(name) for name in (labels if by_label else graph)]


def load_edges(
    edges: Sequence[Edge], names: Sequence[str], directed: bool, weights: str, options: ReadOptions, path: Path
) -> LoadedGraph:
    """The graph of a list of edges between nodes that are there already.

    Args:
        edges: Node numbers and weights.
        names: Names of the nodes.
        directed: What the file says.
        weights: Where weights come from, if there are any.
        options: What was asked for.
        path: Path of the file, for errors.
    """
    num_nodes = len(names)
    if options.num_nodes not in (None, num_nodes):
        raise GraphError(f"{path} has {num_nodes} nodes, but --num-nodes is {options.num_nodes}; leave it out")
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
    weight = None
    if not options.unweighted and any(value is not None for *_, value in edges):
        weight = np.array([_number(edge, names, path) for edge in edges])

    def where(row: int) -> str:
        return f"{path}, edge {names[edges[row][0]]} - {names[edges[row][1]]}"

    # A directed file asked for as undirected: parallel edges add up in each direction, then the larger one counts.
    one_way = directed and (options.directed is not False or options.duplicates is None)
    rule = options.duplicates or ("first" if options.unweighted else "sum")
    first = tuple(_shown(edge, names, weight is not None) for edge in edges[:3])
    weighted = weight is not None
    ends, weight, merged = merge_duplicates(ends, weight, num_nodes, directed=one_way, duplicates=rule, where=where)
    if not one_way:
        ends, weight = both_ways(ends, weight, num_nodes)
    graph = Graph(
        torch.from_numpy(np.ascontiguousarray(ends)), num_nodes, None if weight is None else torch.from_numpy(weight)
    )
    directed = directed and options.directed is not False
    source = None if weight is None else weights if weighted else "the number of parallel edges"
    facts = {"parallel edges": f"{merged:,} merged ({rule})"} if merged else {}
    return LoadedGraph(
        graph.to_undirected() if one_way and not directed else graph,
        simplified_ids(list(names)),
        directed,
        source,
        facts=facts,
        first_edges=first,
    )


def _shown(edge: Edge, names: Sequence[str], weighted: bool) -> tuple[str, ...]:
    ends = (names[edge[0]], names[edge[1]])
    return (*ends, "1" if edge[2] is None else f"{edge[2]}") if weighted else ends


def _short(value: Any) -> str:
    return shown(value) if isinstance(value, str) else repr(value)[:80]


def _number(edge: Edge, names: Sequence[str], path: Path) -> float:
    source, target, value = edge
    try:
        odd = isinstance(value, bool) or (isinstance(value, str) and _ODD.search(value))  # float() takes 1_000 and ٣
        number = 1.0 if value is None else float("nan") if odd else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not -float("inf") < number < float("inf"):
        raise GraphError(
            f"{path}, edge {names[source]} - {names[target]}: weight {_short(value)} is not a finite number; correct "
            "it, choose another attribute with --weight, or ignore weights with --unweighted"
        )
    return number
