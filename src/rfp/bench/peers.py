"""Other ways to the same or a comparable encoding: what ours is measured against, in the same run."""

from __future__ import annotations

import torch
from torch import Tensor

from rfp.backends.problem import Problem
from rfp.backends.sparse.fast_loop import sparse_steps
from rfp.graph import Graph
from rfp.operators import MatrixOperator, from_name

Operators = tuple[str, ...]


def plain_loop(graph: Graph, operators: Operators, num_channels: int, num_steps: int) -> Tensor:
    """What one writes first: ``csr @ x`` and ``torch.linalg.qr``, keeping all steps. One graph."""
    r = torch.randn(graph.num_nodes, num_channels, device=graph.device)
    kept = []
    for name in operators:
        operator = from_name(name, graph)
        matrix = operator.csr.torch_csr if isinstance(operator, MatrixOperator) else operator
        a = r
        kept.append(a)
        for _ in range(num_steps):
            a = torch.linalg.qr(matrix @ a).Q
            kept.append(a)
    return torch.cat(kept, dim=1)


def loop_over_graphs(graphs: list[Graph], operators: Operators, num_channels: int, num_steps: int) -> list[Tensor]:
    """:func:`plain_loop` on one graph at a time, with dense matrices as befits their size."""
    out = []
    for graph in graphs:
        r = torch.randn(graph.num_nodes, num_channels, device=graph.device)
        kept = []
        for name in operators:
            matrix = from_name(name, graph).to_dense().to(graph.device)  # type: ignore[attr-defined]
            a = r
            kept.append(a)
            for _ in range(num_steps):
                a = torch.linalg.qr(matrix @ a).Q  # n < k gives fewer columns
                a = torch.nn.functional.pad(a, (0, num_channels - a.size(1)))
                kept.append(a)
        out.append(torch.cat(kept, dim=1))
    return out


def padded_batches(
    graph: Graph, operators: Operators, num_channels: int, num_steps: int, batch_size: int = 128
) -> list[Tensor]:
    """Graphs padded to the largest of each batch, batched dense products and batched ``torch.linalg.qr``."""
    out = []
    for matrices, sizes in _dense_batches(graph, operators, batch_size):
        g, _, width, _ = matrices.shape
        real = torch.arange(width, device=graph.device) < sizes[:, None]
        r = torch.randn(g, width, num_channels, device=graph.device) * real[..., None]
        for o in range(len(operators)):
            a = r
            kept = [a]
            for _ in range(num_steps):
                q = torch.linalg.qr(matrices[:, o] @ a).Q
                a = torch.nn.functional.pad(q, (0, num_channels - q.size(-1)))
                kept.append(a)
            out.append(torch.cat(kept, dim=-1))
    return out


def library_calls(problem: Problem) -> None:
    """Our own loop without kernels of its own on a GPU: sparse products and Gram matrices from torch."""
    for operator in problem.operators:
        for _ in sparse_steps(problem, operator):
            pass


def _dense_batches(graph: Graph, operators: Operators, batch_size: int) -> list[tuple[Tensor, Tensor]]:
    csrs = [from_name(name, graph).csr for name in operators]  # type: ignore[attr-defined]
    row, col = csrs[0].row, csrs[0].col.long()
    which = graph.batch[row]
    batches = []
    for start in range(0, graph.num_graphs, batch_size):
        stop = min(start + batch_size, graph.num_graphs)
        sizes = graph.sizes[start:stop]
        width = int(sizes.max())
        inside = (which >= start) & (which < stop)
        local, first = which[inside] - start, graph.offsets[which[inside]]
        dense = torch.zeros(stop - start, len(operators), width, width, device=graph.device)
        for o, csr in enumerate(csrs):
            dense[local, o, row[inside] - first, col[inside] - first] = csr.value[inside]
        batches.append((dense, sizes))
    return batches
