# mypy: ignore-errors
"""Triton: sums over the neighbours of a node, one program a node (and leading index), and their gradient.

Bounds: offsets are 64-bit; a row of d channels is held by one program, d at most some thousands.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"])  # it changes from batch to batch
def neighbors_forward(
    out,  # [L, n, d]
    x,  # [L, n, d]
    attr,  # [m, d], or anything if there is none
    eps,  # [1]
    source,  # [m]
    by_target,  # [m]
    target_ptr,  # [n + 1]
    n,
    d,
    BLOCK: tl.constexpr,  # d, rounded up to a power of two
    HAS_ATTR: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1).to(tl.int64) * n
    column = tl.arange(0, BLOCK)
    real = column < d
    total = tl.load(x + (rows + node) * d + column, mask=real, other=0.0).to(tl.float32)
    total = total * (1.0 + tl.load(eps).to(tl.float32))
    for place in range(tl.load(target_ptr + node), tl.load(target_ptr + node + 1)):
        edge = tl.load(by_target + place).to(tl.int64)
        other = tl.load(source + edge).to(tl.int64)
        message = tl.load(x + (rows + other) * d + column, mask=real, other=0.0).to(tl.float32)
        if HAS_ATTR:
            message += tl.load(attr + edge * d + column, mask=real, other=0.0).to(tl.float32)
            message = tl.maximum(message, 0.0)
        total += message
    tl.store(out + (rows + node) * d + column, total, mask=real)


@triton.jit(do_not_specialize=["n"])  # it changes from batch to batch
def neighbors_backward(
    grad_x,  # [L, n, d]
    grad_attr,  # [m, d], or anything if there is none
    grad,  # [L, n, d]
    x,  # [L, n, d]
    attr,  # [m, d], or anything
    eps,  # [1]
    target,  # [m]
    by_source,  # [m]
    source_ptr,  # [n + 1]
    leading,  # L
    n,
    d,
    BLOCK: tl.constexpr,
    HAS_ATTR: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    real = column < d
    scale = 1.0 + tl.load(eps).to(tl.float32)
    first = tl.load(source_ptr + node)
    last = tl.load(source_ptr + node + 1)
    # An edge has one source, so its gradient belongs to this program alone and can be added up without atomics.
    rows = node * 0
    for _ in range(leading):
        own = tl.load(x + (rows + node) * d + column, mask=real, other=0.0).to(tl.float32)
        total = tl.load(grad + (rows + node) * d + column, mask=real, other=0.0).to(tl.float32) * scale
        for place in range(first, last):
            edge = tl.load(by_source + place).to(tl.int64)
            other = tl.load(target + edge).to(tl.int64)
            passed = tl.load(grad + (rows + other) * d + column, mask=real, other=0.0).to(tl.float32)
            if HAS_ATTR:
                at = attr + edge * d + column
                message = own + tl.load(at, mask=real, other=0.0).to(tl.float32)
                passed = tl.where(message > 0.0, passed, 0.0)
                kept = grad_attr + edge * d + column
                before = tl.load(kept, mask=real, other=0.0)  # not yet set at the first leading index
                tl.store(kept, tl.where(rows > 0, before + passed, passed), mask=real)
            total += passed
        tl.store(grad_x + (rows + node) * d + column, total, mask=real)
        rows += n


def _options(d):
    block = triton.next_power_of_2(d)
    return {"BLOCK": block, "num_warps": min(max(block // 128, 1), 8)}


def launch_neighbor_sums(x, eps, attr, edge_index, edges):
    """See :func:`rfp.nn.neighbors.add_neighbors`; x is contiguous ``[..., n, d]``."""
    n, d = x.shape[-2:]
    out = torch.empty_like(x)
    neighbors_forward[(n, x.numel() // (n * d))](
        out,
        x,
        x if attr is None else attr,
        eps,
        edge_index[0],
        edges.by_target,
        edges.target_ptr,
        n,
        d,
        HAS_ATTR=attr is not None,
        **_options(d),
    )
    return out


def launch_neighbor_sums_gradient(grad, x, eps, attr, edge_index, edges):
    """Gradients of x and of attr (``None`` if there is none, float32 sums rounded to its type)."""
    n, d = x.shape[-2:]
    grad_x = torch.empty_like(x)
    grad_attr = None
    if attr is not None:
        make = torch.zeros if edges.padded else torch.empty
        grad_attr = make(attr.shape, dtype=torch.float32, device=attr.device)
    neighbors_backward[(n,)](
        grad_x,
        x if attr is None else grad_attr,
        grad,
        x,
        x if attr is None else attr,
        eps,
        edge_index[1],
        edges.by_source,
        edges.source_ptr,
        x.numel() // (n * d),
        n,
        d,
        HAS_ATTR=attr is not None,
        **_options(d),
    )
    return grad_x, None if attr is None else grad_attr.to(attr.dtype)
