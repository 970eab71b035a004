"""How far long work is, on stderr: a bar for a person at a terminal, a line a minute in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Of a log, in seconds; work that is done sooner leaves no trace.
_EVERY = 60.0


class Bar(Protocol):
    """What a long task reports to."""

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        """Begin a part of the work, of ``total`` steps if that is known, or go on with it after ``done`` of them."""

    def advance(self, steps: int) -> None:
        """Some steps of the current part are done."""


class _Silent:
    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        pass

    def advance(self, steps: int) -> None:
        pass


class _Lines:
    """A line a minute, whatever part of the work it is in: nobody has to wonder whether a background job is alive."""

    def __init__(self) -> None:
        self._said = time.monotonic()  # when the last one was written, or the work began

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        self._name, self._done, self._total = name, done, total
        self._before, self._began = done, time.monotonic()

    def advance(self, steps: int) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._said < _EVERY or self._done == self._before:
            return
        self._said = now
        from rfp.durations import spoken

        far, left = f"{self._done:,}", 0 if self._total is None else self._total - self._done
        if self._total is not None:
            far += f" of {self._total:,}"
        if left > 0:
            far += f", about {spoken((now - self._began) / (self._done - self._before) * left)} left"
        sys.stderr.write(f"rfp: {self._name}: {far}\n")
        sys.stderr.flush()


@contextmanager
def progress_bar(*, quiet: bool = False, lines: _Lines | None = None, log: bool | None = None) -> Iterator[Bar]:
    """A bar while the block runs, if stderr is a terminal, and it leaves no trace; else a line now and then.

    Args:
        quiet: Neither.
        lines: Of the blocks before, if this is a part of the same work.
        log: Whether to write lines; by default if stderr is no terminal.
    """
    if quiet:
        yield _Silent()
        return
    if not sys.stderr.isatty() if log is None else log:
        yield lines or _Lines()
        return
    # Loaded for those who see it: Rich takes as long as a small file.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Rich(progress)


class _Rich:
    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task: TaskID | None = None

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(name, total=total, completed=done)

    def advance(self, steps: int) -> None:
        if self.task is not None:
            self.progress.advance(self.task, steps)


class Ticker:
    """A bar for ``(what, done, in all)``, there only while something is being counted: other tasks draw their own.

    In another process, to which it may be sent, it writes lines, at a terminal too: bars of several would overwrite
    one another.

    Args:
        quiet: Draw nothing.
        log: Whether to write lines; by default if stderr is no terminal.
    """

    def __init__(self, *, quiet: bool, log: bool | None = None) -> None:
        self._quiet, self._log, self._lines = quiet, log, _Lines()
        self._open = ExitStack()
        self._bar: Bar | None = None
        self._what, self._done = "", 0

    def __reduce__(self) -> tuple[Callable[..., Ticker], tuple[bool]]:
        return _elsewhere, (self._quiet,)

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bar is None or what != self._what or done < self._done:
            if self._bar is None:
                bar = progress_bar(quiet=self._quiet, lines=self._lines, log=self._log)
                self._bar = self._open.enter_context(bar)
            self._bar.stage(what, total, done)  # it may go on from an earlier try
            self._what, self._done = what, done
        else:
            self._bar.advance(done - self._done)
            self._done = done
        if done >= total:
            self.close()

    def close(self) -> None:
        """Take the bar away."""
        self._open.close()
        self._bar = None


def _elsewhere(quiet: bool) -> Ticker:
    return Ticker(quiet=quiet, log=True)
