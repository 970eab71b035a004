# mypy: ignore-errors
"""Triton: Adam of all replicas of a parameter, and the copy of the weights to keep, in one pass over memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp.triton_launch import num_blocks, on_device

_BLOCK = 1024


@triton.jit(do_not_specialize=["slower"])
def replica_adam_kernel(
    p,  # [R, size] float32
    g,  # [R, size], the gradient
    m,  # [R, size], first moment
    v,  # [R, size], second moment
    kept,  # [R, size], written where `better`
    better,  # [R] int8, 0 or 1
    rate,  # [R], η over the correction of the first moment
    decay,  # [R], λ; η λ where decoupled
    root,  # one float64, the root of the correction of the second moment
    size,
    slower,  # what η is multiplied by for this parameter
    BETA_1: tl.constexpr,
    BETA_2: tl.constexpr,
    EPS: tl.constexpr,
    DECOUPLED: tl.constexpr,
    KEEP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Part of one replica: its old weights go to ``kept`` if they were the best so far, then they are updated.

    The rules are those of :meth:`rfp.train.optimizer.ReplicaAdam.step`, rounded as torch rounds them.
    """
    blocks = tl.cdiv(size, BLOCK)
    replica = tl.program_id(0) // blocks
    local = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    live = local < size
    place = replica.to(tl.int64) * size + local
    weight = tl.load(p + place, mask=live, other=0.0)
    gradient = tl.load(g + place, mask=live, other=0.0)
    if KEEP:
        wanted = tl.load(better + replica)
        if wanted != 0:
            tl.store(kept + place, weight, mask=live)
    lost = tl.load(decay + replica)
    if DECOUPLED:
        weight = weight * (1.0 - lost * slower)
    else:
        gradient = gradient + weight * lost
    first = tl.load(m + place, mask=live, other=0.0)
    first = first + (1.0 - BETA_1) * (gradient - first)
    second = tl.load(v + place, mask=live, other=0.0)
    second = second * BETA_2 + (1.0 - BETA_2) * gradient * gradient
    spread = tl.div_rn(tl.sqrt_rn(second), tl.load(root).to(tl.float32)) + EPS
    weight = weight - slower * tl.load(rate + replica) * tl.div_rn(first, spread)
    tl.store(p + place, weight, mask=live)
    tl.store(m + place, first, mask=live)
    tl.store(v + place, second, mask=live)


def launch_replica_adam(
    p: Tensor,
    moments: tuple[Tensor, Tensor],
    kept: tuple[Tensor, Tensor] | None,
    *,
    rate: Tensor,
    decay: Tensor,
    root: Tensor,
    slower: float,
    betas: tuple[float, float],
    eps: float,
    decoupled: bool,
) -> None:
    """One update of a parameter that has a gradient.

    Args:
        p: ``[R, ...]`` float32, contiguous, as are its gradient, its moments and what is kept.
        moments: First and second.
        kept: Where old weights are kept, and of which replicas, ``[R]`` bool; ``None`` to keep nothing.
        rate: Learning rate of the uncorrected first moment, ``[R]`` float32.
        decay: Weight decay, ``[R]`` float32, times the learning rate where it is ``decoupled``.
        root: Root of the correction of the second moment, a float64 scalar.
        slower: What learning rates are multiplied by.
        betas: β₁ and β₂.
        eps: ε.
        decoupled: As in AdamW.
    """
    if not p.numel():
        return
    size = p[0].numel()
    # Where nothing is kept, neither of the two is read.
    into, better = (p, rate) if kept is None else (kept[0], kept[1].view(torch.int8))
    with on_device(p):
        replica_adam_kernel[(len(p) * num_blocks(size, _BLOCK),)](
            p,
            p.grad,
            *moments,
            into,
            better,
            rate,
            decay,
            root,
            size,
            slower,
            BETA_1=betas[0],
            BETA_2=betas[1],
            EPS=eps,
            DECOUPLED=decoupled,
            KEEP=kept is not None,
            BLOCK=_BLOCK,
        )
