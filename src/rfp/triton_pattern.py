# mypy: ignore-errors
r"""Triton: the rows of :math:`A` of a graph or a batch, its degrees and the keys of its graphs, and nobody waits.

The plain rule is :attr:`rfp.graph.Graph.pattern`. Here two kernels and a sort do it, and the number of entries is known
before anything is computed, m + n: every edge and every node keeps an entry of its own. Of entries at the same place
the first holds their sum and the others are *holes*, zeros that no product sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp.csr import CSR, places
from rfp.triton_hashing import GOLDEN_WORD, add_edge_words, edge_ends, mixed_word
from rfp.triton_launch import launch_kernel, num_blocks, on_device

BLOCK = 256
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, eq=False)
class KernelPattern:
    r"""What predefined operators and draws are made of.

    Args:
        pattern: :math:`A` float64 with all diagonal entries, and holes.
        place: ``[m + n]``, ``row * n + col`` of each entry, ascending.
        out_degree: ``[n]``, sums of absolute weights of each row of :math:`A`; where there are no weights not needed.
        in_degree: ``[n]``, those of the columns: float64, or int64 where there are no weights.
        loop: ``[n]`` float64, the diagonal of :math:`A`.
        keys: ``[num_graphs]`` int64, :attr:`rfp.graph.Graph.keys`.
        weighted: Whether the edges have weights.
    """

    pattern: CSR
    place: Tensor
    out_degree: Tensor
    in_degree: Tensor
    loop: Tensor
    keys: Tensor
    weighted: bool


@triton.jit(do_not_specialize=["to_target", "num_edges", "num_nodes"])
def _places_kernel(
    edge_index,  # [2, num_edges]
    batch,  # [n], or anything if SINGLE
    offsets,  # [num_graphs + 1]
    place,  # [num_edges + n]
    sums,  # [num_graphs] int64
    in_degree,  # [n] int64, counted if COUNT
    to_target,
    step,
    num_edges,
    num_nodes,
    SINGLE: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The places of all edges and then of all diagonal entries; the words of the edges, added up for each graph."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_edge = entry < num_edges
    source, target = edge_ends(edge_index, entry, is_edge, to_target, step)
    node = entry - num_edges
    here = tl.where(is_edge, source * num_nodes + target, node * num_nodes + node)
    tl.store(place + entry, here.to(place.dtype.element_ty), mask=node < num_nodes)
    if COUNT:
        tl.atomic_add(in_degree + target, is_edge.to(tl.int64), mask=is_edge, sem="relaxed")
    add_edge_words(sums, source, target, is_edge, batch, offsets, SINGLE)


@triton.jit(do_not_specialize=["last", "num_edges", "num_nodes", "num_graphs"])
def _rows_kernel(
    place,  # [num_edges + n], sorted
    order,  # [num_edges + n] int64: which edge or node an entry was, read if WEIGHTED
    weight,  # [num_edges], read if WEIGHTED
    offsets,  # [num_graphs + 1]
    crow,  # [n + 1] int32
    col,  # [num_edges + n] int32
    value,  # [num_edges + n] float64
    out_degree,  # [n] float64, added up if WEIGHTED
    in_degree,  # [n] float64, added up if WEIGHTED
    loop,  # [n] float64
    holes,  # [n] int64
    sums,  # [num_graphs] int64, from sums of words to keys
    last,
    num_edges,
    num_nodes,
    num_graphs,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Rows, columns and values from sorted places; what has been added up for each graph becomes its key."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = entry <= last
    here = tl.load(place + entry, mask=live, other=0).to(tl.int64)
    before = tl.load(place + entry - 1, mask=live & (entry > 0), other=0).to(tl.int64)
    begins = live & ((entry == 0) | (here != before))
    row = here // num_nodes
    column = here - row * num_nodes
    # Every row has its diagonal entry, so that none is empty.
    new_row = live & ((entry == 0) | (before // num_nodes != row))
    tl.store(crow + row, entry.to(tl.int32), mask=new_row)
    tl.store(crow + num_nodes + (entry - last), (entry + 1).to(tl.int32), mask=entry == last)
    tl.store(col + entry, column.to(tl.int32), mask=live)

    total = begins.to(tl.float64)
    if WEIGHTED:
        edge = tl.load(order + entry, mask=begins, other=0)
        total = tl.load(weight + edge, mask=begins & (edge < num_edges), other=0.0).to(tl.float64)
    reach = entry + 1
    same = begins & (reach <= last)
    same &= tl.load(place + reach, mask=same, other=-1).to(tl.int64) == here
    left = tl.max(same.to(tl.int32), axis=0)
    while left > 0:  # as often as the most entries at one place
        if WEIGHTED:
            edge = tl.load(order + reach, mask=same, other=0)
            total += tl.load(weight + edge, mask=same & (edge < num_edges), other=0.0).to(tl.float64)
        else:
            total += same.to(tl.float64)
        reach += 1
        same &= reach <= last
        same &= tl.load(place + reach, mask=same, other=-1).to(tl.int64) == here
        left = tl.max(same.to(tl.int32), axis=0)
    diagonal = begins & (row == column)
    if not WEIGHTED:
        total -= diagonal.to(tl.float64)  # the entry of the node itself is no edge
    tl.store(value + entry, tl.where(begins, total, 0.0), mask=live)
    tl.store(loop + row, total, mask=diagonal)
    tl.atomic_add(holes + row, live.to(tl.int64), mask=live & (~begins), sem="relaxed")
    if WEIGHTED:
        size = tl.abs(total)
        tl.atomic_add(out_degree + row, size, mask=begins, sem="relaxed")
        tl.atomic_add(in_degree + column, size, mask=begins, sem="relaxed")

    graph = entry
    there = graph < num_graphs
    start = tl.load(offsets + graph, mask=there, other=0).to(tl.int64)
    nodes = tl.load(offsets + graph + 1, mask=there, other=0).to(tl.int64) - start
    words = tl.load(sums + graph, mask=there, other=0)
    tl.store(sums + graph, mixed_word(mixed_word(nodes * GOLDEN_WORD + 1) + words), mask=there)


def floating(weight: Tensor) -> Tensor:
    """Weights as the kernel reads them."""
    return weight.contiguous() if weight.dtype in (torch.float32, torch.float64) else weight.double()


def launch_edge_sort(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, offsets: Tensor, batch: Tensor | None
) -> KernelPattern:
    """Sort the edges of a graph or a batch; nothing is waited for. Costs a sort of m + n integers.

    Args:
        edge_index: ``[2, m]``, of any strides.
        edge_weight: ``[m]``, or ``None``.
        num_nodes: n, at least 1; m + n is below 2^31.
        offsets: ``[num_graphs + 1]``.
        batch: ``[n]`` graph of each node; ``None`` if there is one graph.
    """
    device, num_edges, num_graphs = edge_index.device, edge_index.size(1), len(offsets) - 1
    num_entries = num_edges + num_nodes
    # Integers that begin at zero, in one piece; those that are float64 are zero too.
    counts = torch.zeros(num_graphs + 3 * num_nodes, dtype=torch.int64, device=device)
    keys, in_degree, out_degree, holes = counts.split([num_graphs, num_nodes, num_nodes, num_nodes])
    place = torch.empty(
        num_entries, dtype=torch.int32 if num_nodes * num_nodes <= INT32_MAX else torch.int64, device=device
    )
    weighted = edge_weight is not None
    if weighted:
        in_degree, out_degree = in_degree.view(torch.float64), out_degree.view(torch.float64)
    with on_device(place):
        launch_kernel(
            _places_kernel,
            (num_blocks(num_entries, BLOCK),),
            (
                edge_index,
                keys if batch is None else batch,
                offsets,
                place,
                keys,
                in_degree,
                *edge_index.stride(),
                num_edges,
                num_nodes,
            ),
            SINGLE=batch is None,
            COUNT=not weighted,
            BLOCK=BLOCK,
        )
        place, order = torch.sort(place, stable=True)
        crow = torch.empty(num_nodes + 1, dtype=torch.int32, device=device)
        col = torch.empty(num_entries, dtype=torch.int32, device=device)
        value = torch.empty(num_entries, dtype=torch.float64, device=device)
        loop = torch.empty(num_nodes, dtype=torch.float64, device=device)
        launch_kernel(
            _rows_kernel,
            (num_blocks(max(num_entries, num_graphs), BLOCK),),
            (
                place,
                order,
                value if edge_weight is None else floating(edge_weight),
                offsets,
                crow,
                col,
                value,
                out_degree,
                in_degree,
                loop,
                holes,
                keys,
                num_entries - 1,
                num_edges,
                num_nodes,
                num_graphs,
            ),
            WEIGHTED=weighted,
            BLOCK=BLOCK,
        )
    pattern = CSR(crow, col, value, holes=holes)
    pattern.memo.put(places, place)
    return KernelPattern(pattern, place, out_degree, in_degree, loop, keys, weighted)
