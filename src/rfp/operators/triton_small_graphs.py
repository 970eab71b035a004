# mypy: ignore-errors
r"""Triton: all that a batch of small graphs is encoded with, in one launch: rows, operators, their norms, and keys.

The plain rules are :attr:`rfp.graph.Graph.pattern`, :mod:`rfp.operators.predefined`,
:func:`rfp.operator_norms.rounding_norm` and :attr:`rfp.graph.Graph.keys`; the entries are laid out as by
:func:`rfp.triton_pattern.launch_edge_sort`. Nothing is sorted: a program holds the matrix of one graph as a whole,

.. math:: A_{ij} = \sum_e [s_e = i] \, w_e \, [t_e = j],

a product of matrices of zeros and ones, and sums over its rows and columns are degrees, places of entries and norms.
Which edges are those of its graph a program finds by looking at all of them, in whatever order they come: so this is
for batches, of which there are a thousand in an epoch, and the sort is for data sets, which are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp.csr import CSR
from rfp.graph import Graph
from rfp.operators.predefined import NORMS
from rfp.operators.triton_values import OPERATOR_ARGUMENTS, inverse, inverse_root
from rfp.rounding import LONG_ROW
from rfp.triton_hashing import GOLDEN_WORD, edge_ends, edge_words, mixed_word
from rfp.triton_launch import Launch, RepeatedLaunches, on_device
from rfp.triton_norms import over_root
from rfp.triton_pattern import floating

_NORM_OF_NORMALIZED = tl.constexpr(NORMS["normalized_adjacency"])
_NORM_OF_LAPLACIAN = tl.constexpr(NORMS["normalized_laplacian"])
_LONG_ROW = tl.constexpr(LONG_ROW)
# Edges that a program looks at, and adds to its matrix, at a time.
_LOOKED_AT = 1024
_ADDED = 64


@dataclass(frozen=True, eq=False)
class SmallGraphs:
    """What :func:`launch_small_graphs` fills.

    Args:
        crow, col: Rows and columns of A with all diagonal entries, and holes.
        holes: ``[n]``, how many of each row.
        values: ``[operators, m + n]``, holes zero.
        norms: ``[num_graphs, operators]`` float64, :func:`rfp.operator_norms.rounding_norm`.
        keys: ``[num_graphs]`` int64, :attr:`rfp.graph.Graph.keys`.
    """

    crow: Tensor
    col: Tensor
    holes: Tensor
    values: Tensor
    norms: Tensor
    keys: Tensor

    def matrices(self) -> list[CSR]:
        """The operators."""
        first, *others = self.values.unbind()
        pattern = CSR(self.crow, self.col, first, holes=self.holes)
        return [pattern, *map(pattern.with_value, others)]


@triton.jit
def _own_edges(edge_index, begin, end, num_edges, step, BLOCK: tl.constexpr):
    """The edges that leave nodes from ``begin`` to ``end``: how many are of graphs before, the first and the last."""
    at_start = tl.arange(0, BLOCK).to(tl.int64)
    before = at_start * 0
    first = before + num_edges
    last = before - 1
    for start in range(0, num_edges, BLOCK):
        edge = start + at_start
        source = tl.load(edge_index + edge * step, mask=edge < num_edges, other=end).to(tl.int64)
        before += (source < begin).to(tl.int64)
        own = (source >= begin) & (source < end) & (edge < num_edges)
        first = tl.minimum(first, tl.where(own, edge, num_edges))
        last = tl.maximum(last, tl.where(own, edge, -1))
    return tl.sum(before, axis=0), tl.min(first, axis=0), tl.max(last, axis=0)


@triton.jit
def _bound(s):
    """:func:`rfp.operator_norms.schur_bound` of one matrix."""
    size = tl.abs(s)
    rows = tl.sum(size, axis=1)
    columns = tl.sum(size, axis=0)
    of_rows = over_root(tl.sum(size * tl.sqrt(columns)[None, :], axis=1), rows)
    of_columns = over_root(tl.sum(size * tl.sqrt(rows)[:, None], axis=0), columns)
    return tl.sqrt(tl.max(of_rows, axis=0) * tl.max(of_columns, axis=0))


@triton.jit
def _with_long_rows(norm, s, lengths, N: tl.constexpr):
    """:func:`rfp.operator_norms.with_long_rows` of one matrix, from the number of entries of its rows."""
    if N > _LONG_ROW:
        times = tl.maximum(lengths.to(tl.float64) / _LONG_ROW, 1.0)
        beyond = tl.sum((times - 1) * (times - 1) * tl.sum(s * s, axis=1), axis=0)
        norm = tl.minimum(norm * tl.max(times, axis=0), norm + tl.sqrt(beyond))
    return norm


@triton.jit(do_not_specialize=["to_target", "num_edges", "num_nodes"])
def small_operators_kernel(
    edge_index,  # [2, num_edges]
    weight,  # [num_edges], read if WEIGHTED
    ptr,  # [num_graphs + 1]
    crow,  # [n + 1] int32
    col,  # [num_edges + n] int32
    holes,  # [n] int32
    values,  # [operators, num_edges + n]
    norms,  # [num_graphs, operators] float64
    keys,  # [num_graphs] int64
    to_target,
    step,
    num_edges,
    num_nodes,
    OPERATORS: tl.constexpr,
    ADJACENCY: tl.constexpr,
    NORMALIZED: tl.constexpr,
    LAPLACIAN: tl.constexpr,
    RANDOM_WALK: tl.constexpr,
    WEIGHTED: tl.constexpr,
    N: tl.constexpr,
    LOOKED_AT: tl.constexpr,
    ADDED: tl.constexpr,
):
    """One graph of at most N nodes. Each operator is a row of ``values``, or -1 if it is not wanted."""
    graph = tl.program_id(0).to(tl.int64)
    begin = tl.load(ptr + graph).to(tl.int64)
    end = tl.load(ptr + graph + 1).to(tl.int64)
    num_edges = num_edges.to(tl.int64)
    before, first, last = _own_edges(edge_index, begin, end, num_edges, step, LOOKED_AT)

    local = tl.arange(0, N)
    counts = tl.zeros([N, N], tl.float32)
    total = tl.zeros([N, N], tl.float64)
    words = tl.zeros([ADDED], tl.int64)
    for start in range(first, last + 1, ADDED):
        edge = start + tl.arange(0, ADDED)
        source, target = edge_ends(edge_index, edge, edge <= last, to_target, step)
        own = (edge <= last) & (source >= begin) & (source < end)
        source -= begin
        target -= begin
        words += tl.where(own, edge_words(source, target), 0)
        leaves = (local[:, None] == source[None, :]) & own[None, :]
        enters = target[:, None] == local[None, :]
        counts = tl.dot(leaves.to(tl.float16), enters.to(tl.float16), counts)  # of ones: exact
        if WEIGHTED:
            w = tl.load(weight + edge, mask=own, other=0.0).to(tl.float64)
            weights = tl.where(enters, w[:, None], 0.0)
            total = tl.dot(leaves.to(tl.float64), weights, total, out_dtype=tl.float64)
    if not WEIGHTED:
        total = counts.to(tl.float64)
    tl.store(keys + graph, mixed_word(mixed_word((end - begin) * GOLDEN_WORD + 1) + tl.sum(words, axis=0)))

    # Every edge and every node has an entry of its own; of those at one place the first counts.
    diagonal = local[:, None] == local[None, :]
    real = local < end - begin
    entries = counts.to(tl.int32) + (diagonal & real[:, None]).to(tl.int32)
    in_row = tl.sum(entries, axis=1)
    row_start = (before + begin).to(tl.int32) + tl.cumsum(in_row, axis=0) - in_row
    tl.store(crow + begin + local, row_start, mask=real)
    num_entries = num_edges + num_nodes
    if graph == tl.num_programs(0) - 1:
        tl.store(crow + num_nodes, num_entries.to(tl.int32))
    there = entries > 0
    lengths = tl.sum(there.to(tl.int32), axis=1)
    tl.store(holes + begin + local, in_row - lengths, mask=real)
    place = row_start[:, None] + tl.cumsum(entries, axis=1) - entries
    column = (begin + local).to(tl.int32)[None, :] + entries * 0
    tl.store(col + place, column, mask=there)

    kind = values.dtype.element_ty
    hole = 1
    most = tl.max(tl.max(entries, axis=1), axis=0)
    while hole < most:
        tl.store(col + (place + hole), column, mask=entries > hole)
        for o in tl.static_range(OPERATORS):
            tl.store((values + o * num_entries) + (place + hole), (total * 0).to(kind), mask=entries > hole)
        hole += 1

    norms += graph * OPERATORS
    if ADJACENCY >= 0:
        s = total.to(kind)
        tl.store((values + ADJACENCY * num_entries) + place, s, mask=there)
        s = s.to(tl.float64)
        tl.store(norms + ADJACENCY, _with_long_rows(_bound(s), s, lengths, N))
    out_of_row = tl.sum(tl.abs(total), axis=1)
    if RANDOM_WALK >= 0:
        s = (inverse(out_of_row)[:, None] * total).to(kind)
        tl.store((values + RANDOM_WALK * num_entries) + place, s, mask=there)
        s = s.to(tl.float64)
        tl.store(norms + RANDOM_WALK, _with_long_rows(_bound(s), s, lengths, N))
    if (NORMALIZED >= 0) | (LAPLACIAN >= 0):
        # A self-loop of weight 1 on every node that has none.
        looped = tl.where(diagonal & (total == 0), 1.0, total)
        left = inverse_root(tl.sum(tl.abs(looped), axis=1))
        right = inverse_root(tl.sum(tl.abs(looped), axis=0))
        normalized = left[:, None] * looped * right[None, :]
        if NORMALIZED >= 0:
            s = normalized.to(kind)
            tl.store((values + NORMALIZED * num_entries) + place, s, mask=there)
            tl.store(norms + NORMALIZED, _with_long_rows(_NORM_OF_NORMALIZED, s.to(tl.float64), lengths, N))
        if LAPLACIAN >= 0:
            s = (diagonal.to(tl.float64) - normalized).to(kind)
            tl.store((values + LAPLACIAN * num_entries) + place, s, mask=there)
            tl.store(norms + LAPLACIAN, _with_long_rows(_NORM_OF_LAPLACIAN, s.to(tl.float64), lengths, N))


_launched = RepeatedLaunches()


@cache
def _constants(names: tuple[str, ...], weighted: bool, width: int, looked_at: int, added: int) -> dict[str, int]:
    """What the kernel is compiled for, in the order of its arguments."""
    rows = dict.fromkeys(OPERATOR_ARGUMENTS.values(), -1)
    rows |= {OPERATOR_ARGUMENTS[name]: i for i, name in enumerate(names)}
    sizes = {"N": width, "LOOKED_AT": looked_at, "ADDED": added}
    return {"OPERATORS": len(names), **rows, "WEIGHTED": weighted, **sizes}


def held_width(largest: int) -> int:
    """N of the kernel for graphs of up to so many nodes."""
    return 32 if largest <= 32 else 64 if largest <= 64 else 128


def launch_small_graphs(
    names: tuple[str, ...],
    graph: Graph,
    dtype: torch.dtype = torch.float32,
) -> SmallGraphs:
    """Build operators of a batch of small graphs; nothing is waited for. Costs O(G m + n N²) for graphs of N nodes.

    Args:
        names: Distinct keys of :data:`rfp.operators.OPERATORS`.
        graph: Has nodes, none of its graphs more than 128; its keys are learnt.
        dtype: Type of the values; they are computed in float64.
    """
    edge_index, edge_weight, ptr, num_nodes = graph.edge_index, graph.edge_weight, graph.offsets, graph.num_nodes
    device, num_edges, num_graphs, largest = edge_index.device, edge_index.size(1), ptr.size(0) - 1, graph.largest
    num_entries = num_edges + num_nodes
    # Each a tensor of its own: those that begin anywhere in another would be kernels of their own, compiled apart.
    crow = torch.empty(num_nodes + 1, dtype=torch.int32, device=device)
    col = torch.empty(num_entries, dtype=torch.int32, device=device)
    holes = torch.empty(num_nodes, dtype=torch.int32, device=device)
    values = torch.empty(len(names), num_entries, dtype=dtype, device=device)
    norms = torch.empty(num_graphs, len(names), dtype=torch.float64, device=device)
    keys = torch.empty(num_graphs, dtype=torch.int64, device=device)
    width = held_width(largest)
    weight = ptr if edge_weight is None else floating(edge_weight)
    to_target, step = edge_index.stride()
    types = (device.index, edge_index.dtype, ptr.dtype, weight.dtype, dtype, step)
    with on_device(edge_index):
        _launched(
            Launch(
                types,
                small_operators_kernel,
                (num_graphs,),
                (edge_index, weight, ptr),
                (crow, col, holes, values, norms, keys, to_target, step, num_edges, num_nodes),
                _constants(names, edge_weight is not None, width, _LOOKED_AT, _ADDED),
                {"num_warps": width // 8},
            )
        )
    graph.learn_keys(keys)
    return SmallGraphs(crow, col, holes, values, norms, keys)
