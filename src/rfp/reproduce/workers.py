"""Cells of a table in several processes, side by side on one machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from rfp.errors import ArgumentError, FileError, RFPError, is_out_of_memory
from rfp.reproduce.execute import Failure, NoRoomError, RunCell, apart_by_seed, dearest_last, run_missing
from rfp.reproduce.mps import multi_process_service
from rfp.reproduce.spec import Cell
from rfp.train import OutOfTime, Result, RunConfig, Workspace, read_results, run
from rfp.train.gpu_memory import give_back


def run_cells(cells: Iterable[Cell], results: Path, train: RunCell, workspace: Workspace, jobs: int) -> list[Failure]:
    """Run what cells still need, those that cost most last; returns what failed.

    Args:
        cells: Cells of a table.
        results: Folder of the results that there are.
        train: Trains one of them in this process.
        workspace: Where things are.
        jobs: How many at a time; several in as many processes (:func:`workers`), seeds of graph tasks side by side.
    """
    waiting, known = dearest_last(cells), read_results(results)
    if jobs == 1:
        return run_missing(waiting, known, train, workspace.say)[1]
    with workers(jobs, workspace) as train_beside:
        alone = partial(train_beside, alone=True)
        cells = apart_by_seed(waiting, known)
        return run_missing(cells, known, train_beside, workspace.say, jobs=jobs, run_alone=alone)[1]


class RunBeside(Protocol):
    """A :data:`~rfp.reproduce.execute.RunCell` that may be told that nothing runs beside it."""

    def __call__(
        self, config: RunConfig, seeds: Sequence[int], splits: Sequence[int], *, alone: bool = False
    ) -> Result: ...


@contextmanager
def workers(jobs: int, workspace: Workspace) -> Iterator[RunBeside]:
    """A function that trains a config in the next free of ``jobs`` processes and waits for it.

    Several small models share a GPU better than they fill it one by one. Each process has its share of the cores.

    Args:
        jobs: Number of processes, each of which imports everything once.
        workspace: Where things are; a worker says nothing but how far it is. Results are handed over by their files. On
            a GPU the processes share it by the multi-process service, where there is one.
    """
    if workspace.results is None:
        raise ArgumentError("workers need a folder for result files")
    where = {
        "data_root": workspace.data_root,
        "cache": workspace.cache,
        "results": workspace.results,
        "checkpoints": workspace.checkpoints,
        "device": workspace.device,
        "deadline": workspace.deadline,
        "tick": workspace.tick,
    }
    # Spawned: a fork cannot use CUDA, nor the threads of torch.
    context = multiprocessing.get_context("spawn")
    device = workspace.torch_device()
    service = multi_process_service(workspace.say) if device.type == "cuda" else nullcontext(False)
    with service, ProcessPoolExecutor(jobs, context, initializer=_share_cores, initargs=(jobs,)) as pool:

        def train(config: RunConfig, seeds: Sequence[int], splits: Sequence[int], *, alone: bool = False) -> Result:
            share = 1.0 if alone else 1 / jobs
            there = where | {"memory_share": workspace.memory_share * share}
            failure = pool.submit(_train, config.to_dict(), list(seeds), list(splits), there, share).result()
            if failure is not None:
                kind, reason = failure
                raise _ERRORS[kind](reason)
            assert workspace.results is not None
            return read_results(workspace.results)[config.key]

        try:
            yield train
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


# The rest is the contexts of the processes.
_MEMORY_SHARED = 0.92
# Not every error can travel between processes: its kind and its text do.
_ERRORS: dict[str, type[Exception]] = {
    "time": OutOfTime,
    "file": FileError,
    "argument": ArgumentError,
    "memory": NoRoomError,
}


def _share_cores(jobs: int) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))


def _share_memory(device: torch.device, share: float) -> None:
    """Of a GPU: replicas that find too little train in two turns, and leave others theirs."""
    if device.type == "cuda":
        # By its number: "cuda" alone is refused here, by torch and not by most of it.
        torch.cuda.set_per_process_memory_fraction(_MEMORY_SHARED * share, device.index or 0)


def _train(
    config: dict[str, Any], seeds: list[int], splits: list[int], where: dict[str, Any], share: float
) -> tuple[str, str] | None:
    """Train in this process; returns a key of :data:`_ERRORS` and a reason, or ``None``.

    Args:
        config: Of :class:`RunConfig`.
        seeds: Which to train.
        splits: Of the data.
        where: Of :class:`Workspace`.
        share: Of a GPU's memory.
    """
    try:
        workspace = Workspace(**where)
        _share_memory(workspace.torch_device(), share)
        run(RunConfig.from_dict(config), seeds=seeds, splits=splits, workspace=workspace)
    except OutOfTime as error:
        return "time", str(error)
    except (RFPError, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            if not isinstance(error, RFPError):
                raise
            return "file" if isinstance(error, FileError) else "argument", str(error)
        if isinstance(error, RFPError):  # which says what to do
            return "memory", str(error)
        # After this torch lists the processes on the device, one sentence each.
        reason = str(error).splitlines()[0].split(" Process ")[0].split(" Including ")[0].rstrip(".")
        return "memory", f"{reason or type(error).__name__}; use fewer --jobs, or lower rfp.reproduce.hyperparameters"
    finally:
        give_back()  # what this process keeps for its next cell is missing to those beside it
    return None
