# mypy: ignore-errors

"""Triton: whole trajectories of small graphs, one warp for a few of them, nothing but the result leaving the chip."""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.triton_factor import gram_schmidt, inverse_factors, upper_word
from rfp.backends.triton_hash import draw_pairs

# Numbers of the normalisations.
NORMALIZATION_CODES = {"none": 0, "l2": 1, "qr": 2}


@triton.jit
def _scale_of(panels, PANELS: tl.constexpr):
    """Upper word of the largest squared column norm."""
    scale = 0
    for c in tl.static_range(PANELS):
        wide = panels[c].to(tl.float64)
        scale = tl.maximum(scale, tl.max(upper_word(tl.sum(wide * wide, axis=1)), axis=0))
    return scale


@triton.jit
def _without(wide, before):
    """A panel without its part in the span of orthonormal panels; twice, for it may lie almost within."""
    for _ in tl.static_range(2):
        for d in tl.static_range(len(before)):
            q = before[d].to(tl.float64)
            wide -= tl.dot(tl.dot(wide, tl.trans(q), out_dtype=tl.float64), q, out_dtype=tl.float64)
    return wide


@triton.jit
def _multiplied(y, wide, before, factor, PANELS: tl.constexpr, N: tl.constexpr):
    """The orthonormal panel, by its inverse factor or, where that is not to be trusted, column by column."""
    w, scaling, scale, ill, kept = factor
    if PANELS == 1:
        wide = (y * scaling).to(tl.float64)  # computed anew: meanwhile the registers were free
    else:
        w *= scaling.to(tl.float64)
    result = tl.dot(w, wide, out_dtype=tl.float64).to(tl.float32)
    if ill > 0:
        result, kept = gram_schmidt(y, before, scale, N)
    return result, kept


@triton.jit
def _orthonormalize(states, kept, M: tl.constexpr, PANELS: tl.constexpr, N: tl.constexpr):
    """QR of the channels of M graphs, panel by panel of 16: one pass of Cholesky QR in float64.

    Two graphs share the warp in the factorisation, which is where the time goes; one alone is factorised twice.
    """
    scales = ()
    done = ()
    for m in tl.static_range(M):
        scales = scales + (_scale_of(states[m], PANELS) if PANELS > 1 else 0,)
        done = done + ((),)
    for c in tl.static_range(PANELS):
        wides = ()
        grams = ()
        for m in tl.static_range(M):
            wide = _without(states[m][c].to(tl.float64), done[m])
            wides = wides + (wide,)
            grams = grams + (tl.dot(wide, tl.trans(wide), out_dtype=tl.float64),)
        factors = inverse_factors(grams[0], grams[M - 1], scales[0], scales[M - 1], PANELS == 1)
        further = ()
        for m in tl.static_range(M):
            result, columns = _multiplied(states[m][c], wides[m], done[m], factors[m], PANELS, N)
            kept += columns
            further = further + (done[m] + (result,),)
        done = further
    return done, kept


@triton.jit
def _scaled_to_length_one(panels, PANELS: tl.constexpr):
    scaled = ()
    for c in tl.static_range(PANELS):
        wide = panels[c].to(tl.float64)
        squared = tl.sum(wide * wide, axis=1)[:, None]
        inverse = tl.where(squared > 0, 1.0 / tl.sqrt(tl.where(squared > 0, squared, 1.0)), 0.0)
        scaled = scaled + ((wide * inverse).to(tl.float32),)
    return scaled


@triton.jit
def _product(panels, rows, col, value, PANELS: tl.constexpr, SLOTS: tl.constexpr, N: tl.constexpr):
    """``S a``: the entries kept in registers, then those that are not."""
    begin, start, stop, longest, slots = rows
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
        place = tl.broadcast_to(tl.where(there, other, 0).to(tl.int32)[None, :], [16, N])
        more = ()
        for c in tl.static_range(PANELS):
            more = more + (sums[c] + tl.gather(panels[c], place, axis=1) * weight[None, :],)
        sums = more
    return sums


@triton.jit
def _rows(begin, size, crow, col, value, SLOTS: tl.constexpr, N: tl.constexpr):
    """The rows of a graph, as :func:`_product` reads them: their entries' places, and the first entries themselves."""
    local = tl.arange(0, N)
    real = local < size
    start = tl.load(crow + begin + local, mask=real, other=0)
    stop = tl.load(crow + begin + local + 1, mask=real, other=0)
    slots = ()
    for slot in tl.static_range(SLOTS):
        filled = start + slot < stop
        neighbour = tl.load(col + start + slot, mask=filled, other=0) - begin
        weight = tl.load(value + start + slot, mask=filled, other=0.0)
        slots = slots + (tl.where(filled, neighbour, 0).to(tl.int32), weight)
    return begin, start, stop, tl.max(stop - start, axis=0), slots


@triton.jit(do_not_specialize=["nnz", "above", "num_problems"])
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
    num_problems,
    num_trajectories,
    num_operators,
    row_operators,
    nnz,
    num_steps,
    normalize_every,
    k,
    above,
    M: tl.constexpr,
    N: tl.constexpr,
    PANELS: tl.constexpr,
    SLOTS: tl.constexpr,
    NORMALIZATION: tl.constexpr,
    DISTRIBUTION: tl.constexpr,
):
    """The trajectories of problem ``(graph * B + trajectory) * O + operator`` and of the M - 1 after it.

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
        M: 1 or 2, problems of a program.
        PANELS: ``k / 16`` rounded up.
        SLOTS: Entries of each row kept in registers; the others are read at every step.
    """
    local = tl.arange(0, N)
    channel = tl.arange(0, 16)[:, None]
    rows = ()
    values = ()
    sizes = ()
    targets = ()
    states = ()
    taken = 0
    for m in tl.static_range(M):
        problem = tl.program_id(0).to(tl.int64) * M + m
        live = problem < num_problems
        o = problem % num_operators
        b = problem // num_operators % num_trajectories
        graph = problem // num_operators // num_trajectories
        begin = tl.load(ptr + graph, mask=live, other=0).to(tl.int64)
        size = (tl.load(ptr + graph + 1, mask=live, other=0) - begin).to(tl.int32)
        size = tl.where((size > above) & (size <= N), size, 0)
        real = (local < size)[None, :]
        weights = value + o * nnz
        row = (begin + local) * num_trajectories + b
        target = out + ((row * row_operators + o) * ((num_steps + 1) * k))[None, :] + channel
        panels = ()
        for c in tl.static_range(PANELS):
            mask = real & (c * 16 + channel < k)
            if DISTRIBUTION == 0:
                a = tl.load(features + (row * k)[None, :] + c * 16 + channel, mask=mask, other=0.0)
            else:
                pair = (c * 8 + tl.arange(0, 8)[:, None]).to(tl.int64)
                key = tl.load(keys + graph, mask=live, other=0)
                stream = tl.load(streams + b, mask=live, other=0)
                even, odd = draw_pairs(stream, key, local[None, :].to(tl.int64), pair, DISTRIBUTION)
                a = tl.reshape(tl.permute(tl.join(even, odd), 0, 2, 1), [16, N])
                a = tl.where(mask, a, 0.0)
            tl.store(target + c * 16, a, mask=mask)
            panels = panels + (a,)
        rows = rows + (_rows(begin, size, crow, col, weights, SLOTS, N),)
        values = values + (weights,)
        sizes = sizes + (size,)
        targets = targets + (target,)
        states = states + (panels,)
        taken += tl.where(size > 0, 1, 0)
    if taken == 0:
        return

    kept = 0
    for p in range(1, num_steps + 1):
        products = ()
        for m in tl.static_range(M):
            products = products + (_product(states[m], rows[m], col, values[m], PANELS, SLOTS, N),)
        states = products
        if NORMALIZATION == 1:
            if p % normalize_every == 0:
                scaled = ()
                for m in tl.static_range(M):
                    scaled = scaled + (_scaled_to_length_one(states[m], PANELS),)
                states = scaled
        if NORMALIZATION == 2:
            if p % normalize_every == 0:
                states, kept = _orthonormalize(states, kept, M, PANELS, N)
        for m in tl.static_range(M):
            for c in tl.static_range(PANELS):
                store = (local < sizes[m])[None, :] & (c * 16 + channel < k)
                tl.store(targets[m] + p * k + c * 16, states[m][c], mask=store)

    if NORMALIZATION == 2:
        missing = num_steps // normalize_every * k * taken - kept
        tl.atomic_add(dropped, missing.to(tl.int64), mask=missing > 0, sem="relaxed")
