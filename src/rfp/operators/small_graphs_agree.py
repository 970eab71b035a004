"""The kernel of small batches is looked at before it counts (:mod:`rfp.kernel_looks`): a made-up batch, both ways."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from rfp.graph import Graph
from rfp.kernel_looks import KernelLooks
from rfp.operators.operator import MatrixOperator
from rfp.operators.predefined import NORMS, OPERATORS, EntryTable
from rfp.operators.triton_small_graphs import held_width, launch_small_graphs
from rfp.rounding import LONG_ROW

# Relative error of entries, which are rounded once, from float64; and what float64 leaves where an entry of L̂ is the
# difference of equal numbers, 1 - w / (√w √w): a GPU that multiplies and subtracts at once rounds it otherwise.
_LOST = {torch.float32: 1.2e-7, torch.float64: 1e-12}
_LEFT = 1e-15
_looks = KernelLooks("the kernel of small batches is", "their operators are built step by step")


def small_graphs_agree(names: tuple[str, ...], graph: Graph, dtype: torch.dtype = torch.float32) -> bool:
    """Whether :func:`launch_small_graphs` computes on this device what the plain rules do, for batches of this form.

    See :meth:`rfp.kernel_looks.KernelLooks.agree`.

    Args:
        names: Operators.
        graph: A batch of small graphs.
        dtype: Type of the operators' entries.
    """
    width, device = held_width(graph.largest), graph.device
    kinds = (graph.edge_index.dtype, None if graph.edge_weight is None else graph.edge_weight.dtype)
    form = (names, width, dtype, *kinds)
    return _looks.agree(device, form, lambda: _disagreeing(names, _made_up(width, *kinds), device, dtype))


def _made_up(width: int, index: torch.dtype, weight: torch.dtype | None) -> Graph:
    """A graph as large as may be, one node alone, and one of some more than half the width; edges in no order."""
    sizes = [width, 1, width // 2 + 1]
    generator = torch.Generator().manual_seed(0)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    ends = [
        start + torch.randint(size, (2, 3 * size), generator=generator) for start, size in zip(ptr, sizes, strict=False)
    ]
    edges = torch.cat(ends, dim=1)
    edges = edges[:, torch.randperm(edges.size(1), generator=generator)].to(index)
    weights = None if weight is None else torch.randn(edges.size(1), generator=generator).to(weight)
    return Graph.unchecked(edges, int(ptr[-1]), weights, ptr, known_sizes=(1, width))


def _disagreeing(names: tuple[str, ...], plain: Graph, device: torch.device, dtype: torch.dtype) -> list[str]:
    """What the kernel computes otherwise than the plain rules do, in words."""
    weight = None if plain.edge_weight is None else plain.edge_weight.to(device)
    ptr = plain.offsets.to(device)
    there = Graph.unchecked(plain.edge_index.to(device), plain.num_nodes, weight, ptr, known_sizes=plain.known_sizes)
    found = launch_small_graphs(names, there, dtype)
    wrong = [] if torch.equal(found.keys.cpu(), plain.keys) else ["keys"]
    table = EntryTable.of(plain.pattern)
    for name, csr, norm in zip(names, found.matrices(), found.norms.unbind(1), strict=True):
        right = MatrixOperator(plain.pattern.with_value(OPERATORS[name](table).to(dtype))).to_dense()
        if not torch.allclose(MatrixOperator(csr).to_dense().cpu(), right, rtol=_LOST[dtype], atol=_LEFT):
            wrong.append(f"entries of {name}")
        if not _are_bounds(norm.cpu(), right.double(), plain.offsets.tolist(), NORMS.get(name, 0.0)):
            wrong.append(f"norm of {name}")
    return wrong


def _are_bounds(norms: Tensor, matrix: Tensor, ptr: list[int], known: float) -> bool:
    r"""Whether each is from :math:`\|S\|_2` to the larger of what is known and :math:`\sqrt{\|S\|_1 \|S\|_\infty}`.

    Long rows, which lose more to rounding, may make it larger by as many times as they are long.
    """
    blocks = [matrix[start:stop, start:stop] for start, stop in pairwise(ptr)]
    least = torch.stack([torch.linalg.matrix_norm(block, 2) for block in blocks])
    most = torch.stack([(block.abs().sum(0).max() * block.abs().sum(1).max()).sqrt() for block in blocks])
    times = torch.tensor([max(1.0, len(block) / LONG_ROW) for block in blocks], dtype=most.dtype)
    most = most.clamp_min(known) * times
    return bool(((least * (1 - 1e-6) <= norms) & (norms <= most * (1 + 1e-6))).all())
