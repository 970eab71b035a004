"""Plain readers of files of graphs: node-link JSON, Pajek, GraphML and GEXF, a page for all of them.

They know what good files hold, no more: a file that they cannot read, and the command can, is a difference.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

from tests.fuzz.plain_reader import PACKED, Read, require, unpacked

Edge = tuple[str, str, Any]


def graph_of(names: list[str], edges: list[Edge], *, directed: bool, weighted: bool) -> Read:
    """Parallel edges add up (they count, where no edge has a weight); ``weighted=False``: every edge counts 1."""
    require(len(set(names)) == len(names), "two nodes of one name")
    numbers = all(re.fullmatch(r"0|[1-9][0-9]{0,17}", name) for name in names)
    nodes = [int(name) if numbers else name for name in names]
    called = dict(zip(names, nodes, strict=True))
    summed: dict[tuple[Any, Any], float] = {}
    for u, v, value in edges:
        pair = (called[u], called[v])
        if not directed:
            pair = min(pair, pair[::-1], key=lambda each: nodes.index(each[0]))
        summed[pair] = summed.get(pair, 0.0) + (1.0 if value is None else float(value)) if weighted else 1.0
    return nodes, summed if directed else summed | {(v, u): weight for (u, v), weight in summed.items()}


def read_json(content: bytes, *, directed: bool, weighted: bool) -> Read:
    data = json.loads(unpacked(content))
    names = [json.dumps(node.get("id", i)) for i, node in enumerate(data["nodes"])]
    links = data["links"] if "links" in data else data["edges"]
    edges = [(json.dumps(link["source"]), json.dumps(link["target"]), link.get("weight")) for link in links]
    bare = {name: str(json.loads(name)) for name in names}
    require(all(isinstance(json.loads(name), int | str) for name in names), "an id of another kind")
    named = [(bare[u], bare[v], value) for u, v, value in edges]
    return graph_of([bare[name] for name in names], named, directed=data.get("directed", False), weighted=weighted)


def read_pajek(content: bytes, *, directed: bool, weighted: bool) -> Read:
    section, labels, arcs, edges, row = "", [], [], [], 0
    for line in re.split(r"\r\n|\n|\r", unpacked(content).decode("utf-8-sig")):
        fields = [found.strip('"') for found in re.findall(r'"[^"]*"|\S+', line)]
        if not fields or line.strip()[0] == "%" or fields[0].lower() == "*network":
            continue
        if fields[0].startswith("*"):
            section = fields[0].lower()
            if section == "*vertices":
                labels = [str(i + 1) for i in range(int(fields[1]))]
        elif section == "*vertices":
            labels[int(fields[0]) - 1] = [*fields, labels[int(fields[0]) - 1]][1]
        elif section == "*matrix":
            arcs += [(row, i, value) for i, value in enumerate(map(float, fields)) if value]
            row += 1
        else:
            lists = section.endswith("list")
            found = [
                (int(fields[0]) - 1, int(end) - 1, None if lists else [*fields, None, None][2])
                for end in (fields[1:] if lists else fields[1:2])
            ]
            (arcs if section.startswith("*arcs") else edges).extend(found)
    names = labels if len(set(labels)) == len(labels) else [str(i + 1) for i in range(len(labels))]
    both = arcs + edges + [(v, u, value) for u, v, value in edges if u != v and arcs]
    named = [(names[u], names[v], value) for u, v, value in both]
    return graph_of(names, named, directed=bool(arcs), weighted=weighted)


def children(node: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [child for child in node if child.tag.rpartition("}")[2] == name]


def read_graphml(content: bytes, *, directed: bool, weighted: bool) -> Read:
    root = ElementTree.fromstring(unpacked(content))
    keys = [key for key in children(root, "key") if key.get("for") in ("edge", "all", None)]
    keys = [key for key in keys if key.get("attr.name") == "weight"]
    default = {key.get("id"): d.text for key in keys for d in children(key, "default")}
    graph = children(root, "graph")[0]
    names = list(dict.fromkeys(node.attrib["id"] for node in children(graph, "node")))
    edges = []
    for edge in children(graph, "edge"):
        own = {data.get("key"): data.text for data in children(edge, "data")}
        values = [{**default, **own}.get(key.get("id")) for key in keys]
        edges.append((edge.attrib["source"], edge.attrib["target"], values[0] if values else None))
    require({end for *ends, _ in edges for end in ends} <= set(names), "an edge of a node that is not there")
    return graph_of(names, edges, directed=graph.get("edgedefault") == "directed", weighted=weighted)


def read_gexf(content: bytes, *, directed: bool, weighted: bool) -> Read:
    graph = children(ElementTree.fromstring(unpacked(content)), "graph")[0]
    names = [node.attrib["id"] for part in children(graph, "nodes") for node in children(part, "node")]
    found = [edge for part in children(graph, "edges") for edge in children(part, "edge")]
    edges = [(edge.attrib["source"], edge.attrib["target"], edge.get("weight")) for edge in found]
    require(not any("type" in edge.attrib for edge in found), "edges of their own kind")
    return graph_of(names, edges, directed=graph.get("defaultedgetype") == "directed", weighted=weighted)


_PAJEK = dict.fromkeys([".net", ".paj", ".pajek"], read_pajek)
GRAPH_READERS = {
    suffix + packed: reader
    for suffix, reader in ({".json": read_json, ".graphml": read_graphml, ".gexf": read_gexf} | _PAJEK).items()
    for packed in PACKED
}
