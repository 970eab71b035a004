"""What is on the screen as lines to run elsewhere: Python, or commands."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from rfp.explorer.encodings import EXPLORER_FIELDS
from rfp.explorer.graphs import OpenGraph
from rfp.settings import Settings

# Settings in the letters of the command line.
_OPTIONS = {
    "num_channels": "-k",
    "num_steps": "-P",
    "normalize_every": "-w",
    "num_trajectories": "-B",
    "normalization": "--normalization",
    "start": "--start",
    "distribution": "--distribution",
    "seed": "--seed",
}
_KARATE_PYTHON = """import networkx as nx
import torch

import rfp

edges = torch.tensor(sorted(nx.karate_club_graph().edges)).T
graph = rfp.Graph(edges, num_nodes=34).to_undirected()
"""


@dataclass(frozen=True)
class Shown:
    """Which numbers of an encoding colour the nodes, each from 0."""

    trajectory: int = 0
    operator: int = 0
    step: int = 0
    channel: int = 0


def as_python(graph: OpenGraph, settings: Settings, shown: Shown) -> str:
    """Lines that compute the encoding and the values on the screen."""
    kind, where = graph.source
    if kind == "karate":
        begin = _KARATE_PYTHON
    else:
        options = "".join(f", {name}={value!r}" for name, value in graph.options.items())
        begin = f"import rfp\n\ngraph = rfp.read_graph({where!r}{options})\n"
    arguments = [f"    {name}={_python(getattr(settings, name))},\n" for name in EXPLORER_FIELDS]
    column = shown.operator * settings.num_channels + shown.channel
    return (
        f"{begin}t = rfp.encode(\n    graph,\n{''.join(arguments)})\n"
        f"values = t.states[{shown.trajectory}, :, {shown.step}, {column}]"
        f"  # step {shown.step}, channel {shown.channel} of {settings.operators[shown.operator]}\n"
    )


def _python(value: Any) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def as_command(graph: OpenGraph, settings: Settings, shown: Shown) -> str:
    """The encoding as ``rfp encode`` and the picture as ``rfp plot``."""
    kind, where = graph.source
    start, name = "", shlex.quote(where)
    if kind == "karate":
        edges = graph.graph.edge_index
        ends = edges[:, edges[0] < edges[1]].T.reshape(-1).tolist()
        start, name = f"printf '%s %s\\n' {' '.join(map(str, ends))} | ", "-"
    reading = "".join(f" {_reading(option, value)}" for option, value in graph.options.items())
    options = [f"{_OPTIONS[field]} {getattr(settings, field)}" for field in EXPLORER_FIELDS if field in _OPTIONS]
    options += [f"--operator {shlex.quote(operator)}" for operator in settings.operators]
    shared = f"{name}{reading} {' '.join(options)}"
    view = f"--step {shown.step} --channel {shown.channel}"
    view += f" --show-operator {shown.operator} --trajectory {shown.trajectory}"
    return f"{start}rfp encode {shared} -o encoding.npy\n{start}rfp plot {shared} {view} -o encoding.png\n"


def _reading(option: str, value: Any) -> str:
    if option == "directed":
        return "--directed" if value else "--undirected"
    if option in ("header", "quotes"):
        return f"--{option}" if value else f"--no-{option}"
    flag = "--" + option.replace("_", "-")
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"
