# mypy: ignore-errors
"""Triton: the state of one graph as panels of 16 channels, ``[16, N]`` float32: lengths, rounding, normalisations.

A channel is a row of a panel, so that the nodes lie along the lanes of the warp. What is said of columns is said of
columns of the state, that is of channels.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.fused.triton_columns import inverse_root_guess
from rfp.backends.fused.triton_factor import gram_schmidt_in_memory, inverse_factor, magnitude


@triton.jit
def squared_lengths(panels, PANELS: tl.constexpr):
    """The squared column norms of each panel, ``[16]`` float64."""
    squares = ()
    for c in tl.static_range(PANELS):
        wide = panels[c].to(tl.float64)
        squares = squares + (tl.sum(wide * wide, axis=1),)
    return squares


@triton.jit
def grown_noise(noise, before, after, unit, PANELS: tl.constexpr):
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
def largest_of(values, PANELS: tl.constexpr):
    """The largest of numbers that are not negative, ``[16]`` float64 of each panel."""
    largest = tl.full([], 0.0, tl.float64)
    for c in tl.static_range(PANELS):
        largest = tl.maximum(largest, tl.max(values[c], axis=0))
    return largest


@triton.jit
def scaled_panels(values, scale, PANELS: tl.constexpr):
    """``scale`` times each panel's tensor."""
    scaled = ()
    for c in tl.static_range(PANELS):
        scaled = scaled + (values[c] * scale,)
    return scaled


@triton.jit
def squared_panels(values, PANELS: tl.constexpr):
    """The square of each panel's tensor."""
    squared = ()
    for c in tl.static_range(PANELS):
        squared = squared + (values[c] * values[c],)
    return squared


@triton.jit
def of_length_one(panels, squares, noise_squared, PANELS: tl.constexpr):
    """The panels with columns of length 1, or zero where a column may be rounding; and how many are not zero.

    Args:
        squares: Squared column norms, ``[16]`` float64 of each panel.
        noise_squared: What rounding may have added to a column, squared, likewise.
    """
    scaled = ()
    kept = 0
    for c in tl.static_range(PANELS):
        live = squares[c] > noise_squared[c]
        square = tl.where(live, squares[c], 1.0)
        inverse = inverse_root_guess(square)
        # One step of third order takes the guess to the last bit; an infinite column keeps its zero.
        error = tl.where(square < float("inf"), 1.0 - square * inverse * inverse, 0.0)
        inverse = tl.where(live, inverse + inverse * (error * (0.5 + 0.375 * error)), 0.0)
        scaled = scaled + ((panels[c].to(tl.float64) * inverse[:, None]).to(tl.float32),)
        kept += tl.sum(live.to(tl.int32), axis=0)
    return scaled, kept


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
def orthonormal_in_memory(panels, rows, real, k, noise_squared, WIDTH: tl.constexpr, PANELS: tl.constexpr):
    """QR of a state that is stored: the new panels, and how many columns are kept.

    Args:
        panels: The state.
        rows: ``[N]`` pointers to it, a node each.
        real: ``[N]`` mask of the nodes.
        noise_squared: What rounding may have added to a column, squared (:mod:`rfp.rounding`).
        WIDTH: At least k.
    """
    N: tl.constexpr = real.shape[0]
    channel = tl.arange(0, 16)[:, None]
    scale = 0
    for c in tl.static_range(PANELS):
        wide = panels[c].to(tl.float64)
        scale = tl.maximum(scale, tl.max(magnitude(tl.sum(wide * wide, axis=1)), axis=0))
    columns = _orthonormalize(rows, real, k, scale, noise_squared, WIDTH, N)
    stored = ()
    for c in tl.static_range(PANELS):
        there = real[None, :] & (c * 16 + channel < k)
        stored = stored + (tl.load(rows[None, :] + channel + c * 16, mask=there, other=0.0),)
    return stored, columns


@triton.jit
def orthonormal_by_gram_schmidt(product, rows, real, k, scale, noise_squared, WIDTH: tl.constexpr):
    """QR of one panel that is too ill-conditioned for a Gram matrix, by way of memory; and how many columns are kept.

    Args:
        product: ``[16, N]``, what is to be orthonormalised.
        rows: ``[N]`` pointers to where it goes, a node each.
        real: ``[N]`` mask of the nodes.
        scale: Upper word of the largest squared column norm.
        noise_squared: What rounding may have added to a column, squared.
        WIDTH: At least k.
    """
    N: tl.constexpr = real.shape[0]
    channel = tl.arange(0, 16)[:, None]
    target = rows[None, :] + channel
    mask = real[None, :] & (channel < k)
    tl.store(target, product, mask=mask)
    tl.debug_barrier()
    z_squared = tl.zeros([WIDTH], tl.float64)
    columns, z_squared = gram_schmidt_in_memory(rows, real, 0, k, scale, noise_squared, z_squared, WIDTH)
    # Moves nothing, but keeps the layout of memory out of the fast path.
    straight = tl.broadcast_to(tl.arange(0, N)[None, :], [16, N])
    return tl.gather(tl.load(target, mask=mask, other=0.0), straight, axis=1), columns
