# mypy: ignore-errors
"""Triton: whole trajectories of small graphs, one warp for a few of them, nothing but the result leaving the chip.

QR mixes the channels of a state, so a program holds all of them. Otherwise each goes its own way, and a program holds
one panel of 16: four times as many of them for k = 64, none of which runs out of registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.fused.triton_columns import folded, orthonormalize_columns, unfolded
from rfp.backends.fused.triton_panels import (
    grown_noise,
    largest_of,
    of_length_one,
    orthonormal_by_gram_schmidt,
    orthonormal_in_memory,
    scaled_panels,
    squared_lengths,
    squared_panels,
)
from rfp.rounding import FLOAT32_UNIT
from rfp.triton_features import draw_pairs
from rfp.triton_hashing import GOLDEN_WORD, mixed_word

_UNIT = tl.constexpr(FLOAT32_UNIT)


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
def _product(panels, matrix, PANELS: tl.constexpr, SLOTS: tl.constexpr, N: tl.constexpr):
    """``S a``: the node itself, the entries kept in registers, then those that are not."""
    rows, begin, col, value = matrix
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


@triton.jit
def _places(out, begin, size, b, o, num_trajectories, row_operators, row_length, k, N: tl.constexpr):
    """Where the states of a graph lie.

    Returns:
        ``[N]`` pointers to the first state of each node, and which nodes there are; pointers to the numbers of that
        state as :func:`rfp.backends.fused.triton_columns.folded` lays it out, and which of these there are.
    """
    local = tl.arange(0, N)
    base = out + (((begin + local) * num_trajectories + b) * row_operators + o) * row_length
    place = tl.arange(0, N // 4)[:, None, None]
    lane = tl.arange(0, 32)[None, :, None]
    node = place // 2 * 8 + lane // 4
    channel = place % 2 * 8 + lane % 4 * 2 + tl.arange(0, 2)[None, None, :]
    row = ((begin + node) * num_trajectories + b) * row_operators + o
    return base, local < size, out + row * row_length + channel, (node < size) & (channel < k)


@triton.jit
def _drawn_panel(key, root, b, c, DISTRIBUTION: tl.constexpr, RAW_KEYS: tl.constexpr, N: tl.constexpr):
    """Channels 16 c to 16 c + 15 of random features, ``[16, N]``."""
    pair = (c * 8 + tl.arange(0, 8)[:, None]).to(tl.int64)
    place = tl.arange(0, N)[None, :].to(tl.int64)
    if RAW_KEYS:
        key = mixed_word(key + GOLDEN_WORD)
    even, odd = draw_pairs(mixed_word(root + (b + 1) * GOLDEN_WORD), key, place, pair, DISTRIBUTION)
    return tl.reshape(tl.permute(tl.join(even, odd), 0, 2, 1), [16, N])


@triton.jit
def _first_state(
    features, key, root, b, first, places, k, PANELS: tl.constexpr, DISTRIBUTION: tl.constexpr, RAW_KEYS: tl.constexpr
):
    """The features, drawn or read, as panels from number ``first`` on; stored as the first state.

    Args:
        features: ``[N]`` pointers to those of each node, read if ``DISTRIBUTION`` is 0.
        key: A pointer to the graph's key, read otherwise.
        places: What :func:`_places` returns.
    """
    base, real, _, _ = places
    N: tl.constexpr = real.shape[0]
    channel = tl.arange(0, 16)[:, None]
    panels = ()
    for c in tl.static_range(PANELS):
        own = (first + c) * 16 + channel
        store = real[None, :] & (own < k)
        if DISTRIBUTION == 0:
            a = tl.load(features[None, :] + own, mask=store, other=0.0)
        else:
            a = tl.where(store, _drawn_panel(tl.load(key), root, b, first + c, DISTRIBUTION, RAW_KEYS, N), 0.0)
        tl.store(base[None, :] + own, a, mask=store)
        panels = panels + (a,)
    return panels


@triton.jit
def _qr_by_lanes(panel, matrix, places, noise_squared, p, normalize_every, k, SLOTS: tl.constexpr, N: tl.constexpr):
    """A state of one panel after step p, orthonormal where that is due, and stored; and how many columns are kept.

    Args:
        panel: ``[16, N]``, the product.
        matrix: What :func:`_product` takes.
        places: What :func:`_places` returns.
        noise_squared: What rounding may have added to a column, squared (:mod:`rfp.rounding`).
    """
    base, real, target, mask = places
    scale = 0
    ill = 0
    columns = tl.zeros([32], tl.int32)
    tile = folded(panel, N)
    if p % normalize_every == 0:
        tile, columns, scale, ill = orthonormalize_columns(panel, noise_squared, N)
        panel = unfolded(tile, N)
    # Stored before it is looked at, or the compiler would put the work off until it is known to be wanted.
    tl.store(target + p * k, tile, mask=mask)
    if ill > 0:
        # From the state before, which takes fewer registers than to keep the product meanwhile.
        tl.debug_barrier()
        channel = tl.arange(0, 16)[:, None]
        there = real[None, :] & (channel < k)
        state = tl.load(base[None, :] + channel + (p - 1) * k, mask=there, other=0.0)
        again = _product((state,), matrix, 1, SLOTS, N)
        panel, kept = orthonormal_by_gram_schmidt(again[0], base + p * k, real, k, scale, noise_squared, 16)
        columns = tl.zeros([32], tl.int32) + kept
    return panel, columns


@triton.jit
def _steps(
    panels,
    matrix,
    places,
    unit,
    num_steps,
    normalize_every,
    first,
    k,
    PANELS: tl.constexpr,
    SLOTS: tl.constexpr,
    NORMALIZATION: tl.constexpr,
    SELDOM: tl.constexpr,
    NARROW: tl.constexpr,
    N: tl.constexpr,
):
    """All steps from the first state, each stored; how many columns were kept, ``[32]``, the same in every lane.

    Args:
        panels: The first state, from panel ``first`` on.
        matrix: What :func:`_product` takes.
        places: What :func:`_places` returns.
        unit: What rounding adds to a product, relative to its factor; 0 without a normalisation.
        NARROW: Whether the lanes of the warp are taken for QR (:func:`_qr_by_lanes`).
    """
    base, real, _, _ = places
    channel = first * 16 + tl.arange(0, 16)[:, None]
    target = base[None, :] + channel
    kept = tl.zeros([32], tl.int32)
    WIDTH: tl.constexpr = 16 if PANELS == 1 else 32 if PANELS == 2 else 64
    zeros, ones = (), ()
    for _panel in tl.static_range(PANELS):
        zeros = zeros + (tl.zeros([16], tl.float64),)
        ones = ones + (tl.full([16], 1.0, tl.float64),)
    # Of all columns together where they are of length 1 before a product, else of each: rounding and squared lengths.
    noise_squared = tl.full([], 0.0, tl.float64)
    noise = zeros
    lengths = zeros
    if (NORMALIZATION == 2) | ((NORMALIZATION == 1) & SELDOM):
        lengths = squared_lengths(panels, PANELS)
        noise_squared = unit * unit * largest_of(lengths, PANELS)
    for p in range(1, num_steps + 1):
        before = ones
        if (NORMALIZATION == 1) & (not SELDOM):
            if p == 1:  # later they are of length 1; kept meanwhile, their lengths would fill the registers
                before = squared_lengths(panels, PANELS)
        panels = _product(panels, matrix, PANELS, SLOTS, N)
        if (NORMALIZATION == 1) & (not SELDOM):
            limits = scaled_panels(before, unit * unit, PANELS)
            panels, columns = of_length_one(panels, squared_lengths(panels, PANELS), limits, PANELS)
            kept += columns
        if (NORMALIZATION != 0) & SELDOM:
            after = squared_lengths(panels, PANELS)
            noise = grown_noise(noise, lengths, after, unit, PANELS)
            lengths = after
            if p % normalize_every == 0:
                if NORMALIZATION == 1:
                    panels, columns = of_length_one(panels, lengths, squared_panels(noise, PANELS), PANELS)
                    kept += columns
                else:
                    loudest = largest_of(noise, PANELS)
                    noise_squared = loudest * loudest
                noise = zeros
                lengths = ones
        if NARROW:
            panel, columns = _qr_by_lanes(panels[0], matrix, places, noise_squared, p, normalize_every, k, SLOTS, N)
            panels = (panel,)
            kept += columns
        else:
            for c in tl.static_range(PANELS):
                tl.store(target + p * k + c * 16, panels[c], mask=real[None, :] & (c * 16 + channel < k))
            if NORMALIZATION == 2:
                if p % normalize_every == 0:
                    panels, columns = orthonormal_in_memory(panels, base + p * k, real, k, noise_squared, WIDTH, PANELS)
                    kept += columns
        if not SELDOM:
            noise_squared = unit * unit
    return kept


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
    norms,
    dropped,
    root,
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
    """The trajectory of problem ``(graph * B + trajectory) * O + operator``; without QR, one panel of its channels.

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
        norms: ``[num_graphs, O]`` float64 (:func:`rfp.operator_norms.rounding_norm`): times a unit, what rounding adds
            to a product, relative to its factor; not read without a normalisation.
        dropped: ``[num_graphs, B, row_operators]`` int64, from the first operator of this launch on; receives the
            number of dependent columns, under l2 that of zero columns, and nothing without a normalisation. Where
            programs share a problem it holds zeros, to which each adds its own.
        root: Hash of the seed, if features are drawn.
        above: Graphs of at most so many nodes, or of more than N, are left alone.
        PANELS: ``k / 16`` rounded up for QR; 1 otherwise, and the grid's second number is that.
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
    value += o * nnz
    matrix = (_rows_of(begin, size, crow, col, value, SLOTS, N), begin, col, value)
    places = _places(out, begin, size, b, o, num_trajectories, row_operators, (num_steps + 1) * k, k, N)
    own = features + ((begin + tl.arange(0, N)) * num_trajectories + b) * k
    first = 0 if NORMALIZATION == 2 else tl.program_id(1)
    panels = _first_state(own, keys + graph, root, b, first, places, k, PANELS, DISTRIBUTION, RAW_KEYS)
    unit = tl.full([], 0.0, tl.float64)
    if NORMALIZATION != 0:
        unit += tl.load(norms + graph * num_operators + o) * _UNIT
    NARROW: tl.constexpr = LANES & (PANELS == 1) & (N <= 64) & (NORMALIZATION == 2)
    kept = _steps(
        panels,
        matrix,
        places,
        unit,
        num_steps,
        normalize_every,
        first,
        k,
        PANELS,
        SLOTS,
        NORMALIZATION,
        SELDOM,
        NARROW,
        N,
    )
    if NORMALIZATION != 0:
        channels = k if NORMALIZATION == 2 else tl.minimum(k - first * 16, 16)
        missing = tl.maximum(num_steps // normalize_every * channels - tl.max(kept, axis=0), 0).to(tl.int64)
        dropped += (graph * num_trajectories + b) * row_operators + o
        shared = k > 16 if NORMALIZATION == 1 else False
        if shared:
            tl.atomic_add(dropped, missing)
        else:
            tl.store(dropped, missing)
