r"""A trajectory written to a file as it is computed: the whole of it is never in memory.

One large graph is written step by step. The file is an ``.npy`` in Fortran order, in which the k columns of a step are
contiguous and steps follow each other, so every step is appended: nothing is sought back, and a pipe serves as well as
a file. Many small graphs are written graph by graph instead, in C order. Either way ``np.load(path, mmap_mode="r")``
maps the result, and the numbers equal those of :func:`rfp.encode` with the same backend bit for bit.

Plain writes are used, not a memory map: on a full disk a map kills the process, a write raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import IO, Any, Unpack

import numpy as np
import torch
from torch import Tensor

from rfp.backends import choose
from rfp.backends.problem import Problem
from rfp.backends.start import begin
from rfp.conversion import as_graph
from rfp.encode import encode, prepare
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.normalization import Events
from rfp.operators import Operator
from rfp.propagate import Report, steps
from rfp.settings import Arguments, Settings, shows_settings

# The trajectory of as many small graphs as fit here is computed at a time.
_BLOCK_BYTES = 1 << 28
# Backends that compute all steps of a small graph at once, and those that yield one step after the other.
_WHOLE_GRAPHS = ("compiled", "fused")
_STEP_BY_STEP = ("reference", "sparse")
_NUMPY = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}


@shows_settings(Arguments)
def stream(
    graph: Any,
    file: IO[bytes],
    settings: Settings | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    **arguments: Unpack[Arguments],
) -> Report:
    """Write the encoding of a graph as ``.npy``: ``[n, C]``, or ``[n, B, C]`` for several trajectories.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        file: Anything with ``write``.
        settings: All arguments in one :class:`~rfp.settings.Settings`, or as keywords, or both. No ``cache``: a stored
            result would be read into memory.
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
    settings, graph = Settings.of(settings, arguments), as_graph(graph)
    kept = settings.kept_dtype
    if kept not in _NUMPY:
        raise ArgumentError(f"an .npy file holds {', '.join(map(str, _NUMPY))}, got storage_dtype={kept}")
    if settings.cache is not None:
        raise ArgumentError("a stream is never whole in memory and is not cached; leave cache out, or use rfp.encode")
    operators, drawn = prepare(settings, graph)
    problem = Problem(
        tuple(operators), drawn, graph.offsets, settings.num_steps, settings.normalization, settings.normalize_every
    )
    name, reason = choose(problem, settings.backend)
    descr = np.lib.format.dtype_to_descr(np.dtype(_NUMPY[kept]))
    by_graphs = name in _WHOLE_GRAPHS
    if not by_graphs and name not in _STEP_BY_STEP:
        name, reason = "sparse", f"streamed step by step, which the backend {name} does not do"
    header = {"descr": descr, "fortran_order": not by_graphs, "shape": settings.stored_shape(graph.num_nodes)}
    np.lib.format.write_array_header_1_0(file, header)
    events: list[Events] = []
    if by_graphs:
        del operators, drawn, problem  # each block of graphs makes its own
        events = _write_graphs(replace(settings, backend=name), graph, file, progress)
    else:
        start, begun = begin(drawn, graph.offsets, settings.start, plain=name == "reference")
        problem, events = replace(problem, features=start), [begun]
        for operator in operators:
            events += _write_steps(replace(settings, backend=name), problem, operator, file, progress)
    return Report(name, reason, events)


def _write_steps(
    settings: Settings, problem: Problem, operator: Operator, file: IO[bytes], progress: Callable[[int], None] | None
) -> list[Events]:
    found = []
    for p, (a, events) in enumerate(steps(problem, operator, replace(settings, start="drawn"))):
        # [B, n, k] -> [k, B, n]: in Fortran order the nodes run fastest and the channels slowest.
        _write(file, a.detach().to(settings.kept_dtype).permute(2, 0, 1))
        found.append(events)
        if progress is not None and p:
            progress(1)
    return found


def _write_graphs(
    settings: Settings, graph: Graph, file: IO[bytes], progress: Callable[[int], None] | None
) -> list[Events]:
    found: list[Events] = []
    done, total = 0, settings.num_steps * len(settings.operators)
    bytes_per_node = settings.num_trajectories * settings.num_columns * settings.dtype.itemsize
    for block, nodes_done in graph_blocks(graph, max(1, _BLOCK_BYTES // bytes_per_node)):
        trajectory = encode(block, settings)  # features depend on each graph's content, not on its neighbours
        found.append(trajectory.report.events)
        _write(file, trajectory.node_first())
        if progress is not None:
            now = total * nodes_done // max(1, graph.num_nodes)
            progress(now - done)
            done = now
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
        yield Graph.unchecked(graph.edge_index[:, edges] - offsets[low], num_nodes, weight, ptr), offsets[high]
        low = high


def _write(file: IO[bytes], values: Tensor) -> None:
    contiguous = values.cpu().contiguous().numpy()
    if contiguous.size:
        file.write(contiguous.reshape(-1).view(np.uint8).data)
