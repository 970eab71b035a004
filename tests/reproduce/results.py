"""Made-up results of cells, for tests of what is done with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfp.reproduce.spec import Cell
from rfp.reproduce.tables import TABLES
from rfp.train.results import Result, RunRecord

PART = TABLES[2].only(["gcn", "rfp-qr-A"], ["cora", "texas"])


def made_up(
    cell: Cell, scores: Sequence[float], *, val: float = 0.5, notes: tuple[str, ...] = (), **values: Any
) -> Result:
    """A result with these test scores for the first runs of a cell."""
    runs = [
        RunRecord(seed, split, {"val": val, "test": score}, 3, 10, 1.5, 1000, values)
        for (seed, split), score in zip(cell.runs, scores, strict=False)
    ]
    higher = cell.column.metric != "mae"
    environment = {"device": "a machine", "torch": "2"}
    return Result(cell.config, cell.column.dataset, cell.column.metric, higher, tuple(runs), (), environment, notes)


def results(*some: Result) -> dict[str, Result]:
    """By the key of the config, as they are read."""
    return {result.config.key: result for result in some}
