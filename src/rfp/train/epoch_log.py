"""What is written while a model trains: a CSV file with a line for each epoch, TensorBoard's files, a progress bar."""

from __future__ import annotations

import csv
import io
import sys
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from rfp.atomic import atomic_files
from rfp.train.run_history import RunHistory

METRICS_FILE = "metrics.csv"


class EpochLog:
    """Follows a history; use as a context.

    Args:
        folder: Folder of ``metrics.csv`` and, if it is installed, TensorBoard's files; ``None`` writes nothing.
        history: The run so far. Epochs after the checkpoint that is continued from are done again, so the file begins
            anew.
        epochs: At most this many.
        progress: Whether to draw one bar on stderr, in steps.
        active: ``False`` in all processes but one.
    """

    def __init__(self, folder: Path | None, history: RunHistory, epochs: int, progress: bool, active: bool) -> None:
        self._path = folder / METRICS_FILE if folder is not None and active else None
        self._history, self._epochs = history, epochs
        self._bar: Any = None
        self._wants_bar = progress and active
        self._board: Any = None

    def __enter__(self) -> EpochLog:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_files([self._path]) as (file,):
                file.write(_lines(self._history.rows, header=True).encode())
            if find_spec("tensorboard") is not None:
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(str(self._path.parent / "tensorboard"))
        return self

    def step(self, steps: int) -> None:
        """One of the ``steps`` of an epoch is done; costs next to nothing."""
        if not self._wants_bar:
            return
        if self._bar is None:
            done = self._history.epochs * steps
            self._bar = tqdm(total=self._epochs * steps, initial=done, unit="step", file=sys.stderr, leave=False)
            self._describe()
        self._bar.update(1)

    def epoch(self) -> None:
        """The last row of the history is new."""
        row = self._history.rows[-1]
        if self._path is not None:
            with open(self._path, "a", newline="") as file:
                file.write(_lines([row], header=len(self._history.rows) == 1))
        if self._board is not None:
            for name, value in row.items():
                if name != "epoch":
                    self._board.add_scalar(name, value, int(row["epoch"]))
        if self._bar is not None and not self._history.finished:
            self._describe()

    def _describe(self) -> None:
        self._bar.set_description(f"epoch {self._history.epochs + 1}/{self._epochs}", refresh=False)
        if self._history.rows:
            row = self._history.rows[-1]
            text = f"loss {row['train_loss']:.4g}, val {row['val']:.4g}, best {self._history.best_score:.4g}"
            self._bar.set_postfix_str(text, refresh=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._board is not None:
            self._board.close()
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()


def _lines(rows: list[dict[str, float]], *, header: bool) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
