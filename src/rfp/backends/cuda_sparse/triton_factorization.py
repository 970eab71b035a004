# mypy: ignore-errors
r"""Triton: what follows from the Gram matrix of a state, :math:`W = R^{-1}` and how far it is to be trusted.

The work of one program for each trajectory, at the end of a kernel of :mod:`rfp.backends.cuda_sparse.triton_large`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.fused.triton_factor import inverse_factor, magnitude

# What the factorisation leaves behind for each trajectory. Over all steps: whether a result is not to be trusted, the
# number of dependent (or zero) columns, whether a state was not finite. Of the last step: whether its columns may be
# multiplied by W in split float32, whether the next Gram matrix may be summed in it. At last how many programs have
# added up their part of the Gram matrix, 0 between two kernels.
REPORTED_WORDS = 3
STATUS_WORDS = 6
STATUS_LENGTH = tl.constexpr(STATUS_WORDS)
SPLIT_PRODUCT = tl.constexpr(3)
SPLIT_SUM = tl.constexpr(4)
ARRIVED = tl.constexpr(5)
_KEPT_LIMIT = tl.constexpr(1e9)
# The sum of G_ii W_ij^2 over i and j is 1 for each of a set of orthogonal columns, and bounds by what rounding errors
# of G are multiplied. Of each column on average, at most so much: to sum the next Gram matrix in split float32, and to
# accept what came of it.
_ORTHOGONAL = tl.constexpr(2.0)
_ACCEPTED = tl.constexpr(8.0)
# Squared column norms with which float32 sums of squares neither overflow nor lose small terms.
_SMALLEST_SQUARE = tl.constexpr(1e-20)
_LARGEST_SQUARE = tl.constexpr(1e20)


@triton.jit
def use_gram(gram, weight, status, rounding, unit, k, K: tl.constexpr, L2: tl.constexpr, NORMALIZE: tl.constexpr):
    """What follows from the Gram matrix of a trajectory."""
    if NORMALIZE:
        _factorize(gram, weight, status, rounding, unit, k, K, L2)
    else:
        _note_lengths(gram, rounding, unit, K)


@triton.jit
def _noise(squares, rounding, unit, K: tl.constexpr):
    """What rounding may have added to the columns of a product with these squared norms, ``[K]``."""
    channel = tl.arange(0, K)
    before = tl.load(rounding + channel)
    there = before > 0
    growth = tl.sqrt(squares) / tl.where(there, before, 1.0)
    return tl.where(there, tl.load(rounding + K + channel) * growth + tl.load(unit) * before, 0.0)


@triton.jit
def _note_lengths(gram, rounding, unit, K: tl.constexpr):
    """Bring ``rounding`` up to date after a product that is not normalised; see :func:`_factorize`."""
    channel = tl.arange(0, K)
    squares = tl.load(gram + channel * (K + 1))
    noise = _noise(squares, rounding, unit, K)
    tl.debug_barrier()
    tl.store(rounding + channel, tl.sqrt(squares))
    tl.store(rounding + K + channel, noise)


@triton.jit
def _factorize(gram, weight, status, rounding, unit, k, K: tl.constexpr, L2: tl.constexpr):
    r"""``weight`` W with :math:`q = y W`, by panels of 16 columns, of one trajectory.

    A panel's columns in the basis of y, :math:`V = E_c - W W^\top G E_c`, are freed of the columns before it; the
    inverse factor of :math:`V^\top G V` makes them orthonormal. For ``L2`` W only scales the columns to length 1.

    Args:
        rounding: ``[2, K]`` float64: the lengths of the columns before the product and what rounding may have added
            to them (:class:`rfp.rounding.Rounding`); brought up to date.
        unit: ``[1]`` float64, what rounding adds to the product of a vector of length 1.
    """
    channel = tl.arange(0, K)
    narrow = tl.arange(0, 16)
    square = channel[:, None] * K + channel[None, :]
    g = tl.load(gram + square)
    squares = tl.sum(tl.where(channel[:, None] == channel[None, :], g, 0.0), axis=0)
    scale = tl.max(magnitude(squares), axis=0)
    noise = _noise(squares, rounding, unit, K)
    tl.debug_barrier()
    tl.store(rounding + channel, tl.where(channel < k, 1.0, 0.0).to(tl.float64))
    tl.store(rounding + K + channel, tl.zeros([K], tl.float64))
    if L2:
        live = squares > noise * noise
        length = tl.where(live, 1.0 / tl.sqrt(tl.where(live, squares, 1.0)), 0.0)
        tl.store(status + 1, tl.load(status + 1) + (k - tl.sum(live.to(tl.int32), axis=0)))
        tl.store(weight + square, tl.where(channel[:, None] == channel[None, :], length[None, :], 0.0))
    else:
        tl.store(weight + square, tl.zeros([K, K], tl.float64))
        total = 0
        unsure = 0
        loudest = tl.max(noise, axis=0)
        z_squared = tl.zeros([K], tl.float64)
        norms = tl.zeros([16], tl.float64)
        amplified = tl.zeros([16], tl.float64)
        for c in range(0, K, 16):
            at = channel[:, None] * K + (c + narrow)[None, :]
            v = tl.where(channel[:, None] == (c + narrow)[None, :], 1.0, 0.0).to(tl.float64)
            alpha_squared = tl.full([16], 1.0, tl.float64)
            if c > 0:
                tl.debug_barrier()  # the columns stored by the panel before are read by all threads
                earlier = tl.load(weight + square)
                against = tl.dot(tl.trans(earlier), tl.load(gram + at), out_dtype=tl.float64)
                v -= tl.dot(earlier, against, out_dtype=tl.float64)
                alpha_squared += tl.sum(against * against * z_squared[:, None], axis=0)
            small = tl.dot(tl.trans(v), tl.dot(g, v, out_dtype=tl.float64), out_dtype=tl.float64)
            w, scaling, ill, kept, z_own = inverse_factor(small, scale, loudest * loudest, alpha_squared)
            z_squared = tl.where(channel // 16 == c // 16, tl.gather(z_own, channel % 16, axis=0), z_squared)
            columns = tl.dot(v, tl.trans(w * scaling.to(tl.float64)), out_dtype=tl.float64)
            tl.store(weight + at, columns)
            norms += tl.sum(columns * columns, axis=0)
            amplified += tl.sum(squares[:, None] * columns * columns, axis=0)
            # Large coefficients carry rounding of G into the pivots, which makes dropping a column a guess.
            large = tl.max(tl.max(v * v, axis=1), axis=0) > 16.0
            unsure |= ill | ((kept < tl.minimum(k - c, 16)) & large).to(tl.int32)
            total += kept
        ill_conditioned = tl.sum(norms, axis=0) * tl.sum(squares, axis=0) > _KEPT_LIMIT
        amplification = tl.sum(amplified, axis=0)
        split = tl.load(status + SPLIT_SUM) > 0
        wrong = ill_conditioned | (split & ((amplification > _ACCEPTED * k) | (total < k)))
        tl.store(status, tl.load(status) | unsure | wrong.to(tl.int32))
        tl.store(status + 1, tl.load(status + 1) + (k - total))
        alike = tl.min(tl.where(channel < k, squares, _LARGEST_SQUARE), axis=0) > _SMALLEST_SQUARE
        alike = alike & (tl.max(squares, axis=0) < _LARGEST_SQUARE) & (total == k) & (K == 64)
        tl.store(status + SPLIT_PRODUCT, (alike & (amplification <= _ACCEPTED * k)).to(tl.int32))
        tl.store(status + SPLIT_SUM, (alike & (amplification <= _ORTHOGONAL * k)).to(tl.int32))
    tl.store(status + 2, tl.load(status + 2) | (scale >= 0x7FF00000).to(tl.int32))
