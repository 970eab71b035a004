"""One run: from a config to a result, by whichever engine fits the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rfp.data import load
from rfp.data.loaded import LoadedTask
from rfp.environment import environment
from rfp.errors import ArgumentError
from rfp.train.checkpoints import check_data
from rfp.train.halving import Halving
from rfp.train.halving_choice import recorded_runs, unfinished
from rfp.train.halving_plan import takes_up
from rfp.train.lightning_run import fit
from rfp.train.node_grid import NodeTrainer, train_nodes
from rfp.train.node_halving import halve
from rfp.train.replica_program import replicable, unfit
from rfp.train.results import Result, RunRecord, Trial, read_result
from rfp.train.run_config import RunConfig
from rfp.train.search import SearchSettings, search_values
from rfp.train.trained_replicas import KeptReplicas
from rfp.train.workspace import Workspace

# Graphs with more nodes train one run at a time unless replicas are asked for (PubMed, the largest of the ten-split
# sets, has 19,717).
REPLICAS_MAX_NODES = 50_000


def run(
    config: RunConfig,
    *,
    seeds: Sequence[int] = (0,),
    splits: Sequence[int] | None = None,
    workspace: Workspace | None = None,
    resume: bool = True,
    search_settings: SearchSettings | None = None,
    test: bool = True,
) -> Result:
    """Train a config for every seed and split that its result file does not hold yet.

    Node tasks on one graph train all splits and the grid of ``config.search`` together; every other task one run after
    the other, with its values chosen by :func:`rfp.train.search.search_values` first. Model selection reads validation
    scores alone; the test score of a run is computed once, from its selected weights. The result file is written after
    every run, so what was cut goes on where it stopped.

    Args:
        config: What to train.
        seeds: One model of each.
        splits: All splits of the data by default.
        workspace: Where data, results and checkpoints are, and the device.
        resume: Take finished runs from the result file and unfinished ones from their checkpoint.
        search_settings: How to go about ``config.search``. For node tasks on one graph ``trials`` counts the
            combinations of keys other than lr and weight decay.
        test: ``False`` while values are being tried: no test score is computed, and the records have none.

    Returns:
        The merged result.

    Example:
        >>> club = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.5, 0.25, 0.25]}
        >>> model = {"backbone": "gcn", "norm": "none", "encodings": [{"name": "rfp", "num_channels": 4}]}
        >>> result = run(RunConfig.from_dict({"data": club, "model": model, "training": {"epochs": 2}}))
        >>> len(result.runs), sorted(result.runs[0].metrics)
        (1, ['test', 'val'])
    """
    workspace = workspace or Workspace()
    device = workspace.torch_device()
    loaded = load(config.data, data_root=workspace.data_root, cache=workspace.cache)
    wanted = list(range(loaded.num_splits)) if splits is None else list(splits)
    for split in wanted:
        loaded.rows("train", split)  # raises if there is no such split
    if "encodings" not in config.model:
        workspace.say("the model's config names no encodings, so it has RFP with its defaults; encodings: [] is none")
    facts = environment(device.type)
    task = loaded.task
    result = Result(
        *(config, task.name, task.metric, task.higher_is_better),
        environment=facts,
        notes=loaded.notes,
        data_digest=loaded.digest,
    )
    path = None if workspace.results is None else workspace.results / result.file_name()
    if path is not None and resume:
        result = _known(path, loaded.digest) if path.exists() else _of_earlier_search(result, workspace)
    missing = _missing(result, seeds, wanted, test)
    for split in dict.fromkeys(split for _, split in missing):  # before hours of training, or a search
        loaded.check_parts(split, tested=test)
    for split in [split for _, split in missing][:1]:  # those of others are of the same kind
        if line := loaded.far_targets(split):
            workspace.say(line)
    if config.search and not missing and search_settings is not None and search_settings.trials is not None:
        workspace.say(f"this search is done, of {len(result.trials)} trials; --no-resume searches anew")
    if (missing or unfinished(result, wanted, seeds)) and _engine(config, loaded) == "replicas":
        if workspace.num_devices > 1:
            workspace.say('replicas train on one device; for several, one run at a time: training.engine: "lightning"')
        kept = None
        if workspace.checkpoints is not None and resume:
            kept = KeptReplicas(workspace.checkpoints / config.key / _of_data("replicas", loaded))
        result = _together(result, loaded, list(seeds), wanted, workspace, search_settings, test, kept, resume)
        if kept is not None:
            kept.clear()
        return result
    if missing and config.halving is not None:
        reason = _only_alone(config) or f"{task.name!r}, which is not such a task"
        raise ArgumentError(f"halving searches node tasks on one graph by replicas; leave it out, for here is {reason}")
    for seed, split in missing:
        workspace.check_time()
        chosen, trials = _chosen(config, loaded, result, split, device, workspace, search_settings, resume)
        record = _train_alone(config.with_values(chosen), loaded, seed, split, device, workspace, resume, test=test)
        result = _store(result, [replace(record, values=chosen)], trials, facts, workspace, beside_others=resume)
    return result


def _known(path: Path, data_digest: str) -> Result:
    """The result in a file, if it is of these data."""
    result = read_result(path)
    check_data(path, result.data_digest, data_digest)
    return replace(result, data_digest=data_digest or result.data_digest)


def _of_data(name: str, loaded: LoadedTask) -> str:
    """A name for what is kept of a training, another one for other data."""
    return f"{name}-{loaded.digest}" if loaded.digest else name


def _of_earlier_search(result: Result, workspace: Workspace) -> Result:
    """The result with the trials, and the runs, of the longest search that this one takes up, if there is one."""
    if result.config.halving is None or workspace.results is None:
        return result
    here = workspace.results / result.file_name()
    beside = [read_result(path) for path in sorted(here.parent.glob(f"{here.stem.rpartition('-')[0]}-*.json"))]
    like = (r for r in beside if takes_up(result.config, r.config) and r.data_digest == result.data_digest)
    before = max(like, key=lambda r: len(r.trials), default=None)
    if before is None:
        return result
    path = workspace.results / before.file_name()
    workspace.say(f"{result.dataset} {result.config.name}: goes on from the {len(before.trials)} trials in {path}")
    return replace(before, config=result.config)


def _missing(result: Result, seeds: Sequence[int], splits: Sequence[int], test: bool) -> list[tuple[int, int]]:
    return [(seed, split) for seed in seeds for split in splits if not result.has(seed, split, tested=test)]


def _together(
    result: Result,
    loaded: LoadedTask,
    seeds: list[int],
    splits: list[int],
    workspace: Workspace,
    settings: SearchSettings | None,
    test: bool,
    kept: KeptReplicas | None,
    resume: bool,
) -> Result:
    """The result with its missing runs, all of them trained as replicas."""
    device = workspace.torch_device()
    config, facts, missing = result.config, environment(device.type), _missing(result, seeds, splits, test)

    def tick(what: str, done: int, total: int) -> None:
        workspace.check_time()
        workspace.tick(what, done, total)

    workspace.check_time()
    train_with = partial(
        NodeTrainer,
        loaded=loaded,
        device=device,
        tick=tick,
        tested=test,
        memory_share=workspace.memory_share,
        kept=kept,
    )
    trainer = train_with(config)
    whole = {seed for seed in seeds if all(result.has(seed, split) for split in splits)}
    if config.halving is not None and (not whole or unfinished(result, splits, seeds)):
        result = _halved(result, trainer, config.halving, sorted(whole) or seeds, splits, facts, workspace)
        if not whole:
            return result
    there = {run.seed for run in result.runs}
    settled = {seed for seed in there if all(result.has(seed, split) for split in splits)}
    if config.search and not settled:
        # The grid is judged over all splits asked for, and those whose runs are there: all runs have the same values.
        found = train_nodes(
            trainer,
            seeds=sorted({*seeds, *there}),
            splits=sorted({*splits, *(run.split for run in result.runs)}),
            settings=settings,
            say=workspace.say,
        )
        return _store(result, found.runs, found.trials or None, facts, workspace)
    chosen: dict[str, Any] = {}
    if config.search:
        # The choice was made on all splits: further seeds are trained with it.
        chosen = dict(next(run.values for run in result.runs if run.seed in settled))
        trainer = train_with(config.with_values(chosen))
    for seed in seeds:
        these = [split for one, split in missing if one == seed]
        if these:
            runs = [replace(run, values=chosen) for run in train_nodes(trainer, seeds=[seed], splits=these).runs]
            result = _store(result, runs, None, facts, workspace, beside_others=resume)
    return result


def _halved(
    result: Result,
    trainer: NodeTrainer,
    halving: Halving,
    seeds: list[int],
    splits: list[int],
    facts: Mapping[str, str],
    workspace: Workspace,
) -> Result:
    """The result of a search by halving; trials and runs are written as they come, and taken where they are there."""

    def save(trials: Sequence[Trial]) -> None:
        nonlocal result
        result = _store(result, [], trials, facts, workspace)

    def record(among: str, runs: Sequence[RunRecord]) -> None:
        nonlocal result  # none of them is the choice until all have their runs
        here = tuple(replace(run, device=facts["device"]) for run in runs)
        open_yet = replace(result, runs=(), alternatives={**recorded_runs(result), among: here})
        result = _store(open_yet, [], None, facts, workspace)

    wanted = {(seed, split) for seed in seeds for split in splits}
    recorded = {
        among: runs
        for among, runs in recorded_runs(result).items()
        if wanted <= {(run.seed, run.split) for run in runs}
    }
    halved = halve(
        trainer,
        halving,
        seeds=seeds,
        splits=splits,
        trials=result.trials,
        recorded=recorded,
        save=save,
        record=record,
        say=workspace.say,
    )
    there = recorded_runs(result)
    others = {among: there[among] for among in halved.alternatives}
    return _store(replace(result, runs=there[halved.chosen], alternatives=others), [], halved.trials, facts, workspace)


def _chosen(
    config: RunConfig,
    loaded: LoadedTask,
    result: Result,
    split: int,
    device: torch.device,
    workspace: Workspace,
    settings: SearchSettings | None,
    resume: bool,
) -> tuple[dict[str, Any], Sequence[Trial]]:
    """The searched values of all runs of a result: those of its runs, or the best of a search on one split."""
    if not config.search or result.runs:
        return dict(result.runs[0].values) if result.runs else {}, result.trials

    def validation(point: RunConfig, report: Callable[[int, float], None]) -> float:
        workspace.check_time()
        record = _train_alone(point, loaded, 0, split, device, workspace, resume, test=False, report=report)
        return record.metrics["val"]

    storage = (
        None
        if workspace.checkpoints is None
        else workspace.checkpoints / config.key / f"{_of_data('search', loaded)}.journal"
    )
    if storage is not None and not resume:
        storage.unlink(missing_ok=True)
    outcome = search_values(
        config,
        validation,
        higher_is_better=loaded.task.higher_is_better,
        settings=settings,
        storage=storage,
        say=workspace.say,
    )
    return dict(outcome.best), outcome.trials


def _train_alone(
    config: RunConfig,
    loaded: LoadedTask,
    seed: int,
    split: int,
    device: torch.device,
    workspace: Workspace,
    resume: bool,
    *,
    test: bool,
    report: Callable[[int, float], None] | None = None,
) -> RunRecord:
    folder = None if workspace.checkpoints is None else workspace.checkpoints / config.key / f"seed{seed}-split{split}"
    what = f"{loaded.task.name} {config.name}".strip() + f", seed {seed}"
    what += f", split {split}" if loaded.num_splits > 1 else ""

    def watched(epoch: int, score: float) -> None:
        if not workspace.progress:
            workspace.tick(what, epoch + 1, config.training.epochs)
        workspace.check_time()  # what was trained is in the checkpoint
        if report is not None:
            report(epoch, score)

    return fit(
        config,
        loaded,
        seed=seed,
        split=split,
        device=device,
        num_devices=workspace.num_devices,
        folder=folder,
        resume=resume,
        progress=workspace.progress,
        say=workspace.say,
        test=test,
        report=watched,
    )


def _engine(config: RunConfig, loaded: LoadedTask) -> str:
    if config.training.engine != "auto":
        return config.training.engine
    if unfit(loaded) or loaded.graphs.num_nodes > REPLICAS_MAX_NODES or _only_alone(config):
        return "lightning"
    # Of a search by halving those that replicas cannot do are left out, each with a line.
    together = config.halving is not None or all(replicable(one, loaded) for one in config.each_value())
    return "replicas" if together else "lightning"


def _only_alone(config: RunConfig) -> str:
    """What of its training, values that are searched included, asks for one run at a time."""
    return next((one.training.only_alone for one in config.each_value() if one.training.only_alone), "")


def _store(
    result: Result,
    runs: Sequence[RunRecord],
    trials: Sequence[Trial] | None,
    facts: Mapping[str, str],
    workspace: Workspace,
    *,
    beside_others: bool = False,
) -> Result:
    """The result with further runs, written if there is a folder; other processes may train other seeds of it."""
    here = [replace(record, device=facts["device"]) for record in runs]
    result = replace(result.with_runs(here, trials), environment=facts)
    if workspace.results is None:
        return result
    if beside_others:
        return result.write_beside_others(workspace.results)
    result.write(workspace.results)
    return result
