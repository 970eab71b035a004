"""Encodings as the page asks for them: computed in threads, shared by tabs, called off when nobody waits any more."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.encode import encode
from rfp.errors import ArgumentError
from rfp.explorer.graphs import OpenGraph
from rfp.explorer.jobs import DONE, Job
from rfp.explorer.limits import Limits, check_operator_names
from rfp.settings import Settings
from rfp.trajectory import Trajectory

# What the page may set; everything else stays at its default.
EXPLORER_FIELDS = (
    "num_channels",
    "num_steps",
    "operators",
    "normalization",
    "normalize_every",
    "num_trajectories",
    "start",
    "distribution",
    "seed",
)
# Beyond this a page could not name the seed exactly.
_MAX_SEED = 2**53


def settings_of(asked: dict[str, Any], graph: OpenGraph, limits: Limits) -> Settings:
    """The settings a page asks for, checked like every other argument and held to the limits.

    Raises:
        ArgumentError: An unknown name, a value that is none, or more than the page is allowed.
    """
    unknown = sorted(set(asked) - set(EXPLORER_FIELDS))
    if unknown:
        raise ArgumentError(f"unknown settings: {', '.join(unknown)}")
    values = dict(asked)
    operators = values.get("operators", ["normalized_adjacency"])
    if not isinstance(operators, list):
        raise ArgumentError(f"operators must be a list of names, got {operators!r:.80}")
    values["operators"] = check_operator_names(operators)
    seed = values.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or abs(seed) > _MAX_SEED:
        raise ArgumentError(f"seed must be an integer up to 2^53 in magnitude, got {seed!r}")
    for name in ("normalization", "distribution", "start"):
        if name in values and not isinstance(values[name], str):
            raise ArgumentError(f"{name} must be a name, got {values[name]!r:.80}")
    settings = Settings(**values)
    limits.check_settings(settings, graph.graph.num_nodes)
    return settings


@dataclass
class Asked:
    """One encoding: the job that computes it and who waits for it."""

    key: str
    graph: OpenGraph
    settings: Settings
    job: Job[Trajectory]
    owners: set[str] = field(default_factory=set)
    seconds: float = 0.0
    studies: dict[tuple[str, int, int], Job[dict[str, Any]]] = field(default_factory=dict)

    @property
    def trajectory(self) -> Trajectory:
        """The result; to be asked for only when the job is done."""
        assert self.job.result is not None
        return self.job.result

    def cancel(self) -> None:
        """Call off what is not over yet."""
        self.job.cancel()
        for job in self.studies.values():
            job.cancel()

    @property
    def bytes(self) -> int:
        return self.trajectory.storage.nbytes if self.job.status == DONE else 0

    def values(self, *, trajectory: int, operator: int, step: int, channel: int) -> NDArray[np.float32]:
        """One float a node: a channel of a step, ``[n]``.

        Raises:
            ArgumentError: An index is out of range.
        """
        self.check_place(trajectory=trajectory, operator=operator, step=step, channel=channel)
        there = self.trajectory.storage[:, trajectory, operator, step, channel]
        found: NDArray[np.float32] = there.float().contiguous().numpy()
        return found

    def check_place(self, **place: int) -> None:
        """Raise if there is no such trajectory, operator, step or channel; also while it is being computed."""
        settings = self.settings
        sizes = {
            "trajectory": settings.num_trajectories,
            "operator": len(settings.operators),
            "step": settings.num_steps + 1,
            "channel": settings.num_channels,
        }
        for name, value in place.items():
            if not 0 <= value < sizes[name]:
                raise ArgumentError(f"{name} must be from 0 to {sizes[name] - 1}, got {value}")

    def describe(self) -> dict[str, Any]:
        """Where it stands and what ran, as JSON values."""
        about = {"key": self.key, **self.job.describe()}
        if self.job.status == DONE:
            storage, report = self.trajectory.storage, self.trajectory.report
            _, b, o, p, k = storage.shape
            about |= {
                "shape": {"trajectories": b, "operators": o, "steps": p, "channels": k},
                "backend": report.backend,
                "reason": report.reason,
                "seconds": self.seconds,
                "events": dict(report.events),
                "dependent_columns": report.dependent_columns,
                "zero_columns": zero_columns(self.trajectory),
                "finite": bool(torch.isfinite(storage).all()),
            }
        return about


def zero_columns(trajectory: Trajectory) -> list[list[list[int]]]:
    """For each operator and step, in how many trajectories each channel is zero on all nodes: ``[O][P + 1][k]``."""
    dead = (trajectory.storage == 0).all(dim=0).sum(dim=0)  # [O, P + 1, k]
    listed: list[list[list[int]]] = dead.tolist()
    return listed


class Encodings:
    """All encodings of a server.

    A tab has one encoding for each of its panes. Asking for another one gives the old one up; if nobody else waits for
    that, its work is called off. Finished ones are kept as long as they fit :attr:`Limits.cache_bytes`.
    """

    def __init__(self, pool: ThreadPoolExecutor, limits: Limits) -> None:
        self._pool, self._limits = pool, limits
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, graph_key: str, graph: OpenGraph, settings: Settings, owner: str) -> Asked:
        """The encoding with these settings, begun if it is not there."""
        key = hashlib.sha256(f"{graph_key} {settings.as_text()}".encode()).hexdigest()[:16]
        with self._lock:
            self._give_up(owner, but=key)
            asked = self._asked.get(key)
            if asked is None or asked.job.status in ("cancelled", "failed"):
                asked = self._begin(key, graph, settings)
            asked.owners.add(owner)
            self._asked[key] = asked
            self._asked.move_to_end(key)
            self._make_room()
        return asked

    def get(self, key: str) -> Asked | None:
        """The encoding of that key, if it is still there."""
        with self._lock:
            if key in self._asked:
                self._asked.move_to_end(key)
            return self._asked.get(key)

    def leave(self, owner: str) -> None:
        """A pane or a tab was closed."""
        with self._lock:
            self._give_up(owner)

    def _begin(self, key: str, graph: OpenGraph, settings: Settings) -> Asked:
        def work(job: Job[Trajectory]) -> Trajectory:
            started = time.perf_counter()
            trajectory = encode(graph.graph, settings, progress=job.advance)
            asked.seconds = time.perf_counter() - started
            return trajectory

        total = settings.num_steps * len(settings.operators)
        asked = Asked(key, graph, settings, Job(work, total))
        asked.job.start(self._pool)
        return asked

    def _give_up(self, owner: str, but: str = "") -> None:
        for asked in self._asked.values():
            if asked.key != but and owner in asked.owners:
                asked.owners.discard(owner)
                if not asked.owners:
                    asked.cancel()

    def _make_room(self) -> None:
        # The least recently used first, and never the one just asked for. A page that comes back asks again.
        for key in list(self._asked)[:-1]:
            if sum(asked.bytes for asked in self._asked.values()) <= self._limits.cache_bytes:
                return
            self._asked.pop(key).cancel()
