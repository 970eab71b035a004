"""Pajek networks (``.net``), read here: NetworkX merges vertices of the same label and skips the lists."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rfp.edge_table.node_ids import shown
from rfp.errors import FileError, GraphError
from rfp.io.text_lines import decode, lines, unify_line_ends

_SECTIONS = ("*vertices", "*arcs", "*edges", "*arcslist", "*edgeslist", "*matrix")
# A network whose vertices have no lines of their own may have more of them than the file has bytes. Beyond so many that
# is a slip of the pen, and a name for each would fill the memory.
_VERTICES_AT_LEAST = 1_000_000
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FIELD = re.compile(r'(?<!\S)(?:"([^"]*)"|([^\s"]+))(?!\S)')


@dataclass
class PajekNetwork:
    """Labels of the vertices; arcs (directed) and edges (undirected) as (from, to, weight or ``None``), from 0."""

    labels: list[str] = field(default_factory=list)
    arcs: list[tuple[int, int, float | None]] = field(default_factory=list)
    edges: list[tuple[int, int, float | None]] = field(default_factory=list)


def parse_pajek(content: bytes, file: str) -> PajekNetwork:
    r"""Read a network from its text.

    >>> parse_pajek(b'*Vertices 2\n1 "ann"\n2 "bob"\n*Edges\n1 2 0.5\n', "f").edges
    [(0, 1, 0.5)]
    """
    network, section, matrix_row = PajekNetwork(), "", 0
    for number, line in lines(unify_line_ends(content, file)):
        where = f"{file}, line {number}"
        text = decode(line, number, file).strip()
        if not text or text.startswith("%"):
            continue
        fields = _fields(text, where)
        if text.startswith("*"):
            section = fields[0].lower()
            if section == "*network":
                continue
            if section not in _SECTIONS:
                known = ", ".join(_SECTIONS)
                raise FileError(f"{where}: the section {shown(fields[0])} is not known, only {known}")
            if section == "*vertices":
                if network.labels:
                    raise FileError(f"{where}: a second *Vertices; one network is read from a file")
                count = _integer(fields[1] if len(fields) > 1 else "", where)
                if count > max(_VERTICES_AT_LEAST, len(content)):
                    raise FileError(
                        f"{where}: {count:,} vertices are too many for a file of {len(content):,} bytes; correct their "
                        "number, or write the edges as text and give --num-nodes"
                    )
                network.labels = [str(i + 1) for i in range(count)]
            elif not network.labels:
                raise FileError(f"{where}: {fields[0]} before *Vertices; a Pajek network begins with its vertices")
        elif section == "*vertices":
            vertex = _vertex(fields[0], network, where)
            network.labels[vertex] = fields[1] if len(fields) > 1 else network.labels[vertex]
        elif section in ("*arcs", "*edges"):
            if len(fields) < 2:
                raise GraphError(f"{where}: an arc or edge needs two vertices, got {shown(text)}")
            ends = _vertex(fields[0], network, where), _vertex(fields[1], network, where)
            weight = _weight(fields[2], where) if len(fields) > 2 else None
            (network.arcs if section == "*arcs" else network.edges).append((*ends, weight))
        elif section in ("*arcslist", "*edgeslist"):
            first, *others = (_vertex(each, network, where) for each in fields)
            (network.arcs if section == "*arcslist" else network.edges).extend((first, end, None) for end in others)
        elif section == "*matrix":
            if len(fields) != len(network.labels) or matrix_row >= len(network.labels):
                raise GraphError(f"{where}: a row of the matrix needs {len(network.labels)} numbers, got {len(fields)}")
            values = [_weight(each, where) for each in fields]
            network.arcs.extend((matrix_row, end, value) for end, value in enumerate(values) if value)
            matrix_row += 1
        else:
            raise FileError(f"{where}: not a Pajek network; it begins with *Vertices and their number")
    if section == "*matrix" and matrix_row != len(network.labels):
        raise GraphError(f"{file}: the matrix has {matrix_row} rows for {len(network.labels)} vertices")
    if len(set(network.labels)) < len(network.labels):  # labels are for people: vertices are told apart by number
        network.labels = [str(i + 1) for i in range(len(network.labels))]
    return network


def _fields(text: str, where: str) -> list[str]:
    if '"' in _FIELD.sub("", text):
        raise GraphError(f"{where}: a quote that does not enclose a whole label: {shown(text)}; correct it")
    return [quoted or plain for quoted, plain in _FIELD.findall(text)]


def _integer(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise GraphError(f"{where}: {shown(text)} is not a number of a vertex")
    return int(text)


def _vertex(text: str, network: PajekNetwork, where: str) -> int:
    number = _integer(text, where)
    if not 1 <= number <= len(network.labels):
        raise GraphError(f"{where}: vertex {number} is out of range, expected 1 to {len(network.labels)}")
    return number - 1


def _weight(text: str, where: str) -> float:
    if _NUMBER.fullmatch(text) is None:  # float() would take 1_000, and other scripts' digits
        raise GraphError(f"{where}: weight {shown(text)} is not a number")
    return float(text)
