"""A plain reader of GML: words and brackets, a page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from tests.fuzz.plain_graphs import graph_of
from tests.fuzz.plain_reader import PACKED, Read, require, unpacked

Pairs = list[tuple[str, Any]]
_ENTITY = re.compile(r"&(?:[0-9A-Za-z]+|#[0-9]+|#x[0-9A-Fa-f]+);")
# Strings, brackets, keys, numbers, comments; anything else is a word that no rule knows.
_WORDS = re.compile(r'"[^"]*"|[\[\]]|[A-Za-z][0-9A-Za-z_]*|[+-]?[0-9.]+(?:[Ee][+-]?[0-9]+)?|#[^\n]*|\S')


def read_gml(content: bytes, *, directed: bool, weighted: bool) -> Read:
    text = re.sub(r"\r\n|\r", "\n", unpacked(content).decode())
    words = (re.sub(r"\s*\n\s*", " ", word) for word in _WORDS.findall(text) if word[0] != "#")
    graphs = [value for key, value in pairs(words) if key == "graph"]
    require(len(graphs) == 1, "one graph")
    graph = graphs[0]
    given = [[key for key, _ in value] for key, value in graph if key == "node"]
    require(all(keys.count("label") <= 1 for keys in given), "a label once")
    nodes = [dict(value) for key, value in graph if key == "node"]
    ids = [int(node["id"]) for node in nodes]  # +1 is 1
    require(len(set(ids)) == len(ids), "two nodes of one id")
    labels = [node.get("label") for node in nodes]
    quoted = all(isinstance(label, str) and label.startswith('"') for label in labels)
    by_label = quoted and len(set(labels)) == len(labels)
    names = {key: str(key) for key in ids}
    if by_label:
        names = {key: plain(label[1:-1]) for key, label in zip(ids, labels, strict=True)}
    edges = [dict(value) for key, value in graph if key == "edge"]
    found = [(names[int(edge["source"])], names[int(edge["target"])], edge.get("weight")) for edge in edges]
    said = dict(graph).get("directed", "0")
    require(said in ("0", "1"), "directed or not?")
    return graph_of(list(names.values()), found, directed=said == "1", weighted=weighted)


def plain(text: str) -> str:
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)


def pairs(words: Iterator[str], inside: bool = False) -> Pairs:
    """Keys and values up to the closing bracket; a value in brackets is a list of the same kind."""
    found: Pairs = []
    for word in words:
        if word == "]":
            require(inside, "a bracket too many")
            return found
        require(re.fullmatch(r"[A-Za-z][0-9A-Za-z_]*", word), f"not a key: {word}")
        value = next(words)
        found.append((word, pairs(words, True) if value == "[" else value))
    require(not inside, "a bracket is not closed")
    return found


GML_READERS = {".gml" + packed: read_gml for packed in PACKED}
