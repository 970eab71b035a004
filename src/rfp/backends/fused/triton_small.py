# mypy: ignore-errors
"""Triton: whole trajectories of small graphs, one warp for a few of them, nothing but the result leaving the chip."""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.fused.triton_columns import folded, orthonormalize_columns, unfolded
from rfp.backends.fused.triton_factor import gram_schmidt_in_memory, inverse_factor, magnitude
from rfp.triton_features import draw_pairs
from rfp.triton_hashing import GOLDEN_WORD, mixed_word


@triton.jit
def _orthonormalize(rows, real, k, scale, noise_squared, WIDTH: tl.constexpr, N: tl.constexpr):
    """QR of the channels in memory, panel by panel of 16: freed of the panels before, multiplied by the inverse factor.

    One pass of Cholesky QR in float64 serves but for ill-conditioned columns, which are rare and taken one by one. The
    panels pass through memory, that is the cache, so that one copy of this code serves all of them: unrolled it takes
    minutes to compile.

    Args:
        rows: ``[N]`` pointers to the state of each node.
        real: ``[N]`` mask of the nodes.
        scale: Upper word of the largest squared column norm.
        noise_squared: What rounding may have added to a channel, squared (:mod:`rfp.rounding`).
        WIDTH: At least k.

    Returns:
        The number of kept columns.
    """
    channel = tl.arange(0, 16)[:, None]
    number = tl.arange(0, WIDTH)
    z_squared = tl.zeros([WIDTH], tl.float64)
    kept = 0
    for first in range(0, k, 16):
        tl.debug_barrier()  # what other threads have stored is read
        target = rows[None, :] + first + channel
        mask = real[None, :] & (first + channel < k)
        wide = tl.load(target, mask=mask, other=0.0).to(tl.float64)
        alpha_squared = tl.full([16], 1.0, tl.float64)
        for turn in range(2):  # twice: a column may lie almost in the span of the panels before
            for before in range(0, first, 16):
                q = tl.load(rows[None, :] + before + channel, mask=real[None, :], other=0.0).to(tl.float64)
                along = tl.dot(wide, tl.trans(q), out_dtype=tl.float64)
                wide -= tl.dot(along, q, out_dtype=tl.float64)
                if turn == 0:  # what the second turn finds is rounding
                    z_before = tl.gather(z_squared, before + tl.arange(0, 16), axis=0)
                    alpha_squared += tl.sum(along * along * z_before[None, :], axis=1)
        gram = tl.dot(wide, tl.trans(wide), out_dtype=tl.float64)
        w, scaling, ill, columns, z_own = inverse_factor(gram, scale, noise_squared, alpha_squared)
        if ill > 0:
            last = tl.minimum(k, first + 16)
            columns, z_squared = gram_schmidt_in_memory(rows, real, first, last, scale, noise_squared, z_squared, WIDTH)
        else:
            z_squared = tl.where(number // 16 == first // 16, tl.gather(z_own, number % 16, axis=0), z_squared)
            q = tl.dot(w * scaling.to(tl.float64), wide, out_dtype=tl.float64).to(tl.float32)
            tl.debug_barrier()
            tl.store(target, q, mask=mask)
        kept += columns
    tl.debug_barrier()
    return kept


@triton.jit
def _squares(panels, PANELS: tl.constexpr):
    """The squared column norms of each panel, ``[16]`` float64."""
    squares = ()
    for c in tl.static_range(PANELS):
        wide = panels[c].to(tl.float64)
        squares = squares + (tl.sum(wide * wide, axis=1),)
    return squares


@triton.jit
def _grown_noise(noise, before, after, unit, PANELS: tl.constexpr):
    """What rounding may have added to each column, once more after a product (:mod:`rfp.rounding`).

    Args:
        noise: Before the product, ``[16]`` float64 of each panel.
        before, after: Squared column norms before and after it, likewise.
        unit: What rounding adds to the product of a vector of length 1.
    """
    grown = ()
    for c in tl.static_range(PANELS):
        there = before[c] > 0
        length = tl.sqrt(tl.where(there, before[c], 1.0))
        growth = tl.sqrt(after[c]) / length
        grown = grown + (tl.where(there, noise[c] * growth + unit * length, 0.0),)
    return grown


@triton.jit
def _rows_of(begin, size, crow, col, value, SLOTS: tl.constexpr, N: tl.constexpr):
    """The rows of a graph, as :func:`_product` reads them.

    Returns:
        Where the entries begin that are not kept in registers, where the row ends, and the largest number of such
        entries, ``[N]``, ``[N]`` and a scalar; the weight on the diagonal ``[N]``, where it is among the first entries;
        places and weights of SLOTS others.
    """
    local = tl.arange(0, N)
    real = local < size
    start = tl.load(crow + begin + local, mask=real, other=0)
    stop = tl.load(crow + begin + local + 1, mask=real, other=0)
    places = ()
    weights = ()
    for e in tl.static_range(SLOTS + 1):
        filled = start + e < stop
        place = tl.load(col + start + e, mask=filled, other=0) - begin
        places = places + (tl.where(filled, place, 0).to(tl.int32),)
        weights = weights + (tl.load(value + start + e, mask=filled, other=0.0),)
    own = tl.zeros([N], tl.float32)
    passed = local < 0
    slots = ()
    for e in tl.static_range(SLOTS + 1):
        here = (places[e] == local) & (start + e < stop) & ~passed
        own = tl.where(here, weights[e], own)
        passed |= here
        if e < SLOTS:
            place = tl.where(passed, places[e + 1], places[e])
            slots = slots + (place, tl.where(passed, weights[e + 1], weights[e]))
    start += SLOTS + passed.to(tl.int32)
    return start, stop, tl.max(stop - start, axis=0), own, slots


@triton.jit
def _product(panels, rows, begin, col, value, PANELS: tl.constexpr, SLOTS: tl.constexpr, N: tl.constexpr):
    """``S a``: the node itself, the entries kept in registers, then those that are not."""
    start, stop, longest, own, slots = rows
    sums = ()
    for c in tl.static_range(PANELS):
        y = panels[c] * own[None, :]
        for slot in tl.static_range(SLOTS - 1):
            index = tl.broadcast_to(slots[2 * slot][None, :], [16, N])
            y += tl.gather(panels[c], index, axis=1) * slots[2 * slot + 1][None, :]
        if longest >= 0:  # some row fills its last slot
            index = tl.broadcast_to(slots[2 * SLOTS - 2][None, :], [16, N])
            y += tl.gather(panels[c], index, axis=1) * slots[2 * SLOTS - 1][None, :]
        sums = sums + (y,)
    for late in range(longest):
        there = start + late < stop
        place = tl.load(col + start + late, mask=there, other=0) - begin
        weight = tl.load(value + start + late, mask=there, other=0.0)
        index = tl.broadcast_to(tl.where(there, place, 0).to(tl.int32)[None, :], [16, N])
        more = ()
        for c in tl.static_range(PANELS):
            more = more + (sums[c] + tl.gather(panels[c], index, axis=1) * weight[None, :],)
        sums = more
    return sums


# Compiled anew for other values of what is specialised: only what the code gains by.
@triton.jit(do_not_specialize=["nnz", "above", "root", "num_steps", "num_operators", "row_operators"])
def small_graphs_kernel(
    out,
    features,
    crow,
    col,
    value,
    ptr,
    keys,
    root,
    units,
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
    SELDOM: tl.constexpr,
    DISTRIBUTION: tl.constexpr,
    RAW_KEYS: tl.constexpr,
    LANES: tl.constexpr,
):
    """The trajectory of problem ``(graph * B + trajectory) * O + operator``.

    A tile is ``[16, N]``: channel, node, so that the nodes lie along the lanes of the warp and a neighbour's state is
    one shuffle away.

    Args:
        out: ``[n, B, row_operators, P + 1, k]``, from the first operator of this launch on; float32 for QR.
        features: ``[n, B, k]`` float32; not read if ``DISTRIBUTION`` is not 0.
        crow, col: Rows and columns of the operators' common pattern.
        value: ``[O, nnz]`` float32.
        ptr: ``[num_graphs + 1]``.
        keys: ``[num_graphs]`` int64, read if features are drawn: keys of the graphs, or with ``RAW_KEYS`` the integers
            of which :func:`rfp.features.random_features` makes them.
        root: Hash of the seed, if features are drawn.
        units: ``[num_graphs, O]`` float64, what rounding adds to a product, relative to its factor
            (:func:`rfp.backends.problem.rounding_units`); not read without a normalisation.
        dropped: ``[1]`` int64, receives the number of dependent columns, under l2 that of zero columns.
        above: Graphs of at most so many nodes, or of more than N, are left alone.
        PANELS: ``k / 16`` rounded up.
        SLOTS: Entries of each row kept in registers; the others are read at every step.
        SELDOM: Whether ``normalize_every`` is not 1. If it is, all columns are of length 1 (or zero) before a product,
            and what rounding adds to each is known without looking at them.
        LANES: Whether small states may go through :mod:`rfp.backends.fused.triton_columns`
            (:mod:`rfp.backends.fused.lane_layouts`).
    """
    problem = tl.program_id(0).to(tl.int64)
    o = problem % num_operators
    b = problem // num_operators % num_trajectories
    graph = problem // num_operators // num_trajectories
    begin = tl.load(ptr + graph).to(tl.int64)
    size = (tl.load(ptr + graph + 1) - begin).to(tl.int32)
    if (size <= above) | (size > N):
        return
    NARROW: tl.constexpr = LANES & (PANELS == 1) & (N <= 64) & (NORMALIZATION == 2)
    local = tl.arange(0, N)
    real = local < size
    value += o * nnz
    rows = _rows_of(begin, size, crow, col, value, SLOTS, N)

    channel = tl.arange(0, 16)[:, None]
    row = (begin + local) * num_trajectories + b
    base = out + (row * row_operators + o) * ((num_steps + 1) * k)
    target = base[None, :] + channel
    mask = real[None, :] & (channel < k)
    panels = ()
    for c in tl.static_range(PANELS):
        store = real[None, :] & (c * 16 + channel < k)
        if DISTRIBUTION == 0:
            a = tl.load(features + (row * k)[None, :] + c * 16 + channel, mask=store, other=0.0)
        else:
            pair = (c * 8 + tl.arange(0, 8)[:, None]).to(tl.int64)
            place = local[None, :].to(tl.int64)
            key = tl.load(keys + graph)
            if RAW_KEYS:
                key = mixed_word(key + GOLDEN_WORD)
            even, odd = draw_pairs(mixed_word(root + (b + 1) * GOLDEN_WORD), key, place, pair, DISTRIBUTION)
            a = tl.reshape(tl.permute(tl.join(even, odd), 0, 2, 1), [16, N])
            a = tl.where(store, a, 0.0)
        tl.store(target + c * 16, a, mask=store)
        panels = panels + (a,)

    if NARROW:
        place = tl.arange(0, N // 4)[:, None, None]
        lane = tl.arange(0, 32)[None, :, None]
        node = place // 2 * 8 + lane // 4
        folded_channel = place % 2 * 8 + lane % 4 * 2 + tl.arange(0, 2)[None, None, :]
        folded_row = ((begin + node) * num_trajectories + b) * row_operators + o
        folded_target = out + folded_row * ((num_steps + 1) * k) + folded_channel
        folded_mask = (node < size) & (folded_channel < k)
    kept = tl.zeros([32], tl.int32)
    WIDTH: tl.constexpr = 16 if PANELS == 1 else 32 if PANELS == 2 else 64
    zeros, ones = (), ()
    for _panel in tl.static_range(PANELS):
        zeros = zeros + (tl.zeros([16], tl.float64),)
        ones = ones + (tl.full([16], 1.0, tl.float64),)
    # Of all columns together where they are of length 1 before a product, else of each: rounding and squared lengths.
    unit = tl.full([], 0.0, tl.float64)
    noise_squared = unit
    noise = zeros
    lengths = zeros
    if NORMALIZATION != 0:
        unit += tl.load(units + graph * num_operators + o)
        lengths = _squares(panels, PANELS)
        longest = tl.full([], 0.0, tl.float64)
        for c in tl.static_range(PANELS):
            longest = tl.maximum(longest, tl.max(lengths[c], axis=0))
        noise_squared = unit * unit * longest
    for p in range(1, num_steps + 1):
        panels = _product(panels, rows, begin, col, value, PANELS, SLOTS, N)
        if (NORMALIZATION == 1) | ((NORMALIZATION == 2) & SELDOM):
            after = _squares(panels, PANELS)
            noise = _grown_noise(noise, lengths, after, unit, PANELS)
            lengths = after
        if (NORMALIZATION == 2) & SELDOM:
            if p % normalize_every == 0:
                loudest = tl.full([], 0.0, tl.float64)
                for c in tl.static_range(PANELS):
                    loudest = tl.maximum(loudest, tl.max(noise[c], axis=0))
                noise_squared = loudest * loudest
                noise = zeros
                lengths = ones
        if NORMALIZATION == 1:
            if p % normalize_every == 0:
                scaled = ()
                for c in tl.static_range(PANELS):
                    live = lengths[c] > noise[c] * noise[c]
                    inverse = tl.where(live, 1.0 / tl.sqrt(tl.where(live, lengths[c], 1.0)), 0.0)
                    scaled = scaled + ((panels[c].to(tl.float64) * inverse[:, None]).to(tl.float32),)
                    kept += tl.sum(live.to(tl.int32), axis=0)
                panels = scaled
                noise = zeros
                lengths = ones
        if NARROW:
            scale = 0
            ill = 0
            columns = tl.zeros([32], tl.int32)
            tile = folded(panels[0], N)
            if p % normalize_every == 0:
                tile, columns, scale, ill = orthonormalize_columns(panels[0], noise_squared, N)
                kept += columns
                panels = (unfolded(tile, N),)
            # Stored before it is looked at, or the compiler would put the work off until it is known to be wanted.
            tl.store(folded_target + p * k, tile, mask=folded_mask)
            if ill > 0:
                # From the state before, which takes fewer registers than to keep the product meanwhile.
                tl.debug_barrier()
                state = tl.load(target + (p - 1) * k, mask=mask, other=0.0)
                again = _product((state,), rows, begin, col, value, PANELS, SLOTS, N)
                tl.store(target + p * k, again[0], mask=mask)
                tl.debug_barrier()
                first_z = tl.zeros([WIDTH], tl.float64)
                again_kept, first_z = gram_schmidt_in_memory(
                    base + p * k, real, 0, k, scale, noise_squared, first_z, WIDTH
                )
                kept += again_kept - columns
                # Moves nothing, but keeps the layout of memory out of the fast path.
                straight = tl.broadcast_to(local[None, :], [16, N])
                panels = (tl.gather(tl.load(target + p * k, mask=mask, other=0.0), straight, axis=1),)
        else:
            for c in tl.static_range(PANELS):
                tl.store(target + p * k + c * 16, panels[c], mask=real[None, :] & (c * 16 + channel < k))
            if NORMALIZATION == 2:
                if p % normalize_every == 0:
                    scale = 0
                    for c in tl.static_range(PANELS):
                        wide = panels[c].to(tl.float64)
                        scale = tl.maximum(scale, tl.max(magnitude(tl.sum(wide * wide, axis=1)), axis=0))
                    kept += _orthonormalize(base + p * k, real, k, scale, noise_squared, WIDTH, N)
                    stored = ()
                    for c in tl.static_range(PANELS):
                        there = real[None, :] & (c * 16 + channel < k)
                        stored = stored + (tl.load(target + p * k + c * 16, mask=there, other=0.0),)
                    panels = stored
        if not SELDOM:
            noise_squared = unit * unit

    if NORMALIZATION != 0:
        missing = num_steps // normalize_every * k - tl.max(kept, axis=0)
        tl.atomic_add(dropped, missing.to(tl.int64), mask=missing > 0, sem="relaxed")
