"""The few large graphs of a batch of small ones: cut out, propagated through the sparse path, put back in place."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from rfp.backends.problem import Problem
from rfp.backends.sparse.fast_loop import sparse_steps
from rfp.csr import CSR
from rfp.normalization import Events, count_events
from rfp.operators import MatrixOperator
from rfp.ragged import offsets, take


def fill_large_graphs(problem: Problem, above: int, out: Tensor, events: Events) -> Events:
    """Compute the graphs of more than ``above`` nodes into their rows of ``out`` ``[n, B, O, P + 1, k]``.

    Returns:
        The events of the other graphs and of these.
    """
    sizes = problem.ptr.diff()
    large = sizes > above
    nodes = torch.repeat_interleave(large, sizes).nonzero()[:, 0]
    operators = cast("tuple[MatrixOperator, ...]", problem.operators)
    part = replace(
        problem,
        operators=tuple(
            replace(operator, csr=rows_and_columns(operator.csr, nodes), rounding_norm=None) for operator in operators
        ),
        source=problem.features.transpose(0, 1)[nodes].transpose(0, 1),
        ptr=offsets(sizes[large]),
    )
    found = [events]
    for o, operator in enumerate(part.operators):
        for p, (a, counted, _) in enumerate(sparse_steps(part, operator)):
            out[nodes, :, o, p] = a.transpose(0, 1).to(out.dtype)
            found.append(counted)
    return count_events(found)


def rows_and_columns(csr: CSR, nodes: Tensor) -> CSR:
    """The submatrix of ascending ``nodes`` whose rows hold no other columns."""
    crow = csr.crow.long()
    entries = take(crow, nodes)
    number = torch.empty(csr.num_rows, dtype=csr.col.dtype, device=nodes.device)
    number[nodes] = torch.arange(len(nodes), dtype=csr.col.dtype, device=nodes.device)
    return CSR(entries.ptr.to(csr.crow.dtype), number[csr.col[entries.rows].long()], csr.value[entries.rows])
