r"""The one loop (Eq. 1-2): propagate, normalise every w steps, hand each state on.

A :class:`~rfp.backends.problem.Problem` goes to a :class:`~rfp.backends.backend.Backend`, whose states go to a
:class:`~rfp.sinks.Sink` (:func:`run_problem`), or to who asks for one after the other (:func:`states`). Every other
method of this library is a call of the one or the other with other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Unpack

from torch import Tensor

from rfp.backends import choose
from rfp.backends.backend import Backend
from rfp.backends.finite import FiniteWatch, numbered
from rfp.backends.problem import Problem, Step
from rfp.backends.reference import REFERENCE
from rfp.backends.start import begun
from rfp.normalization import Events
from rfp.operators import Operator
from rfp.precision import each_in_full_precision, full_precision, without_autocast
from rfp.report import Report
from rfp.settings import LoopArguments, Settings, shows_settings
from rfp.sinks import Sink

# What is kept of a step: (a [B, n, k], ptr) -> [B, n, k]; the loop itself goes on with a.
Record = Callable[[Tensor, Tensor], Tensor]
StepsTold = Callable[[int], None]


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
        >>> import torch
        >>> from rfp.operators import from_matrix
        >>> swap = from_matrix(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
        >>> [a.flatten().tolist() for a in states(swap, torch.tensor([[1.0], [0.0]]), num_steps=2, normalization="l2")]
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    with without_autocast(features.device.type):
        problem = Problem.from_objects(operator, features, ptr, Settings.of(settings, arguments)).checked()
        backend, reason = choose(problem, problem.settings.backend, stepping=True)
    watch = FiniteWatch(problem)
    for p, (a, events, _) in enumerate(each_in_full_precision(_walk(problem, backend))):
        if problem.settings.strict:
            Report(backend.name, reason, [events]).check_strict()
        watch.see(0, p, a)
        yield a if record is None else record(a, problem.ptr)
    watch.close()


@full_precision
def run_problem(
    problem: Problem,
    sink: Sink,
    *,
    chosen: tuple[Backend, str] | None = None,
    record: Record | None = None,
    progress: StepsTold | None = None,
    looks: bool = True,
) -> Report:
    """Compute a problem and hand it to a sink: at once where backend and sink can, else step by step. Autocast is left.

    Args:
        problem: What to compute, by the backend that its settings ask for.
        sink: Where the states go.
        chosen: What :func:`rfp.backends.choose` said, if it was asked already.
        record: What to keep of a step instead of its state.
        progress: Called with 1 after each step of each operator.
        looks: ``False`` where the caller looks for what is not finite, and nothing here may wait for a GPU to tell.

    Raises:
        NotFiniteError: A state is not finite; it names the first such step.
        NumericalError: ``strict`` is set and the result departs from a plain full-rank QR.
    """
    stepping = record is not None or not sink.takes_whole
    backend, reason = chosen or choose(problem, problem.settings.backend, stepping=stepping)
    watch = FiniteWatch(problem, looks, recorded=record is not None, qr_tells=backend.qr_tells)
    if backend.whole is None or stepping:
        events = _step_by_step(problem, backend, sink, watch, record, progress)
    else:
        problem, at_start = begun(problem, by=backend)
        storage, found = backend.whole(problem, problem.kept_dtype, _by_ones(progress))
        watch.see_all(storage)
        sink.whole(storage)
        events = [at_start, found]
    watch.close()
    report = Report(backend.name, reason, events)
    if problem.settings.strict:
        report.check_strict()
    return report


def _step_by_step(
    problem: Problem,
    backend: Backend,
    sink: Sink,
    watch: FiniteWatch,
    record: Record | None,
    progress: StepsTold | None,
) -> list[Events]:
    events = []

    def take(operator: int, p: int, step: Step) -> None:
        # A function of its own: no name outlives it on a state, which would be one more copy in memory while the next
        # is computed.
        state = step.state if record is None else record(step.state, problem.ptr)
        watch.see(operator, p, sink.step(operator, p, state))
        events.append(step.events)

    steps = _walk(problem, backend, sink.place if record is None else None)
    for operator, p in product(range(len(problem.operators)), range(problem.num_steps + 1)):
        take(operator, p, next(steps))
        if progress is not None and p:
            progress(1)
    return events


def _walk(
    problem: Problem, backend: Backend, place: Callable[[int, int], Tensor | None] | None = None
) -> Iterator[Step]:
    """All steps of all operators, one operator after the other; the events of the start count for the first.

    With ``place``, :meth:`rfp.sinks.Sink.place`, a state is gone when the next is asked for.
    """
    assert backend.steps is not None
    problem, at_start = begun(problem, plain=backend is REFERENCE)
    several = len(problem.operators) > 1
    for o, operator in enumerate(problem.operators):
        if place is None or backend.steps_in_place is None:
            steps = backend.steps(problem, operator)
        else:
            steps = backend.steps_in_place(problem, operator, partial(place, o))
        steps = numbered(steps, o if several else None)
        if o == 0 and at_start:
            yield next(steps)._replace(events=at_start)  # step 0 has no events of its own
        yield from steps


def _by_ones(progress: StepsTold | None) -> StepsTold:
    """Tell of several steps at once as of one after the other."""

    def done(number: int) -> None:
        for _ in range(number if progress is not None else 0):
            progress(1)  # type: ignore[misc]

    return done
