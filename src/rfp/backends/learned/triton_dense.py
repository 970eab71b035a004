# mypy: ignore-errors
r"""Triton: the whole trajectory of a small graph with a dense operator, and the gradient of the operator.

A program holds one graph and one trajectory: the matrix S ``[N, N]`` and the states ``[N, K]``, padded with zeros. The
arithmetic is float64 throughout (products on the tensor cores); stored states are float32, and each step starts from
what was stored, so that the backward pass can compute the product before a normalisation again instead of keeping it.

Where S is wider than a program can hold, it is read in pieces of ``CHUNK`` columns, and the other factor of a product
from where it was stored. The backward pass then leaves the gradients of all products behind, of which a product of
matrices makes that of S.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from rfp.backends.problem import NORMALIZATION_CODES
from rfp.backends.sparse.orthonormal_grad import GRADIENT_FLOOR
from rfp.normalization import dependence_tolerance

# The states are float32, whatever they are computed in.
_TOLERANCE_SQUARED = tl.constexpr(dependence_tolerance(torch.float32) ** 2)
_FLOOR = tl.constexpr(GRADIENT_FLOOR)
_TINY = tl.constexpr(torch.finfo(torch.float64).tiny)
_NONE, _L2, _QR = (tl.constexpr(NORMALIZATION_CODES[name]) for name in ("none", "l2", "qr"))


@triton.jit
def _gram_schmidt(y, noise, k, N: tl.constexpr, K: tl.constexpr):
    """Classical Gram-Schmidt run twice, with the rule of :func:`rfp.normalization.qr` for dependent columns.

    Args:
        y: ``[N, K]`` float64.
        noise: What rounding may have added to a column of y (:mod:`rfp.rounding`).

    Returns:
        q ``[N, K]``, all NaN if y is not finite, and the number of dependent columns among the first k.
    """
    column = tl.arange(0, K)[None, :]
    squares = tl.sum(y * y, axis=0)
    limit = tl.max(squares, axis=0) * _TOLERANCE_SQUARED
    finite = tl.sum(squares, axis=0) < float("inf")
    q = tl.zeros([N, K], tl.float64)
    dropped = tl.full([], 0, tl.int32)
    z_squared = tl.zeros([K], tl.float64)
    for j in range(k):
        v = tl.sum(tl.where(column == j, y, 0.0), axis=1)
        r = tl.zeros([K], tl.float64)
        for _ in tl.static_range(2):  # twice is enough
            along = tl.sum(q * v[:, None], axis=0)
            v -= tl.sum(q * along[None, :], axis=1)
            r += along
        squared = tl.sum(v * v, axis=0)
        alpha_squared = 1.0 + tl.sum(r * r * z_squared, axis=0)
        kept = squared > tl.maximum(limit, noise * noise * alpha_squared)
        spread = tl.where(kept, alpha_squared / tl.where(kept, squared, 1.0), 0.0)
        z_squared = tl.where(tl.arange(0, K) == j, spread, z_squared)
        v *= tl.where(kept, 1.0 / tl.sqrt(tl.where(kept, squared, 1.0)), 0.0)
        q = tl.where(column == j, v[:, None], q)
        dropped += tl.where(kept, 0, 1)
    return tl.where(finite, q, float("nan")), dropped


@triton.jit
def _gram_schmidt_gradient(grad, q, y, k, N: tl.constexpr, K: tl.constexpr):
    r"""The gradient in y of q, with the guards of :mod:`rfp.backends.sparse.orthonormal_grad`.

    :math:`\bar y = (\bar q - q M) R^{-\top}`, where M mirrors the upper triangle of :math:`q^\top \bar q`; the columns
    are solved for from the last to the first.

    Args:
        grad, q, y: ``[N, K]`` float64, where dropped columns of q are zero.
    """
    number = tl.arange(0, K)
    row = number[:, None]
    column = number[None, :]
    r = tl.dot(tl.trans(q), y, out_dtype=tl.float64)
    pivots = tl.sum(tl.where(row == column, r, 0.0), axis=0)
    # The rows of dropped columns are zero as they are; their columns are left out too.
    r = tl.where((row <= column) & (pivots > 0)[None, :], r, 0.0)
    scale = tl.sqrt(tl.max(tl.sum(r * r, axis=0), axis=0))
    floor = tl.maximum(scale, _TINY) * _FLOOR

    inner = tl.dot(tl.trans(q), grad, out_dtype=tl.float64)
    mirrored = tl.where(row <= column, inner, 0.0) + tl.trans(tl.where(row < column, inner, 0.0))
    z = grad - tl.dot(q, mirrored, out_dtype=tl.float64)
    for i in range(k):
        j = k - 1 - i
        line = tl.sum(tl.where(row == j, r, 0.0), axis=0)
        pivot = tl.sum(tl.where(number == j, line, 0.0), axis=0)
        inverse = tl.where(pivot > 0, 1.0 / tl.maximum(pivot, floor), 0.0)
        weights = tl.where(number == j, 1.0, tl.where(number > j, -line, 0.0)) * inverse
        z = tl.where(column == j, tl.sum(z * weights[None, :], axis=1)[:, None], z)

    given = tl.sqrt(tl.sum(tl.sum(grad * grad, axis=1), axis=0))
    reached = tl.sqrt(tl.sum(tl.sum(z * z, axis=1), axis=0)) * floor
    return z * tl.where(reached > given, given / tl.where(reached > given, reached, 1.0), 1.0)


@triton.jit
def _inverse_lengths(squares, noise):
    """``[K]``, zero for columns that are no longer than their noise."""
    live = squares > noise * noise
    return tl.where(live, 1.0 / tl.sqrt(tl.where(live, squares, 1.0)), 0.0)


@triton.jit
def _load_matrix(matrix, real, row_stride, column_stride, N: tl.constexpr):
    """S, or with exchanged strides its transpose, ``[N, N]`` float64, zero at the padding.

    Read anew wherever it is used, from the cache: registers and shared memory are scarce.
    """
    local = tl.arange(0, N)
    mask = real[:, None] & real[None, :]
    place = local[:, None] * row_stride + local[None, :] * column_stride
    return tl.load(matrix + place, mask=mask, other=0.0).to(tl.float64)


@triton.jit
def _product_in_chunks(
    matrix,
    row_stride,
    column_stride,
    real,
    factor,
    factor_stride,
    rows,
    width,
    n,
    k,
    N: tl.constexpr,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
    BY_NODES: tl.constexpr,
):
    """``[N, K]`` float64: S, or with exchanged strides its transpose, times what all threads have stored.

    Args:
        factor: Its rows, of nodes if ``BY_NODES`` and else of places within the graph.
        rows: ``[width]`` nodes of the graph.
    """
    tl.debug_barrier()  # what is read here was stored by other threads
    channel = tl.arange(0, K)[None, :]
    local = tl.arange(0, N)
    y = tl.zeros([N, K], tl.float64)
    for first in range(0, width, CHUNK):
        other = first + tl.arange(0, CHUNK)
        node = tl.load(rows + other, mask=other < width, other=n)
        there = node < n
        place = local[:, None] * row_stride + other[None, :] * column_stride
        s = tl.load(matrix + place, mask=real[:, None] & there[None, :], other=0.0).to(tl.float64)
        at = node if BY_NODES else other.to(tl.int64)
        mask = there[:, None] & (channel < k)
        part = tl.load(factor + (at * factor_stride)[:, None] + channel, mask=mask, other=0.0).to(tl.float64)
        y = tl.dot(s, part, y, out_dtype=tl.float64)
    return y


@triton.jit
def _product_of_state(
    matrix, real, a, stored, node_stride, nodes, width, n, k, N: tl.constexpr, K: tl.constexpr, CHUNK: tl.constexpr
):
    """S a of a state that the forward pass has stored."""
    if CHUNK == N:
        y = tl.dot(_load_matrix(matrix, real, width, 1, N), a, out_dtype=tl.float64)
    else:
        y = _product_in_chunks(matrix, width, 1, real, stored, node_stride, nodes, width, n, k, N, K, CHUNK, True)
    return y


@triton.jit
def _nodes_of(rows, graph, width, n, k, N: tl.constexpr, K: tl.constexpr):
    """The nodes of a graph, ``[N]``; which of them there are; and the mask of a state of them, ``[N, K]``."""
    local = tl.arange(0, N)
    node = tl.load(rows + graph * width + local, mask=local < width, other=n)
    real = node < n
    return node, real, real[:, None] & (tl.arange(0, K)[None, :] < k)


# Compiled anew for other values of what is specialised: only what the code gains by.
@triton.jit(do_not_specialize=["n", "width", "num_steps", "normalize_every"])
def dense_forward_kernel(
    out,
    features,
    matrix,
    rows,
    dropped,
    unit,
    unknown_norm,
    n,
    width,
    num_trajectories,
    node_stride,
    trajectory_stride,
    num_steps,
    normalize_every,
    k,
    N: tl.constexpr,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
    NORMALIZATION: tl.constexpr,
):
    """The states of one graph and one trajectory. Grid: (graphs of the block, B).

    Args:
        out: ``[n, B, P + 1, k]`` float32, at the given strides of nodes and trajectories.
        features: ``[n, B, k]`` float32.
        matrix: ``[graphs, width, width]`` float32; what lies at the padding is not read.
        rows: ``[graphs, width]`` node numbers; n at the padding.
        dropped: ``[1]`` int64, receives the number of dependent columns, under l2 that of zero columns.
        unit: What rounding adds to the product of a vector of length 1 (:mod:`rfp.rounding`).
        unknown_norm: The same for a matrix of norm 1, where the norm is not known: then the largest growth of a column
            so far stands for it.
        N: The width, K: k, rounded up to powers of two, at least 16.
        CHUNK: Columns of S that a program holds at a time; N if it holds all.
    """
    graph = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1).to(tl.int64)
    matrix += graph * width * width
    node, real, mask = _nodes_of(rows, graph, width, n, k, N, K)
    channel = tl.arange(0, K)[None, :]
    source = features + ((node * num_trajectories + b) * k)[:, None] + channel
    target = out + (node * node_stride + b * trajectory_stride)[:, None] + channel

    nodes = rows + graph * width
    a = tl.load(source, mask=mask, other=0.0)
    tl.store(target, a, mask=mask)
    missing = tl.full([], 0, tl.int32)
    wide = a.to(tl.float64)
    before = tl.sum(wide * wide, axis=0)  # squared lengths of the columns
    noise = tl.zeros([K], tl.float64)  # what rounding may have added to them
    product_unit = tl.full([], 0.0, tl.float64) + unit
    for p in range(1, num_steps + 1):
        stored = out + b * trajectory_stride + (p - 1) * k
        wide = a.to(tl.float64)
        y = _product_of_state(matrix, real, wide, stored, node_stride, nodes, width, n, k, N, K, CHUNK)
        if NORMALIZATION != _NONE:
            squares = tl.sum(y * y, axis=0)
            there = before > 0
            length = tl.sqrt(tl.where(there, before, 1.0))
            growth = tl.where(there, tl.sqrt(squares) / length, 0.0)
            product_unit = tl.maximum(product_unit, tl.max(growth, axis=0) * unknown_norm)
            noise = tl.where(there, noise * growth + product_unit * length, 0.0)
            before = squares
            if p % normalize_every == 0:
                if NORMALIZATION == _L2:
                    inverse = _inverse_lengths(squares, noise)
                    y *= inverse[None, :]
                    missing += tl.sum(((inverse == 0) & (tl.arange(0, K) < k)).to(tl.int32), axis=0)
                else:
                    y, dependent = _gram_schmidt(y, tl.max(noise, axis=0), k, N, K)
                    missing += dependent
                before = tl.full([K], 1.0, tl.float64)
                noise = tl.zeros([K], tl.float64)
        a = y.to(tl.float32)
        tl.store(target + p * k, a, mask=mask)
    if NORMALIZATION != _NONE:
        tl.atomic_add(dropped, missing.to(tl.int64), mask=missing > 0, sem="relaxed")


@triton.jit(do_not_specialize=["n", "width", "num_steps", "normalize_every"])
def dense_backward_kernel(
    grad_matrix,
    grad_out,
    out,
    matrix,
    rows,
    n,
    width,
    num_trajectories,
    node_stride,
    trajectory_stride,
    num_steps,
    normalize_every,
    k,
    N: tl.constexpr,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
    NORMALIZATION: tl.constexpr,
):
    """What one trajectory gives to the gradient of its graph's matrix. Grid: (graphs of the block, B).

    Args:
        grad_matrix: ``[graphs, B, width, width]`` float32; zero at the padding. If S is read in chunks, the gradients
            of the products instead, ``[graphs, B, P, width, k]``.
        grad_out: The gradient of every state, laid out as ``out``.

    The others are those of :func:`dense_forward_kernel`.
    """
    graph = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1).to(tl.int64)
    matrix += graph * width * width
    node, real, mask = _nodes_of(rows, graph, width, n, k, N, K)
    place = (node * node_stride + b * trajectory_stride)[:, None] + tl.arange(0, K)[None, :]
    nodes = rows + graph * width
    local = tl.arange(0, N)
    if CHUNK == N:
        total = tl.zeros([N, N], tl.float32)  # a sum of P terms: float32 serves, and takes half the registers
    carried = tl.zeros([N, K], tl.float64)
    for i in range(num_steps):
        p = num_steps - i
        stored = out + b * trajectory_stride + (p - 1) * k
        before = tl.load(out + place + (p - 1) * k, mask=mask, other=0.0).to(tl.float64)
        grad = carried + tl.load(grad_out + place + p * k, mask=mask, other=0.0).to(tl.float64)
        if NORMALIZATION == _L2:
            if p % normalize_every == 0:
                y = _product_of_state(matrix, real, before, stored, node_stride, nodes, width, n, k, N, K, CHUNK)
                # Columns that the forward pass found to be rounding are zero, and get no gradient.
                state = tl.load(out + place + p * k, mask=mask, other=0.0)
                live = tl.max(tl.abs(state), axis=0) > 0
                squares = tl.where(live, tl.sum(y * y, axis=0), 0.0)
                inverse = _inverse_lengths(squares, tl.zeros([K], tl.float64))[None, :]
                y *= inverse
                grad = (grad - y * tl.sum(y * grad, axis=0)[None, :]) * inverse
        if NORMALIZATION == _QR:
            if p % normalize_every == 0:
                y = _product_of_state(matrix, real, before, stored, node_stride, nodes, width, n, k, N, K, CHUNK)
                q = tl.load(out + place + p * k, mask=mask, other=0.0).to(tl.float64)
                grad = _gram_schmidt_gradient(grad, q, y, k, N, K)
        if CHUNK == N:
            total += tl.dot(grad, tl.trans(before), out_dtype=tl.float64).to(tl.float32)
            carried = tl.dot(_load_matrix(matrix, real, 1, width, N), grad, out_dtype=tl.float64)
        else:
            kept = grad_matrix + ((graph * num_trajectories + b) * num_steps + (p - 1)) * width * k
            inside = (local < width)[:, None] & (tl.arange(0, K)[None, :] < k)
            tl.store(kept + local[:, None] * k + tl.arange(0, K)[None, :], grad.to(tl.float32), mask=inside)
            carried = _product_in_chunks(matrix, 1, width, real, kept, k, nodes, width, n, k, N, K, CHUNK, False)
    if CHUNK == N:
        inside = (local < width)[:, None] & (local < width)[None, :]
        target = grad_matrix + (graph * num_trajectories + b) * width * width
        tl.store(target + local[:, None] * width + local[None, :], total, mask=inside)
