# mypy: ignore-errors
# ruff: noqa: RUF005, SIM102 (in Triton tuples grow by addition, and constant conditions stand alone)
"""Triton: whole trajectories of small graphs, one warp for a few of them, nothing but the result leaving the chip."""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.triton_factor import gram_schmidt, inverse_factor, upper_word
from rfp.backends.triton_hash import draw_pairs

# Numbers of the normalisations.
NORMALIZATION_CODES = {"none": 0, "l2": 1, "qr": 2}


@triton.jit
def _orthonormalize(panels, kept, PANELS: tl.constexpr, N: tl.constexpr):
    """QR of the channels, panel by panel of 16: freed of the panels before, multiplied by the inverse factor.

    One pass of Cholesky QR in float64 serves but for ill-conditioned columns, which are rare and taken one by one.
    """
    entry_scale = 0
    if PANELS > 1:
        for c in tl.static_range(PANELS):
            squares = panels[c].to(tl.float64)
            entry_scale = tl.maximum(entry_scale, tl.max(upper_word(tl.sum(squares * squares, axis=1)), axis=0))
    done = ()
    for c in tl.static_range(PANELS):
        y = panels[c]
        wide = y.to(tl.float64)
        for _ in tl.static_range(2):  # twice: a column may lie almost in the span of the panels before
            for d in tl.static_range(c):
                q = done[d].to(tl.float64)
                wide -= tl.dot(tl.dot(wide, tl.trans(q), out_dtype=tl.float64), q, out_dtype=tl.float64)
        gram = tl.dot(wide, tl.trans(wide), out_dtype=tl.float64)
        w, scaling, scale, ill, rows = inverse_factor(gram, entry_scale, PANELS == 1)
        if PANELS == 1:
            wide = (y * scaling).to(tl.float64)  # computed anew: meanwhile the registers are free
        else:
            w *= scaling.to(tl.float64)
        result = tl.dot(w, wide, out_dtype=tl.float64).to(tl.float32)
        if ill > 0:
            result, rows = gram_schmidt(y, done, scale, N)
        kept += rows
        done = done + (result,)
    return done, kept


@triton.jit(do_not_specialize=["nnz", "above"])
def small_graphs_kernel(
    out,
    features,
    crow,
    col,
    value,
    ptr,
    keys,
    streams,
    dropped,
    num_trajectories,
    num_operators,
    row_operators,
    nnz,
    num_steps,
    normalize_every,
    k,
    above,
    N: tl.constexpr,
    PANELS: tl.constexpr,
    SLOTS: tl.constexpr,
    NORMALIZATION: tl.constexpr,
    DISTRIBUTION: tl.constexpr,
):
    """The trajectory of problem ``(graph * B + trajectory) * O + operator``.

    A tile is ``[16, N]``: channel, node, so that the nodes lie along the lanes of the warp and a neighbour's state is
    one shuffle away.

    Args:
        out: ``[n, B, row_operators, P + 1, k]``, from the first operator of this launch on.
        features: ``[n, B, k]`` float32; not read if ``DISTRIBUTION`` is not 0.
        crow, col: Rows and columns of the operators' common pattern.
        value: ``[O, nnz]`` float32.
        ptr: ``[num_graphs + 1]``.
        keys, streams: ``[num_graphs]`` and ``[B]`` int64, read if features are drawn.
        dropped: ``[1]`` int64, receives the number of dependent columns.
        above: Graphs of at most so many nodes, or of more than N, are left alone.
        PANELS: ``k / 16`` rounded up.
        SLOTS: Entries of each row kept in registers; the others are read at every step.
    """
    problem = tl.program_id(0).to(tl.int64)
    o = problem % num_operators
    b = problem // num_operators % num_trajectories
    graph = problem // num_operators // num_trajectories
    begin = tl.load(ptr + graph).to(tl.int64)
    size = (tl.load(ptr + graph + 1) - begin).to(tl.int32)
    if (size <= above) | (size > N):
        return
    local = tl.arange(0, N)
    real = local < size
    start = tl.load(crow + begin + local, mask=real, other=0)
    stop = tl.load(crow + begin + local + 1, mask=real, other=0)
    longest = tl.max(stop - start, axis=0)
    value += o * nnz
    slots = ()
    for slot in tl.static_range(SLOTS):
        filled = start + slot < stop
        neighbour = tl.load(col + start + slot, mask=filled, other=0) - begin
        slots = slots + (
            tl.where(filled, neighbour, 0).to(tl.int32),
            tl.load(value + start + slot, mask=filled, other=0.0),
        )

    channel = tl.arange(0, 16)[:, None]
    row = (begin + local) * num_trajectories + b
    target = out + ((row * row_operators + o) * ((num_steps + 1) * k))[None, :] + channel
    panels = ()
    for c in tl.static_range(PANELS):
        mask = real[None, :] & (c * 16 + channel < k)
        if DISTRIBUTION == 0:
            a = tl.load(features + (row * k)[None, :] + c * 16 + channel, mask=mask, other=0.0)
        else:
            pair = (c * 8 + tl.arange(0, 8)[:, None]).to(tl.int64)
            place = local[None, :].to(tl.int64)
            even, odd = draw_pairs(tl.load(streams + b), tl.load(keys + graph), place, pair, DISTRIBUTION)
            a = tl.reshape(tl.permute(tl.join(even, odd), 0, 2, 1), [16, N])
            a = tl.where(mask, a, 0.0)
        tl.store(target + c * 16, a, mask=mask)
        panels = panels + (a,)

    kept = tl.zeros([32], tl.int32)
    for p in range(1, num_steps + 1):
        sums = ()
        for c in tl.static_range(PANELS):
            y = tl.zeros([16, N], tl.float32)
            for slot in tl.static_range(SLOTS):
                index = tl.broadcast_to(slots[2 * slot][None, :], [16, N])
                y += tl.gather(panels[c], index, axis=1) * slots[2 * slot + 1][None, :]
            sums = sums + (y,)
        for late in range(SLOTS, longest):
            there = start + late < stop
            other = tl.load(col + start + late, mask=there, other=0) - begin
            weight = tl.load(value + start + late, mask=there, other=0.0)
            there_at = tl.broadcast_to(tl.where(there, other, 0).to(tl.int32)[None, :], [16, N])
            more = ()
            for c in tl.static_range(PANELS):
                more = more + (sums[c] + tl.gather(panels[c], there_at, axis=1) * weight[None, :],)
            sums = more
        panels = sums
        if NORMALIZATION == 1:
            if p % normalize_every == 0:
                scaled = ()
                for c in tl.static_range(PANELS):
                    wide = panels[c].to(tl.float64)
                    squared = tl.sum(wide * wide, axis=1)[:, None]
                    inverse = tl.where(squared > 0, 1.0 / tl.sqrt(tl.where(squared > 0, squared, 1.0)), 0.0)
                    scaled = scaled + ((wide * inverse).to(tl.float32),)
                panels = scaled
        if NORMALIZATION == 2:
            if p % normalize_every == 0:
                panels, kept = _orthonormalize(panels, kept, PANELS, N)
        for c in tl.static_range(PANELS):
            store = real[None, :] & (c * 16 + channel < k)
            tl.store(target + p * k + c * 16, panels[c], mask=store)

    if NORMALIZATION == 2:
        total = tl.sum(tl.where(tl.arange(0, 32) % 16 == 0, kept, 0), axis=0)
        missing = num_steps // normalize_every * k - total
        tl.atomic_add(dropped, missing.to(tl.int64), mask=missing > 0, sem="relaxed")
