"""Scores without learning on the pairs of the link table: computed exactly, once, and kept as CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from rfp.atomic import atomic_files
from rfp.data import LoadedTask, load
from rfp.data.link_edges import JudgedPairs
from rfp.data.metrics import METRICS
from rfp.errors import FileError
from rfp.links import score_pairs
from rfp.reproduce.links_spec import HEURISTICS, LinkColumn, data_values

HEURISTICS_FOLDER = "links"
# β of Katz is chosen on validation.
BETAS = (0.05, 0.005, 0.0005)
_METRICS = tuple(name for name, metric in METRICS.items() if "link" in metric.kinds)


@dataclass(frozen=True)
class HeuristicScore:
    """One score of one method on one split.

    Args:
        dataset: Name.
        score: A key of :data:`HEURISTICS`.
        split: Number.
        metric: Name.
        val: On validation.
        test: On the test part.
        beta: β of Katz, chosen by the first metric of the table on validation; 0 for others.
    """

    dataset: str
    score: str
    split: int
    metric: str
    val: float
    test: float
    beta: float = 0.0


def heuristics_file(results: Path, dataset: str) -> Path:
    """Where the scores of a graph are kept."""
    return results / HEURISTICS_FOLDER / f"{dataset}.csv"


def read_heuristics(results: Path, dataset: str) -> list[HeuristicScore]:
    """What is kept of a graph; nothing if there is no file."""
    path = heuristics_file(results, dataset)
    if not path.exists():
        return []
    kinds = {f.name: {"int": int, "float": float, "str": str}[str(f.type)] for f in fields(HeuristicScore)}
    try:
        return [
            HeuristicScore(**{name: kinds[name](value) for name, value in line.items()})
            for line in csv.DictReader(path.read_text().splitlines())
        ]
    except (KeyError, ValueError, TypeError) as error:
        raise FileError(f"{path}: damaged file of scores ({error}); remove it and run again") from error


def missing_heuristics(
    known: Sequence[HeuristicScore], scores: Sequence[str], num_splits: int
) -> list[tuple[str, int]]:
    """(score, split) that are not there."""
    there = {(one.score, one.split) for one in known}
    return [(score, split) for split in range(num_splits) for score in scores if (score, split) not in there]


def run_heuristics(
    column: LinkColumn,
    scores: Sequence[str],
    num_splits: int,
    results: Path,
    *,
    data_root: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Compute what is missing for a graph and write it, split by split."""
    known = read_heuristics(results, column.id)
    waiting = missing_heuristics(known, scores, num_splits)
    if not waiting:
        return
    loaded = load(data_values(column), data_root=data_root)
    for split in sorted({split for _, split in waiting}):
        at = loaded.at_split(split)
        for score in (score for score, other in waiting if other == split):
            known += judge(column, score, at, split)
        _write(heuristics_file(results, column.id), known)
        say(f"{column.id}: scores without learning, split {split}")


def judge(column: LinkColumn, score: str, at: LoadedTask, split: int) -> list[HeuristicScore]:
    """All metrics of one score at one split; of several β the one with the best validation score."""
    assert at.held_out is not None
    judged, beta = at.held_out.judged, 0.0
    if score == "katz":
        metric = METRICS[column.chosen_by]
        few = judged["val"].only(metric.negatives)
        tried = {beta: metric(_values(at, score, few, beta), few.label, "link") for beta in BETAS}
        beta = max(tried, key=lambda one: tried[one])  # of equal ones the first
    found = {}
    for part, pairs in judged.items():
        value = _values(at, score, pairs, beta)
        found[part] = {name: METRICS[name](value, pairs.label, "link") for name in _METRICS}
    return [
        HeuristicScore(at.task.name, score, split, name, found["val"][name], found["test"][name], beta)
        for name in _METRICS
    ]


def _values(at: LoadedTask, score: str, pairs: JudgedPairs, beta: float) -> Tensor:
    more: dict[str, Any] = {"beta": beta} if score == "katz" else {}
    return score_pairs(at.graphs.graph, pairs.pairs, score=score, exact=True, **more).value[:, None]


def _write(path: Path, scores: Sequence[HeuristicScore]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(HeuristicScore)], lineterminator="\n")
    writer.writeheader()
    order = list(HEURISTICS)
    for one in sorted(scores, key=lambda one: (order.index(one.score), one.split)):
        writer.writerow(asdict(one))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_files([path]) as (file,):
        file.write(text.getvalue().encode())
