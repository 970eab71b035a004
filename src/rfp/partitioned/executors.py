"""Who runs the tasks: this process, threads of it, or Dask. Another engine is one more class with these two methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol


class Executor(Protocol):
    """Runs a task for several arguments."""

    @property
    def num_workers(self) -> int:
        """How many tasks run at a time."""
        ...

    def map(
        self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], tick: Callable[[], None]
    ) -> list[Any]:
        """The results in the order of the arguments; ``tick`` is called when one is done."""
        ...


class Serial:
    """One task after the other, here."""

    num_workers = 1

    def map(
        self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], tick: Callable[[], None]
    ) -> list[Any]:
        results = []
        for one in arguments:
            results.append(task(*one))
            tick()
        return results


class Threads:
    """Several tasks at a time, here; products release the interpreter's lock."""

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers

    def map(
        self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], tick: Callable[[], None]
    ) -> list[Any]:
        with ThreadPoolExecutor(self.num_workers) as pool:
            futures = [pool.submit(task, *one) for one in arguments]
            try:
                for future in as_completed(futures):
                    future.result()
                    tick()
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        return [future.result() for future in futures]
