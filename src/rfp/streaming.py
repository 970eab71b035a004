r"""A trajectory written to a file as it is computed: the whole of it is never in memory.

One large graph is written step by step. The file is an ``.npy`` in Fortran order, in which the k columns of a step are
contiguous and steps follow each other, so every step is appended: nothing is sought back, and a pipe serves as well as
a file. Many small graphs are written graph by graph instead, in C order. Either way ``np.load(path, mmap_mode="r")``
maps the result, and the numbers equal those of :func:`rfp.encode` with the same backend bit for bit.

Plain writes are used, not a memory map: on a full disk a map kills the process, a write raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any, Unpack

import torch

from rfp.backends import choose
from rfp.backends.problem import Problem
from rfp.conversion import as_graph
from rfp.encode import encode_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.normalization import Events
from rfp.one_loop import run_problem
from rfp.report import Report
from rfp.settings import Arguments, Settings, shows_settings
from rfp.sinks import KeptSteps, NpyFile
from rfp.trajectory import kept_steps

# The trajectory of as many small graphs as fit here is computed at a time.
_BLOCK_BYTES = 1 << 28


@shows_settings(Arguments)
def stream(
    graph: Any,
    file: IO[bytes],
    settings: Settings | None = None,
    *,
    keep: str | Sequence[int] = "all",
    progress: Callable[[int], None] | None = None,
    **arguments: Unpack[Arguments],
) -> Report:
    """Write the encoding of a graph as ``.npy``: ``[n, C]``, or ``[n, B, C]`` for several trajectories.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        file: Anything with ``write``.
        settings: All arguments in one :class:`~rfp.settings.Settings`, or as keywords, or both. No ``cache``: a stored
            result would be read into memory.
        keep: Which steps are written, ascending: ``"all"``, ``"last"`` or a list (:func:`rfp.trajectory.kept_steps`).
        progress: Called with 1 after each step of each operator.

    Returns:
        What ran.

    Costs the time of :func:`rfp.encode` and, beside the graph, about four steps' states of memory: O(n k B).

    Example:
        >>> import io, numpy as np, torch
        >>> triangle = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        >>> report = stream(triangle, file := io.BytesIO(), num_channels=2, num_steps=4, backend="reference")
        >>> np.load(io.BytesIO(file.getvalue())).shape
        (3, 10)
    """
    settings = Settings.of(settings, arguments)
    return stream_graph(as_graph(graph), file, settings, kept_steps(keep, settings.num_steps), progress=progress)


def stream_graph(
    graph: Graph,
    file: IO[bytes],
    settings: Settings,
    steps: Sequence[int],
    *,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """:func:`stream` of what is read and checked already; ``steps`` are the numbers of those that are written."""
    if settings.cache is not None:
        raise ArgumentError("a stream is never whole in memory and is not cached; leave cache out, or use rfp.encode")
    problem = Problem.of(settings, graph)
    steps = sorted(steps)
    sink = NpyFile(file, settings.stored_shape(graph.num_nodes, len(steps)), settings.kept_dtype)
    kept = KeptSteps(sink, steps)
    backend, reason = choose(problem, settings.backend)
    if backend.steps is not None:
        return run_problem(problem, kept, chosen=(backend, reason), progress=progress)
    del problem  # each block of graphs makes its own
    events = _write_graphs(replace(settings, backend=backend.name), graph, sink, steps, progress)
    return Report(backend.name, reason, events)


def _write_graphs(
    settings: Settings, graph: Graph, sink: NpyFile, steps: Sequence[int], progress: Callable[[int], None] | None
) -> list[Events]:
    """The graphs of a batch, as many at a time as fit into a block of memory."""
    found: list[Events] = []
    done, total = 0, settings.num_steps * len(settings.operators)
    bytes_per_node = settings.num_trajectories * settings.num_columns * settings.dtype.itemsize
    for block, nodes_done in graph_blocks(graph, max(1, _BLOCK_BYTES // bytes_per_node)):
        # Features depend on the content of each graph, not on its neighbours.
        trajectory = encode_graph(block, settings)
        found.append(trajectory.report.events)
        sink.rows(trajectory.select(steps))
        now = total * nodes_done // max(1, graph.num_nodes)
        for _ in range(now - done if progress is not None else 0):
            progress(1)  # type: ignore[misc]
        done = now
    if not found:
        sink.rows(torch.zeros(0))  # the header alone
    return found


def graph_blocks(graph: Graph, max_nodes: int) -> Iterator[tuple[Graph, int]]:
    """Split a batch into runs of graphs of at most ``max_nodes`` nodes (or one graph), with the nodes done so far."""
    offsets = graph.offsets.tolist()
    owner = graph.batch[graph.edge_index[0].long()]
    order = torch.argsort(owner, stable=True)
    first_edge = torch.searchsorted(owner[order], torch.arange(graph.num_graphs + 1, device=owner.device)).tolist()
    low = 0
    while low < graph.num_graphs:
        high = low + 1
        while high < graph.num_graphs and offsets[high + 1] - offsets[low] <= max_nodes:
            high += 1
        edges = order[first_edge[low] : first_edge[high]]
        weight = None if graph.edge_weight is None else graph.edge_weight[edges]
        ptr = graph.offsets[low : high + 1] - offsets[low]
        num_nodes = offsets[high] - offsets[low]
        keys = None if graph.known_keys is None else graph.known_keys[low:high]
        block = Graph.unchecked(graph.edge_index[:, edges] - offsets[low], num_nodes, weight, ptr, known_keys=keys)
        yield block, offsets[high]
        low = high
