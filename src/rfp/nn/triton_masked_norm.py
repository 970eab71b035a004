# mypy: ignore-errors
"""Triton: batch normalisation that leaves padding out, two launches each way instead of a dozen.

Rows are split among programs. The first launch leaves sums of each part, the second puts them together (every program
again, for its own columns: cheaper than a launch between) and writes the rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from rfp.triton_launch import num_blocks

_TILE = 64  # rows looked at together
_COLUMNS = 32
_MAX_PARTS = 128


@triton.jit(do_not_specialize=["rows", "n"])
def _statistics(
    x,  # [rows, d]
    real,  # [n], of the rows i modulo n
    count,  # [parts]
    mean,  # [parts, d]
    squares,  # [parts, d]: sum of squared distances from the mean of the part
    rows,
    n,
    d,
    part_rows,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([], tl.float32)
    middle = tl.zeros([COLUMNS], tl.float32)
    spread = tl.zeros([COLUMNS], tl.float32)
    for start in range(0, part_rows, TILE):
        row = part * part_rows + start + tl.arange(0, TILE)
        share = tl.load(real + row % n, mask=row < rows, other=0.0)
        at = row.to(tl.int64)[:, None] * d + column[None, :]
        there = (share > 0)[:, None] & (column < d)[None, :]
        values = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
        number = tl.sum(share, axis=0)
        own = tl.sum(values, axis=0) / tl.maximum(number, 1.0)
        off = tl.where(there, values - own[None, :], 0.0)
        # Two sets of numbers put together (Chan et al. 1979): no difference of large sums.
        both = total + number
        delta = own - middle
        weight = number / tl.maximum(both, 1.0)
        spread += tl.sum(off * off, axis=0) + delta * delta * total * weight
        middle += delta * weight
        total = both
    tl.store(count + part, total)  # the same from every block of columns
    tl.store(mean + part * d + column, middle, mask=column < d)
    tl.store(squares + part * d + column, spread, mask=column < d)


@triton.jit(do_not_specialize=["rows", "parts"])
def _normalize(
    out,  # [rows, d]
    x,  # [rows, d]
    count,
    mean,
    squares,
    weight,  # [d]
    bias,  # [d]
    kept_mean,  # [d]
    kept_scale,  # [d]: 1 / sqrt(variance + eps)
    kept_count,  # [1]
    running_mean,  # [d], or anything if not RUNNING
    running_var,  # [d]
    rows,
    d,
    parts,
    part_rows,
    eps,
    momentum,
    PARTS: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
    RUNNING: tl.constexpr,
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    live = column < d
    part = tl.arange(0, PARTS)
    there = (part < parts)[:, None] & live[None, :]
    at = part[:, None] * d + column[None, :]
    number = tl.load(count + part, mask=part < parts, other=0.0)
    own = tl.load(mean + at, mask=there, other=0.0)
    total = tl.sum(number, axis=0)
    middle = tl.sum(own * number[:, None], axis=0) / total
    off = own - middle[None, :]
    spread = tl.load(squares + at, mask=there, other=0.0) + off * off * number[:, None]
    variance = tl.sum(spread, axis=0) / total
    scale = 1.0 / tl.sqrt(variance + eps)
    if tl.program_id(0) == 0:
        tl.store(kept_mean + column, middle, mask=live)
        tl.store(kept_scale + column, scale, mask=live)
        tl.store(kept_count, total)
        if RUNNING:
            before = tl.load(running_mean + column, mask=live)
            tl.store(running_mean + column, before + momentum * (middle - before), mask=live)
            before = tl.load(running_var + column, mask=live)
            unbiased = variance * (total / tl.maximum(total - 1.0, 1.0))
            tl.store(running_var + column, before + momentum * (unbiased - before), mask=live)
    factor = scale * tl.load(weight + column, mask=live, other=0.0)
    shift = tl.load(bias + column, mask=live, other=0.0)
    for start in range(0, part_rows, TILE):
        row = tl.program_id(0) * part_rows + start + tl.arange(0, TILE)
        place = row.to(tl.int64)[:, None] * d + column[None, :]
        mask = (row < rows)[:, None] & live[None, :]
        values = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + place, (values - middle[None, :]) * factor[None, :] + shift[None, :], mask=mask)


@triton.jit(do_not_specialize=["rows"])
def _sums(grad, x, mean, scale, total, product, rows, d, part_rows, TILE: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums over the rows of a part, ``[parts, d]``: of the gradient, and of its product with the normalised rows."""
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    live = column < d
    middle = tl.load(mean + column, mask=live, other=0.0)
    factor = tl.load(scale + column, mask=live, other=0.0)
    of_grad = tl.zeros([COLUMNS], tl.float32)
    of_product = tl.zeros([COLUMNS], tl.float32)
    for start in range(0, part_rows, TILE):
        row = part * part_rows + start + tl.arange(0, TILE)
        place = row.to(tl.int64)[:, None] * d + column[None, :]
        mask = (row < rows)[:, None] & live[None, :]
        g = tl.load(grad + place, mask=mask, other=0.0).to(tl.float32)
        values = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
        of_grad += tl.sum(g, axis=0)
        of_product += tl.sum(g * ((values - middle[None, :]) * factor[None, :]), axis=0)
    tl.store(total + part * d + column, of_grad, mask=live)
    tl.store(product + part * d + column, of_product, mask=live)


@triton.jit(do_not_specialize=["rows", "n", "parts"])
def _gradient(
    grad_x,  # [rows, d]
    grad_weight,  # [d]
    grad_bias,  # [d]
    grad,
    x,
    real,
    count,  # [1]
    mean,
    scale,
    weight,
    total,
    product,
    rows,
    n,
    d,
    parts,
    part_rows,
    PARTS: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    live = column < d
    part = tl.arange(0, PARTS)
    there = (part < parts)[:, None] & live[None, :]
    at = part[:, None] * d + column[None, :]
    of_grad = tl.sum(tl.load(total + at, mask=there, other=0.0), axis=0)
    of_product = tl.sum(tl.load(product + at, mask=there, other=0.0), axis=0)
    if tl.program_id(0) == 0:
        tl.store(grad_bias + column, of_grad, mask=live)
        tl.store(grad_weight + column, of_product, mask=live)
    middle = tl.load(mean + column, mask=live, other=0.0)
    factor = tl.load(scale + column, mask=live, other=0.0)
    outer = factor * tl.load(weight + column, mask=live, other=0.0)
    number = tl.load(count)
    for start in range(0, part_rows, TILE):
        row = tl.program_id(0) * part_rows + start + tl.arange(0, TILE)
        share = tl.load(real + row % n, mask=row < rows, other=0.0) / number
        place = row.to(tl.int64)[:, None] * d + column[None, :]
        mask = (row < rows)[:, None] & live[None, :]
        g = tl.load(grad + place, mask=mask, other=0.0).to(tl.float32)
        values = tl.load(x + place, mask=(share > 0)[:, None] & mask, other=0.0).to(tl.float32)
        # Every real row gets its share of the gradients of mean and variance.
        common = of_grad[None, :] + ((values - middle[None, :]) * factor[None, :]) * of_product[None, :]
        tl.store(grad_x + place, (g - common * share[:, None]) * outer[None, :], mask=mask)


def _launch(rows, d):
    """Grid and sizes: at most so many parts as one program puts together."""
    part_rows = _TILE * max(1, num_blocks(rows, _TILE * _MAX_PARTS))
    parts = num_blocks(rows, part_rows)
    return (parts, num_blocks(d, _COLUMNS)), parts, part_rows, max(triton.next_power_of_2(parts), 2)


def launch_masked_norm(x, real, weight, bias, running_mean, running_var, eps, momentum):
    """See :func:`rfp.nn.masked_norm.masked_batch_norm`; x is contiguous ``[rows, d]``, real ``[n]``.

    Returns:
        The normalised rows, mean ``[d]``, inverse deviation ``[d]`` and count ``[1]``.
    """
    rows, d = x.shape
    grid, parts, part_rows, width = _launch(rows, d)
    scratch = torch.empty(2, parts, d, dtype=torch.float32, device=x.device)
    count = torch.empty(parts, dtype=torch.float32, device=x.device)
    kept = torch.empty(2, d, dtype=torch.float32, device=x.device)
    total = torch.empty(1, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    sizes = {"TILE": _TILE, "COLUMNS": _COLUMNS}
    _statistics[grid](x, real, count, scratch[0], scratch[1], rows, real.numel(), d, part_rows, **sizes)
    running = running_mean is not None
    _normalize[grid](
        out,
        x,
        count,
        scratch[0],
        scratch[1],
        weight,
        bias,
        kept[0],
        kept[1],
        total,
        running_mean if running else kept,
        running_var if running else kept,
        rows,
        d,
        parts,
        part_rows,
        eps,
        momentum,
        PARTS=width,
        RUNNING=running,
        **sizes,
    )
    return out, kept[0], kept[1], total


def launch_masked_norm_gradient(grad, x, real, weight, mean, scale, count):
    """Gradients of x, of the weight and of the bias."""
    rows, d = x.shape
    grid, parts, part_rows, width = _launch(rows, d)
    scratch = torch.empty(2, parts, d, dtype=torch.float32, device=x.device)
    grad_x = torch.empty_like(grad)
    grad_weight, grad_bias = torch.empty(2, d, dtype=torch.float32, device=x.device)
    sizes = {"TILE": _TILE, "COLUMNS": _COLUMNS}
    _sums[grid](grad, x, mean, scale, scratch[0], scratch[1], rows, d, part_rows, **sizes)
    _gradient[grid](
        grad_x,
        grad_weight,
        grad_bias,
        grad,
        x,
        real,
        count,
        mean,
        scale,
        weight,
        scratch[0],
        scratch[1],
        rows,
        real.numel(),
        d,
        parts,
        part_rows,
        PARTS=width,
        **sizes,
    )
    return grad_x, grad_weight, grad_bias
