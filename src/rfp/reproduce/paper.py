"""The paper's own numbers: every one of its tables 1 to 7, with a note where they disagree."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PaperNumber:
    """One printed number.

    Args:
        table: 1 to 7, in the order of the paper.
        row: Row of the method; the same in all tables for the same method with the same k and P.
        label: The method as printed.
        dataset: Id of the column; the counting targets are ``counting/<target>``.
        metric: ``accuracy`` and ``roc_auc`` are in percent, as printed.
        mean: The number.
        std: What is printed after ±, or ``None``.
        note: What to know about it.
    """

    table: int
    row: str
    label: str
    dataset: str
    metric: str
    mean: float
    std: float | None
    note: str


@cache
def paper_numbers() -> tuple[PaperNumber, ...]:
    """All lines of ``paper.csv``, in the order of the paper.

    Example:
        >>> [(n.mean, n.std) for n in paper_numbers() if (n.table, n.row, n.dataset) == (1, "rfp-qr-LA", "zinc")]
        [(0.1152, 0.006)]
    """
    text = files("rfp.reproduce").joinpath("paper.csv").read_text(encoding="utf-8")
    return tuple(
        PaperNumber(
            int(line["table"]),
            line["row"],
            line["label"],
            line["dataset"],
            line["metric"],
            float(line["mean"]),
            float(line["std"]) if line["std"] else None,
            line["note"],
        )
        for line in csv.DictReader(text.splitlines())
    )


def find(table: int, row: str, dataset: str, metric: str) -> PaperNumber | None:
    """The number that a table prints for a method on a data set, or ``None``."""
    key = (table, row, dataset, metric)
    return next((n for n in paper_numbers() if (n.table, n.row, n.dataset, n.metric) == key), None)


def disagreements() -> list[tuple[PaperNumber, ...]]:
    """Numbers of the same method, data set and metric that differ between tables."""
    same: dict[tuple[str, str, str], list[PaperNumber]] = defaultdict(list)
    for number in paper_numbers():
        same[number.row, number.dataset, number.metric].append(number)
    return [tuple(numbers) for numbers in same.values() if len({(n.mean, n.std) for n in numbers}) > 1]
