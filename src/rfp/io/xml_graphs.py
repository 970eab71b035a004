"""GraphML and GEXF, parsed here.

NetworkX adds a node ``None`` for an edge without a target and nodes for ends that are not declared, merges nodes and
edges with the same id, leaves out nested and further graphs, and refuses graphs with directed and undirected edges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfp.edge_table.node_ids import shown
from rfp.errors import FileError, GraphError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


@dataclass
class XMLGraph:
    """Ids of the nodes with their numbers; arcs (directed) and edges (undirected) as (from, to, weight or ``None``)."""

    nodes: dict[str, int]
    arcs: list[tuple[int, int, Any]] = field(default_factory=list)
    edges: list[tuple[int, int, Any]] = field(default_factory=list)


def parse_graphml(content: bytes, weight: str, file: str) -> XMLGraph:
    """Read the graph of a GraphML file; ``weight`` is the name of an attribute of edges.

    >>> text = b'<graphml><graph edgedefault="directed"><node id="a"/><edge source="a" target="a"/></graph></graphml>'
    >>> parse_graphml(text, "weight", "f").arcs
    [(0, 0, None)]
    """
    root = _root(content, "graphml", file)
    graph = _only_graph(root, file)
    default: dict[str | None, str | None] = {}
    for key in _children(root, "key"):
        if key.get("attr.name", key.get("id")) == weight and key.get("for", "all") in ("edge", "all"):
            values = [each.text or "" for each in _children(key, "default")]
            default[key.get("id")] = values[0] if values else None
    kind = _direction(graph.get("edgedefault", "undirected"), "edgedefault", file)
    declared = {key.get("id") for key in _children(root, "key")}
    found = XMLGraph(_numbered(_children(graph, "node"), file))
    for i, edge in enumerate(_children(graph, "edge")):
        for data in _children(edge, "data"):
            if data.get("key") not in declared:
                told = shown(data.get("key", ""))
                raise FileError(f"{file}: edge {i + 1} has data of the key {told}, which no <key> declares; add it")
        stored = [data.text or "" for data in _children(edge, "data") if data.get("key") in default]
        value = [*stored, *(each for each in default.values() if each is not None), None][0]
        own = {"true": True, "false": False, None: kind}.get(edge.get("directed"))
        _add(found, edge, own, value, file)
    if _children(graph, "hyperedge"):
        raise FileError(f"{file}: a hyperedge joins more than two nodes; that is no graph of edges")
    return found


def parse_gexf(content: bytes, weight: str, file: str) -> XMLGraph:
    """Read the graph of a GEXF file; ``weight`` is the attribute of that name, of the edge itself or among its values.

    >>> nodes, edges = '<nodes><node id="a"/></nodes>', '<edges><edge source="a" target="a" weight="2"/></edges>'
    >>> parse_gexf(f"<gexf><graph>{nodes}{edges}</graph></gexf>".encode(), "weight", "f").edges
    [(0, 0, '2')]
    """
    graph = _only_graph(_root(content, "gexf", file), file)
    default: dict[str | None, str | None] = {}
    for group in _children(graph, "attributes"):
        for attribute in _children(group, "attribute") if group.get("class") == "edge" else []:
            if attribute.get("title") == weight:
                values = [each.text or "" for each in _children(attribute, "default")]
                default[attribute.get("id")] = values[0] if values else None
    kind = _direction(graph.get("defaultedgetype", "undirected"), "defaultedgetype", file)
    nodes = [node for group in _children(graph, "nodes") for node in _children(group, "node")]
    found = XMLGraph(_numbered(nodes, file))
    for edge in [edge for group in _children(graph, "edges") for edge in _children(group, "edge")]:
        own_values = [value for group in _children(edge, "attvalues") for value in _children(group, "attvalue")]
        stored = [value.get("value", "") for value in own_values if value.get("for", value.get("id")) in default]
        direct = [edge.attrib[weight]] if weight in edge.attrib and weight not in ("source", "target", "id") else []
        value = [*direct, *stored, *(each for each in default.values() if each is not None), None][0]
        own = kind if "type" not in edge.attrib else _direction(edge.get("type"), "type of an edge", file)
        _add(found, edge, own, value, file)
    return found


def _root(content: bytes, name: str, file: str) -> Element:
    from xml.etree import ElementTree  # not loaded by `import rfp`

    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise FileError(f"{file}: not readable as XML ({str(error)[:200]}); fetch or write it again") from error
    if _tag(root) != name:
        raise FileError(f"{file}: XML of another kind: it begins with <{_tag(root)[:40]}>, not with <{name}>")
    return root


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _children(element: Element, name: str) -> list[Element]:
    return [child for child in element if _tag(child) == name]


def _only_graph(root: Element, file: str) -> Element:
    graphs = _children(root, "graph")
    if len(graphs) != 1:
        raise FileError(f"{file}: holds {len(graphs)} graphs; one is read from a file")
    return graphs[0]


def _direction(text: str | None, what: str, file: str) -> bool:
    """Whether edges are directed; GEXF's mutual ones count both ways."""
    known = {"directed": True, "undirected": False, "mutual": False}
    if text not in known:
        raise FileError(f"{file}: the {what} must be directed or undirected, got {shown(text or '')}")
    return known[text]


def _numbered(nodes: list[Element], file: str) -> dict[str, int]:
    names: dict[str, int] = {}
    for i, node in enumerate(nodes):
        name = node.get("id")
        if name is None:
            raise FileError(f"{file}: node {i + 1} has no id; correct it")
        if name in names:
            raise FileError(f"{file}: two nodes have the same id {shown(name)}")
        if any(_tag(child) in ("graph", "nodes") for child in node):
            raise FileError(f"{file}: node {shown(name)} holds a graph of its own; groups are not read, dissolve them")
        names[name] = i
    return names


def _add(graph: XMLGraph, edge: Element, directed: bool | None, value: Any, file: str) -> None:
    place = len(graph.arcs) + len(graph.edges) + 1
    if directed is None:
        raise FileError(f"{file}: edge {place} must have directed true or false, got {shown(edge.get('directed', ''))}")
    ends = []
    for end in ("source", "target"):
        name = edge.get(end)
        if name is None:
            raise GraphError(f"{file}: edge {place} has no {end}; correct or remove it")
        if name not in graph.nodes:
            raise GraphError(f"{file}: the {end} of edge {place} is {shown(name)}, which is not the id of a node")
        ends.append(graph.nodes[name])
    (graph.arcs if directed else graph.edges).append((ends[0], ends[1], value))
