r"""The one loop (Eq. 1-2): propagate, normalise every w steps, keep the trajectory.

Every other method of this library is a call of :func:`propagate` or :func:`states` with other arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Unpack

import torch
from torch import Tensor

from rfp.backends import choose, reference, sparse
from rfp.backends.problem import Problem, Step, check_finite
from rfp.backends.start import begin
from rfp.errors import NumericalError
from rfp.graph import Graph
from rfp.normalization import Events, count_events
from rfp.operators import Operator
from rfp.settings import LoopArguments, Settings, shows_settings

# What is kept of a step: (a [B, n, k], ptr) -> [B, n, k]; the loop itself goes on with a.
Record = Callable[[Tensor, Tensor], Tensor]
Loop = Callable[[Problem, Operator], Iterator[Step]]

_LOOPS = {"reference": reference.loop, "sparse": sparse.loop}
# Backends that compute the whole trajectory in one call; their modules need Numba or Triton.
_WHOLE = {
    "compiled": "rfp.backends.small_graphs",
    "fused": "rfp.backends.fused",
    "cuda_sparse": "rfp.backends.cuda_sparse",
    "dense": "rfp.backends.dense",
}
# Ways of orthonormalising that a plain full-rank QR never needs.
_FALLBACKS = ("cholesky_dropping", "gram_schmidt")


@dataclass(frozen=True)
class Report:
    """What ran: the backend and why, how often each method of orthonormalisation, how many columns were dependent.

    Args:
        backend: Its name.
        reason: Why it was chosen.
        steps: The events of each step; those that a GPU still counts are waited for when somebody asks.
    """

    backend: str
    reason: str
    steps: Sequence[Events] = ()

    @cached_property
    def events(self) -> Counter[str]:
        """The events of all steps, added up."""
        return count_events(self.steps)

    @property
    def dependent_columns(self) -> int:
        """Columns set to zero because they depend on earlier ones, over all steps, graphs and trajectories."""
        return self.events["dependent_columns"]

    def check_strict(self) -> None:
        """Raise if the result departs anywhere from a plain full-rank QR."""
        used = [name for name in _FALLBACKS if self.events[name]]
        if used or self.dependent_columns:
            raise NumericalError(
                f"strict=True: {self.dependent_columns} dependent columns were set to zero"
                f"{' and ' + ' and '.join(used) + ' was needed' if used else ''}; use fewer channels, "
                "normalise more often, or float64"
            )


@dataclass(frozen=True)
class Trajectory:
    r"""The trajectories :math:`t_1, \dots, t_B` of every operator.

    Args:
        storage: ``[n, B, O, P + 1, k]``, node-first, so that a node's whole encoding is contiguous.
        report: What ran.
        settings: The arguments, where :func:`rfp.encode` made it: what its products mean depends on them
            (:mod:`rfp.products`). Of given features the distribution is taken to be standard.
        graph: Where :func:`rfp.encode` made it.
    """

    storage: Tensor
    report: Report
    settings: Settings | None = field(default=None, repr=False)
    graph: Graph | None = field(default=None, repr=False)

    @property
    def states(self) -> Tensor:
        """``[B, n, P + 1, O k]``: step ``p`` of all operators side by side. A view for one operator."""
        n, b, o, p, k = self.storage.shape
        return self.storage.permute(1, 0, 3, 2, 4).reshape(b, n, p, o * k)

    def flat(self) -> Tensor:
        r"""``[B, n, C]``, C = O (P + 1) k. Always a view.

        :math:`r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}` (Eq. 2) of the first operator, then of the second.
        """
        return self.storage.flatten(2).transpose(0, 1)

    def node_first(self) -> Tensor:
        """``[n, C]``, or ``[n, B, C]`` for several trajectories: the form PyG batches correctly. Always a view."""
        flat = self.storage.flatten(2)
        return flat[:, 0] if flat.size(1) == 1 else flat

    def last(self) -> Tensor:
        """``[B, n, O k]``: the last step alone."""
        return self.states[:, :, -1]


def _everything(a: Tensor, ptr: Tensor) -> Tensor:
    return a


def _problem(
    operators: Operator | Sequence[Operator],
    features: Tensor,
    ptr: Tensor | None,
    settings: Settings,
) -> Problem:
    several = tuple(operators) if isinstance(operators, Sequence) else (operators,)
    if features.dim() == 2:
        features = features[None]
    if not any(operator.differentiable for operator in several):
        features = features.detach()  # predefined operators run without autograd
    offsets = torch.tensor([0, features.size(1)]) if ptr is None else ptr
    return Problem(
        several,
        features,
        offsets.to(features.device),
        settings.num_steps,
        settings.normalization,
        settings.normalize_every,
    )


def _begun(problem: Problem, start: str, backend: str) -> tuple[Problem, Events]:
    """The problem from its step 0 on: the reference begins by the plain normalisation, the others by the fast one."""
    features, events = begin(problem.features, problem.ptr, start, plain=backend == "reference")
    return replace(problem, features=features), events


def _loop(name: str) -> Loop:
    """The steps of a backend one at a time; those that compute whole trajectories step as ``sparse`` does."""
    if name == "cuda_sparse":
        loop: Loop = import_module(_WHOLE[name]).loop
        return loop
    return _LOOPS.get(name, sparse.loop)


@shows_settings(LoopArguments)
def states(
    operator: Operator,
    features: Tensor,
    settings: Settings | None = None,
    *,
    ptr: Tensor | None = None,
    record: Record | None = None,
    **arguments: Unpack[LoopArguments],
) -> Iterator[Tensor]:
    r"""Yield :math:`a^{(0)} = r, a^{(1)}, \dots, a^{(P)}` one at a time (Eq. 1): one step in memory.

    .. math:: \hat a^{(p)} = S a^{(p-1)}, \qquad
              a^{(p)} = N(\hat a^{(p)}) \text{ if } p \bmod w = 0 \text{ else } \hat a^{(p)}

    Args:
        operator: S.
        features: r, ``[B, n, k]`` or ``[n, k]``; float32 or float64, which is the precision of the states.
        settings: All arguments in one :class:`~rfp.settings.Settings`; those that make the operators and the features
            are not read. The others may be given as keywords, with settings or without.
        ptr: ``[num_graphs + 1]`` node offsets when the nodes are those of several graphs.
        record: What to yield instead of a, ``(a, ptr) -> Tensor``; the iteration goes on with a.

    Yields:
        ``[B, n, k]``, P + 1 times.

    Costs O(m k B + n k² B) a step.

    Example:
        >>> from rfp.operators import from_matrix
        >>> swap = from_matrix(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
        >>> [a.flatten().tolist() for a in states(swap, torch.tensor([[1.0], [0.0]]), num_steps=2, normalization="l2")]
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    settings = Settings.of(settings, arguments)
    problem = _problem(operator, features, ptr, settings)
    for a, _ in steps(problem, problem.operators[0], settings):
        yield a if record is None else record(a, problem.ptr)


def steps(problem: Problem, operator: Operator, settings: Settings) -> Iterator[Step]:
    """:func:`states` of a problem, each with its events; of the settings it reads the start, the backend and strict."""
    name, reason = choose(problem, settings.backend)
    problem, begun = _begun(problem, settings.start, name)
    kept_dtype = settings.storage_dtype or problem.features.dtype
    for p, (a, events) in enumerate(_loop(name)(problem, operator)):
        check_finite(a.detach().to(kept_dtype)[:, :, None], first_step=p)
        if begun:
            events, begun = count_events([events, begun]), {}
        if settings.strict:
            Report(name, reason, [events]).check_strict()
        yield Step(a, events)


@shows_settings(LoopArguments)
def propagate(
    operators: Operator | Sequence[Operator],
    features: Tensor,
    settings: Settings | None = None,
    *,
    ptr: Tensor | None = None,
    record: Record | None = None,
    progress: Callable[[int], None] | None = None,
    **arguments: Unpack[LoopArguments],
) -> Trajectory:
    r"""Keep the whole trajectory :math:`t = r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}` (Eq. 2) of each operator.

    Args are those of :func:`states`, and:
        operators: One S or several; each starts from the same features.
        progress: Called with 1 after each step of each operator.

    Returns:
        A :class:`Trajectory`; its storage is ``[n, B, O, P + 1, k]``.
    """
    settings = Settings.of(settings, arguments)
    num_steps = settings.num_steps
    problem = _problem(operators, features, ptr, settings)
    name, reason = choose(problem, settings.backend) if record is None else ("sparse", "a record hook is given")
    kept_dtype = settings.storage_dtype or features.dtype
    b, n, k = problem.features.shape
    shape = (n, b, len(problem.operators), num_steps + 1, k)
    keep = record or _everything
    problem, begun = _begun(problem, settings.start, name)
    found = [begun]
    if name in _WHOLE:
        run = import_module(_WHOLE[name]).run
        storage, events = run(problem, kept_dtype, progress)
        found.append(events)
    elif any(operator.differentiable for operator in problem.operators):
        # Autograd wants the steps as separate tensors, joined once.
        kept = []
        for operator in problem.operators:
            taken = list(_LOOPS[name](problem, operator))
            kept.append(torch.stack([keep(a, problem.ptr) for a, _ in taken], dim=2))
            found += [events for _, events in taken]
        storage = torch.stack(kept, dim=2).transpose(0, 1).to(kept_dtype)
    else:
        storage = torch.empty(shape, dtype=kept_dtype, device=features.device)
        for o, operator in enumerate(problem.operators):
            taken_one_by_one = _LOOPS[name](problem, operator)
            for p in range(num_steps + 1):
                # No name is kept on the state, which would be one more copy in memory while the next is computed.
                found.append(_kept(next(taken_one_by_one), storage[:, :, o, p], keep, problem.ptr))
                if progress is not None and p:
                    progress(1)
    check_finite(storage)
    report = Report(name, reason, found)
    if settings.strict:
        report.check_strict()
    return Trajectory(storage, report)


def _kept(step: Step, out: Tensor, keep: Record, ptr: Tensor) -> Events:
    out.copy_(keep(step.state, ptr).transpose(0, 1))
    return step.events
