"""Node-link JSON, as NetworkX, D3 and others write it: ``{"nodes": [{"id": ...}], "links": [{"source", "target"}]}``.

Read here: NetworkX takes the ids 1, 1.0 and true for one node and keeps one of two links with the same key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rfp.edge_table.node_ids import shown
from rfp.errors import FileError, GraphError


@dataclass(frozen=True)
class NodeLinks:
    """Names of the nodes; links as (number of the source, number of the target, weight or ``None``)."""

    names: list[str]
    links: list[tuple[int, int, Any]]
    directed: bool


def parse_node_link(content: bytes, weight: str, file: str) -> NodeLinks:
    """Read a graph from its text.

    Args:
        content: JSON.
        weight: Key of the weight of a link.
        file: Its name, for errors.

    >>> parse_node_link(b'{"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "b", "target": "a"}]}', "w", "f")
    NodeLinks(names=['a', 'b'], links=[(1, 0, None)], directed=False)
    """
    try:
        data = json.loads(content, object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{file}: not a readable JSON file ({str(error)[:200]})") from error
    keys = [key for key in ("links", "edges") if isinstance(data, dict) and isinstance(data.get(key), list)]
    if not keys or not isinstance(data.get("nodes"), list):
        raise FileError(
            f'{file}: expected {{"nodes": [...], "links": [...]}}; JSON of another kind is '
            "not known: write it with networkx.node_link_data, or the edges as CSV"
        )
    if len(keys) > 1:
        raise FileError(f"{file}: both links and edges are there; leave one of them")
    directed = data.get("directed", False)
    if not isinstance(directed, bool):
        raise FileError(f'{file}: "directed" must be true or false, got {_told(directed)}')
    names = [_name(node, i, file) for i, node in enumerate(data["nodes"])]
    number = {name: i for i, name in enumerate(names)}
    if len(number) < len(names):
        again = next(name for i, name in enumerate(names) if number[name] != i)
        raise FileError(f"{file}: two nodes have the same id {shown(again)}")
    links = []
    for i, link in enumerate(data[keys[0]]):
        where = f"{file}: {keys[0]}[{i}]"
        if not isinstance(link, dict) or "source" not in link or "target" not in link:
            raise GraphError(f"{where} has no source or no target; correct or remove it")
        ends = [_end(link, end, data["nodes"], number, where) for end in ("source", "target")]
        links.append((ends[0], ends[1], link.get(weight)))
    return NodeLinks(names, links, directed)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a key that is said twice Python would keep the last and lose the rest."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        again = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise ValueError(f"the key {shown(again)} is there twice in one object")
    return found


def _told(value: Any) -> str:
    return json.dumps(value)[:60]


def _name(node: Any, i: int, file: str) -> str:
    """The id of a node, its number if it has none."""
    name = node.get("id", i) if isinstance(node, dict) else None
    if not isinstance(name, int | str) or isinstance(name, bool):
        raise FileError(f'{file}: nodes[{i}] must be {{"id": an integer or a text, ...}}, got {_told(node)}')
    return str(name)


def _end(link: dict[str, Any], end: str, nodes: list[dict[str, Any]], number: dict[str, int], where: str) -> int:
    """The number of the node at one end; 1 and "1" are not the same id."""
    name = link[end]
    found = number.get(str(name)) if isinstance(name, int | str) else None
    if found is None or type(nodes[found].get("id", found)) is not type(name):
        raise FileError(f"{where} names the {end} {_told(name)}, which is not the id of a node")
    return found
