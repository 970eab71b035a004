"""A small table with made-up results."""

from __future__ import annotations

import pytest

from rfp.reproduce.compare import Comparison, compare
from tests.reproduce.results import PART, made_up, results


@pytest.fixture
def table() -> Comparison:
    """GCN and RFP-QR on Cora (whole) and RFP-QR on Texas (four of ten splits)."""
    cells = {(cell.row.id, cell.column.id): cell for cell in PART.cells()}
    return compare(
        PART,
        results(
            made_up(cells["gcn", "cora"], [0.85, 0.86] * 5, notes=("a note of the data",)),
            made_up(cells["rfp-qr-A", "cora"], [0.88] * 10, **{"training.lr": 0.01}),
            made_up(cells["rfp-qr-A", "texas"], [0.8, 0.82, 0.84, 0.86]),
        ),
    )
