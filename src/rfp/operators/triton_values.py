# mypy: ignore-errors
"""Triton: the values of all predefined operators on the entries of A, in one kernel; nobody waits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp.triton_launch import launch_kernel, num_blocks, on_device
from rfp.triton_pattern import BLOCK, KernelPattern

# Where `rfp.operators.predefined` cuts degrees off, before it divides by them: the smallest normal float64.
_TINY = tl.constexpr(2.2250738585072014e-308)


@triton.jit
def _degree(node, live, crow, out_degree, WEIGHTED: tl.constexpr):
    """The sum of absolute weights of rows of A."""
    if WEIGHTED:
        degree = tl.load(out_degree + node, mask=live, other=0.0)
    else:  # as many as there are edges; the entry of the node itself is none
        start = tl.load(crow + node, mask=live, other=0)
        degree = (tl.load(crow + node + 1, mask=live, other=1) - start - 1).to(tl.float64)
    return degree


@triton.jit
def inverse(degree):
    """Of degrees; 0 where there is none."""
    return tl.where(degree > 0, 1.0 / tl.maximum(degree, _TINY), 0.0)


@triton.jit
def inverse_root(degree):
    """Of degrees, one over the root; 0 where there is none."""
    return tl.where(degree > 0, 1.0 / tl.sqrt(tl.maximum(degree, _TINY)), 0.0)


@triton.jit(do_not_specialize=["num_entries", "num_nodes"])
def _values_kernel(
    place,  # [num_entries], sorted
    crow,  # [n + 1]
    value,  # [num_entries] float64
    out_degree,  # [n] float64, read if WEIGHTED
    in_degree,  # [n]
    loop,  # [n] float64
    out,  # [operators, num_entries]
    num_entries,
    num_nodes,
    ADJACENCY: tl.constexpr,
    NORMALIZED: tl.constexpr,
    LAPLACIAN: tl.constexpr,
    RANDOM_WALK: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each of the operators is a row of ``out``, or -1 if it is not wanted; see :mod:`rfp.operators`."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = entry < num_entries
    here = tl.load(place + entry, mask=live, other=0).to(tl.int64)
    row = here // num_nodes
    a = tl.load(value + entry, mask=live, other=0.0)
    kind = out.dtype.element_ty
    apart = entry * 0 + num_entries  # 64 bits
    if ADJACENCY >= 0:
        tl.store(out + ADJACENCY * apart + entry, a.to(kind), mask=live)
    out_of_row = _degree(row, live, crow, out_degree, WEIGHTED)
    if RANDOM_WALK >= 0:
        walk = inverse(out_of_row) * a
        tl.store(out + RANDOM_WALK * apart + entry, walk.to(kind), mask=live)
    if (NORMALIZED >= 0) | (LAPLACIAN >= 0):
        column = here - row * num_nodes
        before = tl.load(place + entry - 1, mask=live & (entry > 0), other=0).to(tl.int64)
        diagonal = live & (row == column) & ((entry == 0) | (here != before))
        # A self-loop of weight 1 on every node that has none.
        no_loop_at_row = (tl.load(loop + row, mask=live, other=1.0) == 0).to(tl.float64)
        no_loop_at_column = (tl.load(loop + column, mask=live, other=1.0) == 0).to(tl.float64)
        into_column = tl.load(in_degree + column, mask=live, other=0).to(tl.float64)
        looped = tl.where(diagonal & (a == 0), 1.0, a)
        left = inverse_root(out_of_row + no_loop_at_row)
        normalized = left * looped * inverse_root(into_column + no_loop_at_column)
        if NORMALIZED >= 0:
            tl.store(out + NORMALIZED * apart + entry, normalized.to(kind), mask=live)
        if LAPLACIAN >= 0:
            laplacian = diagonal.to(tl.float64) - normalized
            tl.store(out + LAPLACIAN * apart + entry, laplacian.to(kind), mask=live)


# Name -> the argument of the kernel that says which row its values go to.
OPERATOR_ARGUMENTS = {
    "adjacency": "ADJACENCY",
    "normalized_adjacency": "NORMALIZED",
    "normalized_laplacian": "LAPLACIAN",
    "random_walk": "RANDOM_WALK",
}


def operator_values(names: Sequence[str], edges: KernelPattern, dtype: torch.dtype) -> Tensor:
    """Values of predefined operators on the entries of a graph, ``[operators, m + n]``, holes zero.

    Args:
        names: Distinct keys of :data:`rfp.operators.OPERATORS`.
        edges: Entries and degrees.
        dtype: Type of the values; they are computed in float64.
    """
    csr = edges.pattern
    out = torch.empty(len(names), csr.nnz, dtype=dtype, device=csr.col.device)
    rows = dict.fromkeys(OPERATOR_ARGUMENTS.values(), -1)
    rows |= {OPERATOR_ARGUMENTS[name]: i for i, name in enumerate(names)}
    with on_device(out):
        launch_kernel(
            _values_kernel,
            (num_blocks(csr.nnz, BLOCK),),
            (
                edges.place,
                csr.crow,
                csr.value,
                edges.out_degree,
                edges.in_degree,
                edges.loop,
                out,
                csr.nnz,
                csr.num_rows,
            ),
            **rows,
            WEIGHTED=edges.weighted,
            BLOCK=BLOCK,
        )
    return out
