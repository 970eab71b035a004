"""Graph tasks, and node tasks on many graphs or a large one: one run by Lightning, from the config to its record."""

from __future__ import annotations

import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, MissingExtraError
from rfp.nn import RFPModel
from rfp.train.batches import Batches
from rfp.train.config import RunConfig
from rfp.train.encodings import fixed_encodings
from rfp.train.evaluation import predict, score
from rfp.train.quiet import quiet
from rfp.train.results import RunRecord

if TYPE_CHECKING:
    from rfp.train.module import TrainingModule


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
        config: Of the run, without a ``search``.
        loaded: The data, on any device.
        seed: Of weights, order, dropout and draws.
        split: Number of the split.
        device: Where to train; with several devices only its type is read.
        num_devices: Processes, one a device, that share every batch.
        folder: Of checkpoints and logs (``last.ckpt``, ``best.ckpt``, ``metrics.csv``, TensorBoard's files if it is
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
            return _fit(config, loaded, seed, split, device, num_devices, place, False, progress, say, test, report)
    return _fit(config, loaded, seed, split, device, num_devices, folder, resume, progress, say, test, report)


def _fit(
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
        from rfp.train.checkpoints import LAST, check_identity, read_checkpoint
        from rfp.train.module import TrainingModule
        from rfp.train.trainer import make_trainer

    for part in ("train", "val", "test"):
        if not len(loaded.rows(part, split)):
            raise ArgumentError(f"split {split} of {loaded.task.name!r} has nothing in its {part} part")
    started = time.perf_counter()
    cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if cuda else []), quiet():
        torch.manual_seed(seed)
        model = RFPModel(config.model_config(loaded, seed))
        loaded = loaded if num_devices > 1 else loaded.to(device)
        stored = fixed_encodings(model, loaded.graphs.graph, loaded.graphs.x)
        loaded = replace(loaded, graphs=loaded.graphs.with_nodes(**stored))
        module = TrainingModule(model, config, loaded, seed=seed, split=split, report=report)
        last = None if folder is None else folder / LAST
        resumed = False
        if last is not None and last.exists():
            if resume:
                content = read_checkpoint(last)
                check_identity(last, content, config, seed, split)
                module.restore(content)
                resumed = True
                say(f"continuing from epoch {module.course.epochs} of {last}")
            else:
                for file in folder.glob("*.ckpt"):  # type: ignore[union-attr]
                    file.unlink()
        if cuda:
            torch.cuda.reset_peak_memory_stats(device)
        if not module.course.finished:
            trainer = make_trainer(module, device=device, num_devices=num_devices, folder=folder, progress=progress)
            with _interruptible():
                trainer.fit(module, ckpt_path=str(last) if resumed else None)
            if num_devices > 1:  # it happened in other processes
                module.restore(read_checkpoint(last))  # type: ignore[arg-type]
        course = module.course
        say(f"{course.reason}; best epoch {course.best_epoch} with {loaded.task.metric} {course.best_score:.5g} (val)")
        metrics = _final_scores(module, device, ("val", "test") if test else ("val",))
    row = course.history[course.best_epoch]
    metrics |= {"train_loss": row["train_loss"], "val_loss": row["val_loss"]}
    metrics["seconds_per_epoch"] = statistics.median(row["seconds"] for row in course.history)
    if cuda:
        metrics["peak_memory_mib"] = torch.cuda.max_memory_allocated(device) / 2**20
    seconds = time.perf_counter() - started if not resumed else course.seconds
    return RunRecord(seed, split, metrics, course.best_epoch, course.epochs, seconds, model.num_parameters)


def _final_scores(module: TrainingModule, device: torch.device, parts: Sequence[str]) -> dict[str, float]:
    """The best weights on the validation and, for the first and only time, on the test part."""
    from rfp.train.module import EVALUATION_BATCH

    training, task = module.config.training, module.loaded.task
    module.model.load_state_dict(module.best)  # type: ignore[arg-type]
    model = module.model.to(device)
    loaded = module.loaded.to(device)
    scores: dict[str, float] = {}
    for part in parts:
        batches = Batches(loaded, part, module.split, batch_size=training.batch_size * EVALUATION_BATCH)
        prediction, label = predict(model, batches, task.kind, training.eval_draws)
        scores[part] = score(task, prediction, label, f"the best weights on the {part} part")
    return scores


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt here too; Lightning would make it an exit and switch the signal off."""
    main = threading.current_thread() is threading.main_thread()
    handler: Any = signal.getsignal(signal.SIGINT) if main else None
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
