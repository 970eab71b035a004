"""Result files: one JSON file for each config, with a record for each seed and split. Tables read nothing else."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rfp.atomic import alone_in, atomic_files
from rfp.data.link_metrics import LINK_METRICS
from rfp.errors import ArgumentError, FileError
from rfp.train.run_config import RunConfig

RESULT_FORMAT = "rfp-result-1"
# Fields that a file has only where they are not empty.
_OFTEN_EMPTY = ("alternatives", "data_digest")
# Scores that people read in percent.
_PERCENT = ("accuracy", "roc_auc", "average_precision", *LINK_METRICS)


@dataclass(frozen=True)
class RunRecord:
    """One trained model.

    Args:
        seed: Seed of weights, order, dropout and draws.
        split: Number of the split.
        metrics: ``val`` and ``test`` scores, and whatever else was measured, at the chosen epoch.
        epoch: The epoch chosen by validation, from 0.
        epochs: How many were run.
        seconds: Wall time of this run; for runs trained together, of all of them divided by their number.
        num_parameters: Number of parameters of the model.
        values: What a search chose, by dotted key.
        device: What it was trained on; runs of one result may differ in that.
    """

    seed: int
    split: int
    metrics: Mapping[str, float]
    epoch: int
    epochs: int
    seconds: float
    num_parameters: int
    values: Mapping[str, Any] = field(default_factory=dict)
    device: str = ""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunRecord:
        """Read back a finished run: it has a validation score and, unless it was made for tuning, a test score."""
        record = cls(**values)
        for part in ("val", "test"):
            if not isinstance(record.metrics.get(part, 0.0 if part == "test" else None), int | float):
                raise ArgumentError(f"the metrics of a run need a number {part!r}, got {dict(record.metrics)}")
        return record


@dataclass(frozen=True)
class Trial:
    """One point of a search: its validation score. It has no place for a test score, and none is ever computed.

    Args:
        values: By dotted key; with ``pairs``, those of the best pair.
        val: Validation score; NaN if the point could not be tried.
        num_runs: Splits and seeds it is the mean of.
        stage: Stage of a halving.
        epochs: How long it was trained, where that is less than the config says.
        pairs: (lr, weight decay, validation score) of all that were trained together, best first.
        seconds: Wall time.
        refused: Why it could not be tried.
    """

    values: Mapping[str, Any]
    val: float
    num_runs: int = 1
    stage: str = ""
    epochs: int = 0
    pairs: tuple[tuple[float, float, float], ...] = ()
    seconds: float = 0.0
    refused: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is at its default is left out, but for the number of runs."""
        always = ("values", "val", "num_runs")
        plain = asdict(self)
        return {f.name: plain[f.name] for f in fields(self) if f.name in always or plain[f.name] != f.default}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trial:
        """Read back what :meth:`to_dict` wrote."""
        return cls(**{**values, "pairs": tuple((lr, wd, val) for lr, wd, val in values.get("pairs", ()))})


@dataclass(frozen=True)
class Result:
    """All runs of one config.

    Args:
        config: With the ``search`` it was chosen by, if any.
        dataset: Name of the data.
        metric: Name of the score.
        higher_is_better: Its direction.
        runs: One for each seed and split.
        trials: Trials of the search.
        environment: Device and versions of the latest run.
        notes: What must be said beside these numbers.
        alternatives: Runs of the best by validation among a part of the points, such as ``"model.embed=linear"``, where
            the choice fell on another.
        data_digest: Of data of one's own, whose files may change.
    """

    config: RunConfig
    dataset: str
    metric: str
    higher_is_better: bool
    runs: tuple[RunRecord, ...] = ()
    trials: tuple[Trial, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    alternatives: Mapping[str, tuple[RunRecord, ...]] = field(default_factory=dict)
    data_digest: str = ""

    @property
    def is_tested(self) -> bool:
        """Whether every run has a test score; one that was made for tuning has none."""
        return all("test" in run.metrics for run in self.runs)

    def scores(self, part: str = "test") -> list[float]:
        """One score for each run."""
        return [run.metrics[part] for run in self.runs]

    def mean_std(self, part: str = "test") -> tuple[float, float]:
        """Mean and sample deviation over the runs; the deviation of one run is NaN."""
        scores = self.scores(part)
        return statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else math.nan

    def has(self, seed: int, split: int, *, tested: bool = False) -> bool:
        """Whether that run is done and, if asked for, has a test score."""
        runs = (run for run in self.runs if run.seed == seed and run.split == split)
        return any(not tested or "test" in run.metrics for run in runs)

    def with_runs(self, runs: Iterable[RunRecord], trials: Sequence[Trial] | None = None) -> Result:
        """The same result with further runs; one of the same seed and split takes the place of the old."""
        merged = {(run.seed, run.split): run for run in (*self.runs, *runs)}
        ordered = tuple(merged[key] for key in sorted(merged))
        return replace(self, runs=ordered, trials=self.trials if trials is None else tuple(trials))

    def file_name(self) -> str:
        """``cora/rfp-qr-1f3a5b7c.json``: readable, and different for different configs."""
        name = re.sub(r"[^a-z0-9]+", "-", (self.config.name or "run").lower()).strip("-")
        dataset = re.sub(r"[^A-Za-z0-9._-]+", "-", self.dataset)
        return f"{dataset}/{name}-{self.config.key[:8]}.json"

    def write(self, folder: Path) -> Path:
        """Write below ``folder``, whole or not at all."""
        path = folder / self.file_name()
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_files([path]) as (file,):
            file.write(_text(self.to_dict()).encode())
        return path

    def write_beside_others(self, folder: Path) -> Result:
        """Write as :meth:`write` does, and keep runs that other processes have put into the file meanwhile."""
        path = folder / self.file_name()
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone_in(path.parent):
            others = read_result(path).runs if path.exists() else ()
            merged = replace(self, runs=tuple(others)).with_runs(self.runs)
            merged.write(folder)
        return merged

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["config"] = self.config.to_dict()
        plain["runs"] = [asdict(run) for run in self.runs]
        plain["trials"] = [trial.to_dict() for trial in self.trials]
        plain["alternatives"] = {name: [asdict(run) for run in runs] for name, runs in self.alternatives.items()}
        for name in _OFTEN_EMPTY:
            if not plain[name]:
                del plain[name]
        return {"format": RESULT_FORMAT, "key": self.config.key, **plain}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Result:
        """Read back what :meth:`to_dict` wrote."""
        plain = {f.name: values[f.name] for f in fields(cls) if f.name not in _OFTEN_EMPTY}
        plain["data_digest"] = values.get("data_digest", "")
        plain["config"] = RunConfig.from_dict(plain["config"])
        plain["runs"] = tuple(map(RunRecord.from_dict, plain["runs"]))
        plain["trials"] = tuple(Trial.from_dict(trial) for trial in plain["trials"])
        plain["notes"] = tuple(plain["notes"])
        others = values.get("alternatives", {}).items()
        plain["alternatives"] = {name: tuple(map(RunRecord.from_dict, runs)) for name, runs in others}
        return cls(**plain)


def _text(plain: Mapping[str, Any]) -> str:
    """JSON to be read and compared by people: a line for each run and each point of a search."""
    rows = {"runs", "trials"}
    parts = []
    for name, value in plain.items():
        if name in rows and value:
            lines = ",\n".join("  " + json.dumps(row) for row in value)
            parts.append(f" {json.dumps(name)}: [\n{lines}\n ]")
        else:
            body = json.dumps(value, indent=1).replace("\n", "\n ")
            parts.append(f" {json.dumps(name)}: {body}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read_result(path: Path) -> Result:
    """One result file."""
    try:
        values = json.loads(path.read_text())
        if values.get("format") != RESULT_FORMAT:
            raise FileError(f"{path}: not a result file of this version (format {values.get('format')!r})")
        return Result.from_dict(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: damaged result file ({error}); remove it and run again") from error


def read_results(folder: Path) -> dict[str, Result]:
    """Every result below a folder, as :func:`by_key`."""
    return by_key(read_result(path) for path in sorted(folder.rglob("*.json")))


def by_key(results: Iterable[Result]) -> dict[str, Result]:
    """Results by the key of their config; of a config that was tuned and run, what was run."""
    return {result.config.key: result for result in sorted(results, key=lambda result: result.is_tested)}


def report_lines(result: Result, folder: Path) -> list[str]:
    """The scores, what a search chose, the cost, the notes, and where the file is."""
    seeds, splits = {run.seed for run in result.runs}, {run.split for run in result.runs}
    tested = (
        f"test {result.metric} {score_text(result, 'test')}, " if result.is_tested else f"not tested; {result.metric}: "
    )
    counted = [_count(len(result.runs), "run"), _count(len(seeds), "seed"), _count(len(splits), "split")]
    lines = [
        f"{result.dataset} {result.config.name}".strip(),
        f"  {tested}validation {score_text(result, 'val')} ({', '.join(counted)})",
    ]
    chosen = [run.values for run in result.runs if run.values]
    if chosen and all(values == chosen[0] for values in chosen):
        lines.append("  chosen on validation: " + ", ".join(f"{key}={value}" for key, value in chosen[0].items()))
    if result.runs:
        epochs = sorted(run.epochs for run in result.runs)
        seconds = sum(run.seconds for run in result.runs)
        size = max(run.num_parameters for run in result.runs)
        lines.append(f"  {size:,} parameters, {epochs[0]} to {epochs[-1]} epochs, {seconds:.1f} s in all")
    lines += [f"  note: {note}" for note in result.notes]
    return [*lines, f"  {folder / result.file_name()}"]


def score_text(result: Result, part: str) -> str:
    """Mean and deviation of a score, in percent where that is usual."""
    mean, std = result.mean_std(part)
    percent = result.metric in _PERCENT
    scale, decimals, unit = (100, 2, " %") if percent else (1, 4, "")
    spread = f" ± {scale * std:.{decimals}f}" if math.isfinite(std) else ""
    return f"{scale * mean:.{decimals}f}{spread}{unit}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
