"""Graph tasks, and node tasks on many graphs or a large one: one run, from the config to its record."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rfp.data.loaded import LoadedTask
from rfp.data.metrics import METRICS
from rfp.errors import ArgumentError, MissingExtraError
from rfp.nn import RFPModel
from rfp.train.batches import Batches, PartBatches
from rfp.train.checkpoints import LAST, check_identity, read_checkpoint
from rfp.train.evaluation import predict_batches, score
from rfp.train.fixed_encodings import fixed_encodings
from rfp.train.link_batches import HeldOutPairs
from rfp.train.quiet import quiet
from rfp.train.results import RunRecord
from rfp.train.run_config import RunConfig

if TYPE_CHECKING:
    from rfp.train.training_loop import TrainingLoop


def fit(
    config: RunConfig,
    loaded: LoadedTask,
    *,
    seed: int,
    split: int,
    device: torch.device,
    num_devices: int = 1,
    folder: Path | None = None,
    resume: bool = True,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
    test: bool = True,
    report: Callable[[int, float], None] | None = None,
) -> RunRecord:
    """Train one model, choose its epoch by validation, and score it on the test part once.

    Args:
        config: Config of the run, without a ``search``.
        loaded: The data, on any device.
        seed: Seed of weights, order, dropout and draws.
        split: Number of the split.
        device: Where to train; with several devices only its type is read.
        num_devices: Processes, one a device, that share every batch.
        folder: For checkpoints and logs (``last.ckpt``, ``best.ckpt``, ``metrics.csv``, TensorBoard's files if it is
            installed); ``None`` writes nothing.
        resume: Continue from ``last.ckpt`` if it is there; otherwise start anew and replace it.
        progress: Draw a progress bar on stderr.
        say: Gets a line for each thing worth knowing.
        test: ``False`` leaves the test part alone, as the trials of a search do.
        report: Told the epoch and its validation score; what it raises ends the run.

    Returns:
        Scores ``val`` and ``test`` of the chosen epoch, from predictions averaged over ``training.eval_draws`` draws;
        ``train_loss``, ``val_loss``, ``seconds_per_epoch`` and, on a GPU, ``peak_memory_mib``.

    Raises:
        MissingExtraError: Lightning is not installed.
        FileError: The checkpoint is damaged or of another run.
        NumericalError: A loss or a prediction is NaN or infinite; checkpoints are kept.
    """
    if find_spec("lightning") is None:
        raise MissingExtraError("lightning", "train", "training on graphs")
    if config.search:
        raise ArgumentError(f"one run has no search, got values to try for {', '.join(config.search)}")
    if num_devices < 1:
        raise ArgumentError(f"num_devices must be at least 1, got {num_devices}")
    if num_devices > 1 and folder is None:
        with tempfile.TemporaryDirectory() as name:  # the processes hand over their result by a file
            place = Path(name)
            return _trained(config, loaded, seed, split, device, num_devices, place, False, progress, say, test, report)
    return _trained(config, loaded, seed, split, device, num_devices, folder, resume, progress, say, test, report)


def _trained(
    config: RunConfig,
    loaded: LoadedTask,
    seed: int,
    split: int,
    device: torch.device,
    num_devices: int,
    folder: Path | None,
    resume: bool,
    progress: bool,
    say: Callable[[str], None],
    test: bool,
    report: Callable[[int, float], None] | None,
) -> RunRecord:
    with quiet():
        from lightning.fabric import Fabric

        from rfp.train.several_devices import train_on_several
        from rfp.train.training_loop import TrainingLoop

    loaded.check_parts(split, tested=test)
    started = time.perf_counter()
    cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if cuda else []), quiet():
        torch.manual_seed(seed)
        model = RFPModel(config.model_config(loaded, seed))
        loaded = loaded.at_split(split)
        loaded = loaded if num_devices > 1 else loaded.to(device)
        if loaded.held_out is None:  # the graphs of links change from batch to batch, and their encodings with them
            stored = fixed_encodings(model, loaded.graphs.graph, loaded.graphs.x)
            loaded = replace(loaded, graphs=loaded.graphs.with_nodes(**stored))
        loop = TrainingLoop(
            model, config, loaded, seed=seed, split=split, folder=folder, progress=progress, report=report
        )
        resumed = folder is not None and _resume(loop, folder, resume, say)
        if cuda:
            torch.cuda.reset_peak_memory_stats(device)
        if not loop.history.finished:
            one = [device.index or 0] if cuda else 1
            fabric = Fabric(
                accelerator="gpu" if cuda else device.type,
                devices=one if num_devices == 1 else num_devices,
                # Started from this process: a script is not run again, and it works from a notebook.
                strategy="auto" if num_devices == 1 else "ddp_spawn",
                precision=config.training.precision,  # checked by the config
            )
            if num_devices == 1:
                loop.run(fabric)
            else:
                train_on_several(fabric, loop)
                loop.restore(read_checkpoint(folder / LAST))  # type: ignore[operator]  # it happened elsewhere
        history = loop.history
        best = f"best epoch {history.best_epoch} with {loaded.task.metric} {history.best_score:.5g} (val)"
        say(f"{history.reason}; {best}")
        metrics = _final_scores(loop, device, ("val", "test") if test else ("val",))
    row = history.rows[history.best_epoch]
    metrics |= {"train_loss": row["train_loss"], "val_loss": row["val_loss"]}
    metrics["seconds_per_epoch"] = statistics.median(row["seconds"] for row in history.rows)
    if cuda:
        metrics["peak_memory_mib"] = torch.cuda.max_memory_allocated(device) / 2**20
    seconds = time.perf_counter() - started if not resumed else history.seconds
    return RunRecord(seed, split, metrics, history.best_epoch, history.epochs, seconds, model.num_parameters)


def _resume(loop: TrainingLoop, folder: Path, wanted: bool, say: Callable[[str], None]) -> bool:
    """Go on from the checkpoint in a folder, if there is one and that is wanted; else start anew and replace it."""
    last = folder / LAST
    if not last.exists():
        return False
    if not wanted:
        for file in folder.glob("*.ckpt"):
            file.unlink()
        return False
    content = read_checkpoint(last)
    check_identity(last, content, loop.config, loop.seed, loop.split, loop.loaded.digest)
    loop.restore(content)
    say(f"continuing from epoch {loop.history.epochs} of {last}")
    return True


def _final_scores(loop: TrainingLoop, device: torch.device, parts: Sequence[str]) -> dict[str, float]:
    """The best weights on the validation and, for the first and only time, on the test part."""
    from rfp.train.model_batches import EVALUATION_BATCH

    training, task = loop.config.training, loop.loaded.task
    loop.model.load_state_dict(loop.best)  # type: ignore[arg-type]
    model = loop.model.to(device)
    loaded = loop.loaded.to(device)
    scores: dict[str, float] = {}
    for part in parts:
        batches: PartBatches
        if loaded.held_out is not None:
            encode = partial(fixed_encodings, model, x=loaded.graphs.x)
            batches = HeldOutPairs(loaded, part, encode=encode)
        else:
            batches = Batches(loaded, part, loop.split, batch_size=training.batch_size * EVALUATION_BATCH)
        prediction, label = predict_batches(model, batches, task.kind, training.eval_draws)
        scores[part] = score(task, prediction, label, f"the best weights on the {part} part")
        if loaded.held_out is not None:  # papers print several of them
            others = [name for name, metric in METRICS.items() if "link" in metric.kinds]
            scores |= {f"{part}_{name}": METRICS[name](prediction, label, task.kind) for name in others}
    return scores
