"""Many small graphs on a CPU: a whole batch goes to the compiled kernel, operators of one pattern together."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from rfp.backends.compiled import kernels as compiled
from rfp.backends.problem import Problem, tell_nobody
from rfp.normalization import Events, dependence_tolerance
from rfp.operators import MatrixOperator
from rfp.pages import empty

_CODES = {"none": 0, "l2": 1, "qr": 2}


def compiled_trajectory(
    problem: Problem, storage_dtype: torch.dtype, done: Callable[[int], None] = tell_nobody
) -> tuple[Tensor, Events]:
    """The trajectory of all operators, ``[n, B, O, P + 1, k]``, equal to the reference up to rounding.

    O(P O (m k B + n k² B)); the states of a graph never leave the cache except to be stored.
    """
    operators = cast("tuple[MatrixOperator, ...]", problem.operators)
    b, n, k = problem.features.shape
    steps = problem.num_steps
    features = problem.features.transpose(0, 1).contiguous()
    out = empty(n, b, len(operators), steps + 1, k, dtype=problem.features.dtype)
    units, zeros = problem.rounding_units(), 0
    for start, stop in _runs_of_one_pattern(operators):
        csr = operators[start].csr
        found = compiled.small_graphs(
            csr.crow,
            csr.col,
            torch.stack([operator.csr.value.double() for operator in operators[start:stop]]),
            problem.ptr,
            features,
            steps,
            problem.normalize_every,
            _CODES[cast(str, problem.normalization)],
            dependence_tolerance(features.dtype),
            units[start:stop],
            out[:, :, start:stop],
        )
        zeros += int(found.sum())
        done(steps * (stop - start))
    events = {"dependent_columns" if problem.normalization == "qr" else "zero_columns": zeros}
    return out if storage_dtype == out.dtype else out.to(storage_dtype), events


def _runs_of_one_pattern(operators: tuple[MatrixOperator, ...]) -> list[tuple[int, int]]:
    """Consecutive operators that share their index tensors, as (first, last + 1)."""
    runs, first = [], 0
    for i in range(1, len(operators) + 1):
        if i == len(operators) or operators[i].csr.col is not operators[first].csr.col:
            runs.append((first, i))
            first = i
    return runs
