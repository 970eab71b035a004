"""Search over the values of a config's ``search`` with Optuna: validation only, resumable, every refusal explained."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rfp.atomic import alone_in
from rfp.errors import ArgumentError, FileError, MissingExtraError, NumericalError, unknown_choice
from rfp.nn.counted_draws import training_seed
from rfp.train.results import Trial
from rfp.train.run_config import RunConfig

# Section A.1 of the paper. P, k and B belong to an encoding: see paper_grid.
PAPER_GRID: dict[str, tuple[Any, ...]] = {
    "training.lr": (1e-4, 1e-3, 1e-2, 1e-1),
    "training.weight_decay": (0.0, 1e-6, 1e-5, 1e-4, 1e-3),
    "model.dropout": (0.0, 0.5),
    "model.num_layers": (2, 4, 8, 16),
    "model.hidden_channels": (64, 128, 256),
    "num_steps": (2, 4, 8, 16, 32),
    "num_channels": (4, 8, 16, 32, 64),
    "num_trajectories": (5, 10),
}
SAMPLERS = ("auto", "grid", "tpe")
# With "auto", grids up to this size are tried whole.
WHOLE_GRID_MAX = 64
# Trials of a search that does not try the whole grid.
DEFAULT_TRIALS = 50

TellScore = Callable[[int, float], None]
"""Called with the epoch and the validation score; raises :class:`Hopeless` where the trial should end."""
Objective = Callable[[RunConfig, TellScore], float]
"""From a config without ``search`` to its validation score. It has no way to hand back a test score."""


class Hopeless(Exception):  # noqa: N818 - not an error: the trial ends early because others were better by then
    """Raised by :data:`TellScore`; let it pass through the training loop."""


@dataclass(frozen=True)
class SearchSettings:
    """How the space is searched; what is searched is ``config.search``.

    Args:
        trials: How many points in all, earlier runs of the same search included; ``None`` for the whole grid, or
            :data:`DEFAULT_TRIALS` where that is larger than :data:`WHOLE_GRID_MAX`.
        sampler: ``"grid"`` tries the points in order, ``"tpe"`` learns from the earlier ones, ``"auto"`` takes the
            first for small grids.
        prune: Whether to end trials that are worse than the median of the others at the same epoch.
        seed: Seed of the sampler.
    """

    trials: int | None = None
    sampler: str = "auto"
    prune: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise unknown_choice("sampler", self.sampler, SAMPLERS)
        if self.trials is not None and self.trials < 1:
            raise ArgumentError(f"trials must be at least 1, got {self.trials}")

    def resolve(self, grid_size: int) -> tuple[bool, int]:
        """Whether the points are tried in order, and how many."""
        in_order = self.sampler == "grid" or (self.sampler == "auto" and grid_size <= WHOLE_GRID_MAX)
        if self.trials is None:
            return in_order, grid_size if in_order else min(grid_size, DEFAULT_TRIALS)
        return in_order, min(self.trials, grid_size)


def paper_grid(config: RunConfig) -> dict[str, tuple[Any, ...]]:
    """The paper's grid for this config: k and P for each RFP encoding that it lists, B for one inside DSS.

    Example:
        >>> config = RunConfig.from_dict({"data": "zinc", "model": {"encodings": [{"name": "rfp"}]}})
        >>> list(paper_grid(config))[-3:]
        ['model.hidden_channels', 'model.encodings.0.num_channels', 'model.encodings.0.num_steps']
    """
    grid = {key: tried for key, tried in PAPER_GRID.items() if "." in key}
    encodings = config.model.get("encodings", ())
    drawn = [number for number, encoding in enumerate(encodings) if encoding.get("name") == "rfp"]
    for number in drawn:
        for key in ("num_channels", "num_steps"):
            grid[f"model.encodings.{number}.{key}"] = PAPER_GRID[key]
    # All encodings of a model share B, so it can be varied by one key only where there is one encoding.
    if len(drawn) == 1 and config.model.get("trajectories") == "dss":
        grid[f"model.encodings.{drawn[0]}.num_trajectories"] = PAPER_GRID["num_trajectories"]
    return grid


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found.

    Args:
        best: Values of the best trial, by dotted key.
        trials: All trials; the validation score of one that was refused or ended early is NaN.
        refused: Why points could not be tried (a model over its budget, a loss that turned NaN), by their values as
            JSON.
    """

    best: Mapping[str, Any]
    trials: tuple[Trial, ...]
    refused: Mapping[str, str]


def search_values(
    config: RunConfig,
    objective: Objective,
    *,
    higher_is_better: bool,
    settings: SearchSettings | None = None,
    storage: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> SearchOutcome:
    """Find the values of ``config.search`` with the best validation score.

    A search that was cut goes on where it stopped and finds what it would have found: its trials are in ``storage``,
    under the key of the config, so two different searches never mix. A point that comes up twice is trained once. Of
    several processes with one storage the first searches, and the others wait for it.

    Args:
        config: With a ``search`` that is not empty.
        objective: Trains a config and returns the validation score. An :class:`~rfp.errors.ArgumentError` (over the
            parameter budget, say) or :class:`~rfp.errors.NumericalError` refuses the point; other errors end the
            search, which can be taken up again.
        higher_is_better: Direction of the score.
        settings: How to search.
        storage: A file for the journal; ``None`` keeps it in memory.
        say: Gets a line for each trial.

    Raises:
        ArgumentError: There is nothing to search, or no point could be tried.
        MissingExtraError: Optuna is not installed.
        FileError: The journal is damaged.

    Example:
        >>> config = RunConfig.from_dict({"data": "zinc", "search": {"training.lr": [1e-3, 1e-2, 1e-1]}})
        >>> found = search_values(config, lambda c, report: abs(c.training.lr - 0.02), higher_is_better=False)
        >>> found.best, [round(trial.val, 3) for trial in found.trials]
        ({'training.lr': 0.01}, [0.019, 0.01, 0.08])
    """
    if not config.search:
        raise ArgumentError("the config has no search; add one, such as search: {training.lr: [0.001, 0.01]}")
    if storage is None:
        return _searched(config, objective, higher_is_better, settings or SearchSettings(), None, say)
    storage.parent.mkdir(parents=True, exist_ok=True)
    with alone_in(storage.parent, lambda: say("search: another process is at it; what it finds is taken from it")):
        return _searched(config, objective, higher_is_better, settings or SearchSettings(), storage, say)


def _searched(
    config: RunConfig,
    objective: Objective,
    higher_is_better: bool,
    settings: SearchSettings,
    storage: Path | None,
    say: Callable[[str], None],
) -> SearchOutcome:
    grid_size = math.prod(len(tried) for tried in config.search.values())
    in_order, wanted = settings.resolve(grid_size)
    study = _Study(config, higher_is_better, settings, storage)
    total = f"{wanted} (of {grid_size})" if wanted < grid_size else str(wanted)
    if study.known:
        say(f"search: {len(study.known)} of {wanted} points were tried before")
    before = set(study.known)
    waiting = (point for point in _grid(config) if _text(point) not in before) if in_order else iter(())
    # A sampler that has converged proposes what is known: bounded, so that it cannot go on for ever.
    proposals = 20 * wanted
    while len(study.known) < wanted and proposals:
        proposals -= 1
        trial, point = study.ask(next(waiting, None))
        if _text(point) in study.known:
            study.repeat(trial, point)
            continue
        score, reason = _score(objective, config.with_values(point), study, trial)
        study.tell(trial, point, score, reason)
        said = f"{score:.5g}" if reason is None else reason
        say(f"search: {len(study.known)}/{total} {_readable(point)}: {said}")
    return study.outcome()


def _score(objective: Objective, config: RunConfig, study: _Study, trial: Any) -> tuple[float, str | None]:
    try:
        score = objective(config, study.reporter(trial))
    except Hopeless as early:
        return math.nan, str(early)
    except (ArgumentError, NumericalError) as error:
        return math.nan, f"refused: {str(error).splitlines()[0]}"
    return score, None if math.isfinite(score) else f"refused: the validation score is {score}"


class _Study:
    """An Optuna study whose finished trials are known by their values.

    A grid is enqueued point by point. Optuna's ``GridSampler`` and ``BruteForceSampler`` go through it too, but in
    random order; they take the point of a run that was killed for one that was tried, and end by stopping an
    ``optimize`` loop, which a search that can be cut and continued between any two trials does not have.
    """

    def __init__(self, config: RunConfig, higher: bool, settings: SearchSettings, storage: Path | None) -> None:
        try:
            import optuna
        except ImportError as error:
            raise MissingExtraError("optuna", "train", "a search") from error
        self._optuna, self._search, self._higher, self._seed = optuna, config.search, higher, settings.seed
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            self.study = optuna.create_study(
                study_name=config.key,
                direction="maximize" if higher else "minimize",
                pruner=optuna.pruners.MedianPruner() if settings.prune else optuna.pruners.NopPruner(),
                storage=None if storage is None else _journal(storage),
                load_if_exists=True,
            )
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
            raise FileError(f"{storage}: damaged journal of a search ({error}); remove it and search anew") from error
        self.known: dict[str, Trial] = {}
        self.refused: dict[str, str] = {}
        for trial in self.study.get_trials(deepcopy=False):
            if trial.state == optuna.trial.TrialState.RUNNING:  # cut by a kill: its point is tried again
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            elif trial.state.is_finished() and "values" in trial.user_attrs:
                self._learn(trial.user_attrs["values"], trial.user_attrs["val"], trial.user_attrs["reason"])

    def ask(self, point: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        """The next trial and its values: those of ``point``, or what the sampler proposes."""
        choice = self._optuna.distributions.CategoricalDistribution
        texts = {key: [json.dumps(value) for value in tried] for key, tried in self._search.items()}
        if point is not None:
            self.study.enqueue_trial({key: json.dumps(value) for key, value in point.items()})
        # A stream of its own for each trial: one that went on would begin again in a search that is taken up.
        states = self._optuna.trial.TrialState
        told = len(self.study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED)))
        self.study.sampler = self._optuna.samplers.TPESampler(seed=training_seed(self._seed, told) % (1 << 32))
        trial = self.study.ask({key: choice(options) for key, options in texts.items()})
        return trial, {key: self._search[key][texts[key].index(trial.params[key])] for key in self._search}

    def reporter(self, trial: Any) -> TellScore:
        def report(epoch: int, score: float) -> None:
            if math.isfinite(score):
                trial.report(score, epoch)
            if trial.should_prune():
                raise Hopeless(f"ended at epoch {epoch}: worse than the median of the others")

        return report

    def tell(self, trial: Any, point: Mapping[str, Any], score: float, reason: str | None) -> None:
        for name, value in (("values", dict(point)), ("val", None if reason else score), ("reason", reason)):
            trial.set_user_attr(name, value)
        self._finish(trial, score, reason)
        self._learn(point, None if reason else score, reason)

    def repeat(self, trial: Any, point: Mapping[str, Any]) -> None:
        """A known point: the sampler is told its score again, nothing is trained."""
        known = self.known[_text(point)]
        self._finish(trial, known.val, self.refused.get(_text(point)))

    def _finish(self, trial: Any, score: float, reason: str | None) -> None:
        states = self._optuna.trial.TrialState
        if reason is None:
            self.study.tell(trial, score)
        else:
            self.study.tell(trial, state=states.PRUNED)

    def _learn(self, values: Mapping[str, Any], val: float | None, reason: str | None) -> None:
        self.known[_text(values)] = Trial(dict(values), math.nan if val is None else val)
        if reason is not None:
            self.refused[_text(values)] = reason

    def outcome(self) -> SearchOutcome:
        trials = tuple(self.known.values())
        finished = [trial for trial in trials if math.isfinite(trial.val)]
        if not finished:
            raise ArgumentError(
                f"no point of the search could be tried; the first: {next(iter(self.refused.values()))}"
            )
        best = (max if self._higher else min)(finished, key=lambda trial: trial.val)
        return SearchOutcome(best.values, trials, dict(self.refused))


def _journal(path: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    _drop_torn_line(path)
    # The lock by opening a file works where links cannot be made.
    return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path))))


def _drop_torn_line(path: Path) -> None:
    """Take away the end of a line that a full disk or a power cut left: the next one would be written on to it."""
    if path.exists():
        with open(path, "rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)


def _grid(config: RunConfig) -> Iterator[dict[str, Any]]:
    return (dict(zip(config.search, values, strict=True)) for values in product(*config.search.values()))


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _readable(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.rsplit('.', 1)[-1]}={value}" for key, value in values.items())
