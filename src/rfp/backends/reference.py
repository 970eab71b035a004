"""The definition of correct: Eq. 1 step by step in plain PyTorch, on any device, with autograd."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from rfp.backends.problem import Problem, fold, unfold
from rfp.normalization import Tally, as_normalization
from rfp.operators import Operator


def loop(problem: Problem, operator: Operator, tally: Tally) -> Iterator[Tensor]:
    r"""Yield :math:`a^{(0)}, \dots, a^{(P)}`, each ``[B, n, k]``.

    .. math:: \hat a^{(p)} = S a^{(p-1)}, \qquad
              a^{(p)} = N(\hat a^{(p)}) \text{ if } p \bmod w = 0 \text{ else } \hat a^{(p)}
    """
    normalize = as_normalization(problem.normalization)
    a = problem.features
    yield a
    for p in range(1, problem.num_steps + 1):
        with problem.gradients(operator):
            a = unfold(operator @ fold(a), a)
            if p % problem.normalize_every == 0:
                a = normalize(a, problem.ptr, tally)
        yield a
