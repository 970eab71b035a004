"""What an encoding has found out about its operator: angles, Ritz values, spectrum, as far as they are affordable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.baselines import eigenpairs
from rfp.errors import ArgumentError
from rfp.explorer.encodings import Asked
from rfp.explorer.graphs import OpenGraph
from rfp.explorer.jobs import Job
from rfp.explorer.limits import power_of
from rfp.operators import Operator, from_name
from rfp.theory import measure_states, principal_angles
from rfp.theory.bounds import dense_eigenpairs
from rfp.viz.convergence import predicted_angles

# All eigenvalues up to here: a few seconds on one core.
EXACT_MAX_NODES = 2000
# The k + 1 largest ones, by Lanczos, up to here.
LANCZOS_MAX_NODES = 30_000
LANCZOS_MAX_CHANNELS = 32
# n k² summed over the steps that are looked at; of more steps an even choice.
_MAX_WORK = 2e9


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues by descending magnitude, and their vectors ``[n, l]``; ``whole`` if none is missing."""

    values: Tensor
    vectors: Tensor
    whole: bool


def study(asked: Asked, operator: int, trajectory: int, job: Job[dict[str, Any]]) -> dict[str, Any]:
    """Angles to the dominant eigenvectors and Ritz values at each step; why not, where they cannot be had.

    Returns:
        JSON values: ``steps``, ``angles`` ``[step][j]``, ``step_angles``, ``ritz`` ``[step][j]``, ``eigenvalues``,
        ``spectrum``, ``rate``, ``predicted``, ``tie``, ``dominant_dimension`` and ``note``; ``None`` for what is not
        known.
    """
    graph, name = asked.graph, str(asked.settings.operators[operator])
    storage = asked.trajectory.storage[:, trajectory, operator]  # [n, P + 1, k]
    n, num_steps, k = storage.shape
    steps = _chosen_steps(num_steps, n * k * k)
    about: dict[str, Any] = {"steps": steps, "operator": name, "note": ""}
    if graph.graph.num_graphs > 1:
        return about | {"note": "This file holds several graphs; angles are measured on one graph at a time."}
    if not bool(torch.isfinite(storage).all()):
        return about | {"note": "The values overflow: normalise, or take fewer steps."}
    states = storage[:, steps, : min(k, n)].transpose(0, 1)  # [steps, n, k]
    S = from_name(name, graph.graph, torch.float64)
    job.advance()
    spectrum = spectrum_of(graph, name, min(k, n), S) if S.symmetric else None
    job.advance()
    if spectrum is None:
        reason = (
            f"{name} is not symmetric here, so there are no orthogonal eigenvectors to measure against."
            if not S.symmetric
            else f"Eigenvectors are computed up to {LANCZOS_MAX_NODES:,} nodes and {LANCZOS_MAX_CHANNELS} channels."
        )
        note = f"{reason} Shown instead: the angle between each step and the one before."
        return about | {"note": note, "step_angles": list(_between_steps(states, job))}
    result = measure_states(states, S, spectrum.values, spectrum.vectors)
    # If all known eigenvalues are tied, the first one outside the dominant space was not computed.
    rate_known = spectrum.whole or result.dominant_dimension < len(spectrum.values)
    line = predicted_angles(result) if rate_known else None
    return about | {
        "angles": result.angles.tolist(),
        "step_angles": result.step_angles.tolist(),
        "ritz": result.ritz_values.tolist(),
        "eigenvalues": spectrum.values[: result.dominant_dimension].tolist(),
        "spectrum": sorted(spectrum.values.tolist(), reverse=True),
        "whole_spectrum": spectrum.whole,
        "rate": result.rate if rate_known else None,
        "predicted": None if line is None else [[steps[i] for i in line[0]], line[1]],
        "tie": result.tie,
        "dominant_dimension": result.dominant_dimension,
    }


def _chosen_steps(num_steps: int, work: int) -> list[int]:
    """All steps, or as many, evenly spread from first to last, as the work allows.

    >>> _chosen_steps(4, 10), _chosen_steps(101, int(5e8))
    ([0, 1, 2, 3], [0, 33, 67, 100])
    """
    count = min(num_steps, max(4, int(_MAX_WORK / max(1, work))))
    return [int(p) for p in np.unique(np.linspace(0, num_steps - 1, count).round())]


def spectrum_of(graph: OpenGraph, operator: str, k: int, S: Operator) -> Spectrum | None:
    """The eigenvalues of a symmetric operator, as many as can be afforded; ``None`` if not even k + 1."""
    whole = graph.graph.num_nodes <= EXACT_MAX_NODES
    key = (operator, 0 if whole else k)
    if key not in graph.spectra:
        graph.spectra[key] = _exact(graph, operator) if whole else _largest(graph, operator, k)
    found: Spectrum | None = graph.spectra[key]
    return found


def _exact(graph: OpenGraph, operator: str) -> Spectrum:
    values, vectors = dense_eigenpairs(graph.graph, operator)
    order = values.abs().argsort(descending=True, stable=True)
    return Spectrum(values[order], vectors[:, order], whole=True)


def _largest(graph: OpenGraph, operator: str, k: int) -> Spectrum | None:
    if graph.graph.num_nodes > LANCZOS_MAX_NODES or k > LANCZOS_MAX_CHANNELS or power_of(operator) > 1:
        return None
    try:
        values, vectors = eigenpairs(
            graph.graph, num_eigenvectors=k + 1, operator=operator, which="largest_magnitude", dtype=torch.float64
        )
    except ArgumentError:
        return None
    return Spectrum(values[0], vectors, whole=False)


def _between_steps(states: Tensor, job: Job[dict[str, Any]]) -> Iterator[float | None]:
    """The largest angle between the spans of neighbouring steps; ``None`` where they differ in dimension."""
    for before, after in pairwise(states):
        job.advance()
        live = [a[:, a.ne(0).any(dim=0)].double() for a in (before, after)]
        same = live[0].size(1) == live[1].size(1) > 0
        yield float(principal_angles(*live)[-1]) if same else None
