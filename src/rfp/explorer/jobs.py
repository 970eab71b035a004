"""Work in threads that can be watched and called off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from rfp.errors import RFPError, is_out_of_memory

T = TypeVar("T")
WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"


class CancelledError(Exception):
    """The work was called off; raised inside it by :meth:`Job.advance`."""


class Job(Generic[T]):
    """One piece of work: where it stands, its result or its error.

    Args:
        work: Called with the job itself, which it tells how far it is.
        total: Steps in all, if that is known beforehand.
    """

    def __init__(self, work: Callable[[Job[T]], T], total: int = 0) -> None:
        self._work = work
        self._cancelled = threading.Event()
        self._future: Future[None] | None = None
        self.status = WAITING
        self.done, self.total = 0, total
        self.result: T | None = None
        self.error = ""
        self.seconds = 0.0

    def start(self, pool: ThreadPoolExecutor) -> Job[T]:
        """Queue the work."""
        self._future = pool.submit(self._run)
        return self

    def advance(self, steps: int = 1) -> None:
        """Called by the work after each step; where a call-off takes effect."""
        self.done += steps
        if self._cancelled.is_set():
            raise CancelledError

    def cancel(self) -> None:
        """Call the work off: at once if it waits, after its present step if it runs."""
        self._cancelled.set()
        if self._future is not None and self._future.cancel():
            self.status = CANCELLED

    @property
    def over(self) -> bool:
        return self.status in (DONE, FAILED, CANCELLED)

    def wait(self, seconds: float | None = None) -> None:
        """Block until the work is over, for tests and scripts."""
        if self._future is not None and not self._future.cancelled():
            self._future.result(seconds)

    def describe(self) -> dict[str, Any]:
        """Where the job stands, as JSON values."""
        return {"status": self.status, "done": self.done, "total": self.total, "error": self.error}

    def _run(self) -> None:
        self.status = RUNNING
        started = time.perf_counter()
        try:
            if self._cancelled.is_set():
                raise CancelledError
            self.result = self._work(self)
            outcome = DONE
        except CancelledError:
            outcome = CANCELLED
        except RFPError as error:
            self.error, outcome = str(error), FAILED
        except Exception as error:  # a thread's error would be lost: the page shows it
            full = is_out_of_memory(error)
            self.error = "out of memory; lower k, P or B" if full else f"{type(error).__name__}: {error}"
            outcome = FAILED
        self.seconds = time.perf_counter() - started
        self.status = outcome
