"""Cells of a table in several processes, side by side on one machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from rfp.errors import ArgumentError, FileError, RFPError
from rfp.reproduce.execute import Run
from rfp.train import Result, RunConfig, Workspace, read_results, run


@contextmanager
def workers(jobs: int, workspace: Workspace) -> Iterator[Run]:
    """A function that trains a config in the next free of ``jobs`` processes and waits for it.

    Several small models share a GPU better than they fill it one by one. Each process has its share of the cores.

    Args:
        jobs: Number of processes, each of which imports everything once.
        workspace: Where things are; a worker is silent. Results are handed over by their files.
    """
    if workspace.results is None:
        raise ArgumentError("workers need a folder for result files")
    where = {
        "data_root": workspace.data_root,
        "cache": workspace.cache,
        "results": workspace.results,
        "checkpoints": workspace.checkpoints,
        "device": workspace.device,
    }
    # Spawned: a fork cannot use CUDA, nor the threads of torch.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=_share_cores, initargs=(jobs,)) as pool:

        def train(config: RunConfig, seeds: Sequence[int], splits: Sequence[int]) -> Result:
            failure = pool.submit(_train, config.to_dict(), list(seeds), list(splits), where).result()
            if failure is not None:
                is_file, reason = failure
                raise FileError(reason) if is_file else ArgumentError(reason)
            assert workspace.results is not None
            return read_results(workspace.results)[config.key]

        try:
            yield train
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _share_cores(jobs: int) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))


def _train(
    config: dict[str, Any], seeds: list[int], splits: list[int], where: dict[str, Path | str | None]
) -> tuple[bool, str] | None:
    """Train in this process; returns whether a file was at fault and why, or ``None``: not every error can travel."""
    try:
        run(RunConfig.from_dict(config), seeds=seeds, splits=splits, workspace=Workspace(**where))  # type: ignore[arg-type]
    except RFPError as error:
        return isinstance(error, FileError), str(error)
    except (MemoryError, RuntimeError) as error:
        if "out of memory" not in str(error) and not isinstance(error, MemoryError):
            raise
        return False, "out of memory; use fewer --jobs, or lower the sizes in rfp.reproduce.settings"
    return None
