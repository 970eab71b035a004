r"""Learned operators of small graphs on a GPU: a whole trajectory in one Triton kernel, its gradient in another.

Step by step, a batch of small graphs is bound by the number of launches and by the host, which waits at every
orthonormalisation. Here one program computes all P steps of a graph and a trajectory, and the backward pass one more,
with the formula and the guards of :mod:`rfp.backends.sparse.orthonormal_grad`. The operators must hold their matrices
as padded blocks (:meth:`rfp.operators.BlockOperator.dense_blocks`). The random features get no gradient.

Orthonormalisation is Gram-Schmidt run twice in float64. States that overflow become NaN; the kernels do not wait to say
so, :class:`rfp.backends.finite.FiniteWatch` asks where the result is handed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rfp.backends.learned import LEARNED_MAX_NODES
from rfp.backends.learned.triton_dense import dense_backward_kernel, dense_forward_kernel
from rfp.backends.problem import NORMALIZATION_CODES, Problem, tell_nobody
from rfp.differentiable_once import differentiable_once
from rfp.normalization import Events
from rfp.operators import DenseBlock, blocks_of
from rfp.precision import full_precision
from rfp.rounding import rounding_unit
from rfp.triton_launch import on_device

# Warps of a program, by the padded numbers of nodes and channels: as few as hold its tiles without spilling much, for
# sums over nodes are passed between warps through memory.
FORWARD_WARPS = {(16, 16): 1, (16, 32): 1, (32, 16): 1, (32, 32): 2, (64, 16): 4, (64, 32): 4}
FORWARD_WARPS |= {(128, 16): 4, (128, 32): 8, (256, 16): 8, (256, 32): 8}
BACKWARD_WARPS = {(16, 16): 1, (16, 32): 2, (32, 16): 2, (32, 32): 4, (64, 16): 4, (64, 32): 8}
BACKWARD_WARPS |= {(128, 16): 8, (128, 32): 8, (256, 16): 8, (256, 32): 8}
# Columns of a wide matrix that a program holds at a time.
_CHUNK = 32


def learned_trajectory(
    problem: Problem, storage_dtype: torch.dtype, done: Callable[[int], None] = tell_nobody
) -> tuple[Tensor, Events]:
    """The trajectory of all operators, ``[n, B, O, P + 1, k]``, differentiable once in the operators' blocks.

    O(P O B (Σ width² k + n k²)) work for the padded widths of the graphs. Beside the result, the backward pass holds
    the blocks' gradients, B times over.
    """
    blocks = [blocks_of(operator) or [] for operator in problem.operators]
    num_trajectories, _, k = problem.features.shape
    # As the reference counts: a graph without nodes, which is in no block, has dependent columns only.
    held = sum(len(block.rows) for of_one in blocks for block in of_one)
    empty = (len(problem.ptr) - 1) * len(blocks) - held
    counted = empty * num_trajectories * k * (problem.num_steps // problem.normalize_every)
    norms = [getattr(operator, "norm", None) for operator in problem.operators]
    plan = _Plan(
        features=problem.features.detach().transpose(0, 1).contiguous(),
        rows=[[block.rows.contiguous() for block in of_one] for of_one in blocks],
        num_steps=problem.num_steps,
        normalization=NORMALIZATION_CODES[cast(str, problem.normalization)],
        normalize_every=problem.normalize_every,
        norms=norms,
        dropped=torch.full((1,), counted, dtype=torch.int64, device=problem.features.device),
    )
    matrices = [block.matrix for of_one in blocks for block in of_one]
    out: Tensor = _Trajectories.apply(plan, *matrices)  # type: ignore[no-untyped-call]
    counted_as = {"qr": "dependent_columns", "l2": "zero_columns"}.get(cast(str, problem.normalization))
    events = {counted_as: plan.dropped} if counted_as else {}
    done(problem.num_steps * len(problem.operators))
    return out.to(storage_dtype), events


@dataclass(frozen=True)
class _Plan:
    """All of a problem but the matrices."""

    features: Tensor  # [n, B, k]
    rows: list[list[Tensor]]  # of every operator and block: [g, width]
    num_steps: int
    normalization: int
    normalize_every: int
    norms: list[float | None]  # of every operator, where it declares one
    dropped: Tensor  # [1], filled by the kernels

    def launches(self, matrices: tuple[Tensor, ...]) -> list[tuple[int, DenseBlock]]:
        """The operator and the block of each launch."""
        rows = [(o, one) for o, of_one in enumerate(self.rows) for one in of_one]
        return [(o, DenseBlock(matrix, one)) for (o, one), matrix in zip(rows, matrices, strict=True)]

    def rounding(self, operator: int) -> tuple[float, float]:
        """What the kernel takes for the rounding of products: of this norm, or of one that is not known."""
        u, norm = rounding_unit(torch.float32), self.norms[operator]
        return (0.0, u) if norm is None else (u * norm, 0.0)

    def arguments(self, out: Tensor) -> tuple[int, ...]:
        """What both kernels take after the node and block numbers."""
        num_trajectories, k = self.features.shape[1:]
        return num_trajectories, out.stride(0), out.stride(1), self.num_steps, self.normalize_every, k

    def constants(self, block: DenseBlock, warps: dict[tuple[int, int], int]) -> dict[str, int]:
        """The kernel's variant for the widths of the block and the features."""
        sizes = _padded(block.rows.size(1)), _padded(self.features.size(2))
        chunk = _CHUNK if is_wide(block) else sizes[0]
        return {
            "N": sizes[0],
            "K": sizes[1],
            "CHUNK": chunk,
            "NORMALIZATION": self.normalization,
            "num_warps": warps[sizes],
        }


class _Trajectories(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: _Plan, *matrices: Tensor) -> Tensor:  # [g, width, width] each
        matrices = tuple(matrix.contiguous() for matrix in matrices)
        n, num_trajectories, k = plan.features.shape
        shape = (n, num_trajectories, len(plan.rows), plan.num_steps + 1, k)
        # Zero where a padded batch has nodes that are in no block.
        out = torch.zeros(shape, dtype=torch.float32, device=plan.features.device)
        with on_device(out):
            for o, block in plan.launches(matrices):
                grid = (len(block.rows), num_trajectories)
                dense_forward_kernel[grid](
                    out[:, :, o],
                    plan.features,
                    block.matrix,
                    block.rows,
                    plan.dropped,
                    *plan.rounding(o),
                    n,
                    block.rows.size(1),
                    *plan.arguments(out),
                    **plan.constants(block, FORWARD_WARPS),
                )
        ctx.plan = plan
        ctx.save_for_backward(out, *matrices)
        return out

    @staticmethod
    @differentiable_once
    @full_precision
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        plan: _Plan = ctx.plan
        out, *matrices = ctx.saved_tensors
        grad_out = grad_out.contiguous()
        num_trajectories = out.size(1)
        grads: list[Tensor | None] = []
        with on_device(out):
            for o, block in plan.launches(tuple(matrices)):
                graphs, width = block.rows.shape
                # Each trajectory on its own, then their sum in a fixed order: more programs than graphs, no atomics.
                each = (plan.num_steps, width, out.size(4)) if is_wide(block) else (width, width)
                parts = torch.empty(graphs, num_trajectories, *each, device=out.device)
                dense_backward_kernel[(graphs, num_trajectories)](
                    parts,
                    grad_out[:, :, o],
                    out[:, :, o],
                    block.matrix,
                    block.rows,
                    out.size(0),
                    width,
                    *plan.arguments(out),
                    **plan.constants(block, BACKWARD_WARPS),
                )
                if is_wide(block):
                    grads.append(_gradient_of_products(parts, out[:, :, o, : plan.num_steps], block.rows))
                else:
                    grads.append(parts[:, 0] if num_trajectories == 1 else parts.sum(1))
        return None, *grads


def _gradient_of_products(grads: Tensor, states: Tensor, rows: Tensor) -> Tensor:
    r"""The gradient of S, :math:`\sum_{b, p} \bar y_{b, p} \, a_{b, p - 1}^\top`, ``[graphs, width, width]``.

    Args:
        grads: ``[graphs, B, P, width, k]``, those of the products :math:`y_p = S a_{p - 1}`, zero at the padding.
        states: ``[n, B, P, k]``, a.
        rows: ``[graphs, width]`` node numbers; n at the padding.
    """
    n, (graphs, width) = len(states), rows.shape
    padded = (rows >= n)[:, :, None]
    factors = states.flatten(1)[rows.clamp_max(n - 1)].masked_fill(padded, 0.0)
    return grads.permute(0, 3, 1, 2, 4).reshape(graphs, width, -1) @ factors.transpose(1, 2)


def is_wide(block: DenseBlock) -> bool:
    """Whether a program cannot hold a matrix of the block."""
    return block.rows.size(1) > LEARNED_MAX_NODES


def _padded(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())
