"""A progress bar on stderr, for a person at a terminal and for nobody else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar(Protocol):
    """What a long task reports to."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin a part of the work, of ``total`` steps if that is known."""

    def advance(self, steps: int) -> None:
        """Some steps of the current part are done."""


class _Silent:
    def stage(self, name: str, total: int | None = None) -> None:
        pass

    def advance(self, steps: int) -> None:
        pass


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Bar]:
    """A bar while the block runs, if stderr is a terminal; it leaves no trace."""
    if quiet or not sys.stderr.isatty():
        yield _Silent()
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

    def stage(self, name: str, total: int | None = None) -> None:
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(name, total=total)

    def advance(self, steps: int) -> None:
        if self.task is not None:
            self.progress.advance(self.task, steps)


class Ticker:
    """A bar for ``(what, done, in all)``, there only while something is being counted: other tasks draw their own.

    Args:
        quiet: Draw nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._open = ExitStack()
        self._bar: Bar | None = None
        self._what, self._done = "", 0

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bar is None or what != self._what or done < self._done:
            if self._bar is None:
                self._bar = self._open.enter_context(progress_bar(quiet=self._quiet))
            self._bar.stage(what, total)
            self._what, self._done = what, 0
        self._bar.advance(done - self._done)
        self._done = done
        if done >= total:
            self.close()

    def close(self) -> None:
        """Take the bar away."""
        self._open.close()
        self._bar = None
