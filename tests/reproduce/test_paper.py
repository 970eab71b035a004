"""The paper's numbers: all of them are there, spot checks read from the paper, every disagreement has its note."""

from __future__ import annotations

from collections import Counter

import pytest

from rfp.data import DATASETS
from rfp.data.metrics import METRICS
from rfp.reproduce.paper import disagreements, find, paper_numbers


def test_every_number_of_every_table_is_there() -> None:
    # Rows times columns less the dashes: 18 x 2 - 2; 22 x 9 - 12; 17 x 4; 10 x 2; 5 x 4; 24 x 9; 3 and 3 in the text.
    assert Counter(n.table for n in paper_numbers()) == {1: 34, 2: 186, 3: 68, 4: 20, 5: 20, 6: 216, 7: 6}


@pytest.mark.parametrize(
    ("table", "row", "dataset", "metric", "mean", "std"),
    [
        (1, "gcn", "zinc", "mae", 0.321, 0.009),
        (1, "rwpe", "ogbg-molhiv", "roc_auc", 78.62, 1.13),
        (1, "rfp-qr-LAS-dss", "zinc", "mae", 0.1106, 0.012),
        (2, "mlp", "squirrel", "accuracy", 28.77, None),
        (2, "g2-graphsage", "wisconsin", "accuracy", 87.84, None),
        (2, "power-embed", "cora", "accuracy", 85.03, None),
        (2, "rfp-qr-LAS-dss", "cora", "accuracy", 87.99, None),
        (3, "sun", "counting/cycle4", "mae", 0.0105, None),
        (3, "rfp-qr-LA-dss", "counting/star", "mae", 0.0072, None),
        (4, "gps-rfp-l2-LA", "ogbg-molhiv", "roc_auc", 77.98, 1.57),
        (4, "gsn-rfp-qr-LA", "zinc", "mae", 0.0734, 0.007),
        (5, "rfp-qr-LA-k8", "counting/triangle", "mae", 0.1231, None),
        (6, "rfp-qr-A-P32", "film", "accuracy", 36.92, None),
        (6, "rfp-qr-A-k128", "pubmed", "accuracy", 89.83, None),
        (6, "rnf-all", "chameleon", "accuracy", 53.28, None),
        (6, "homophily", "texas", "homophily", 0.11, None),
        (7, "rfp-qr-A", "ogbn-arxiv", "accuracy", 71.97, None),
        (7, "rfp-qr-A", "ogbn-arxiv", "forward_ms", 61.44, None),
        (7, "gcn", "ogbn-arxiv", "memory_mb", 7635, None),
        (7, "rfp-qr-A", "ogbn-arxiv", "memory_mb", 9268, None),
    ],
)
def test_numbers_as_printed(table: int, row: str, dataset: str, metric: str, mean: float, std: float | None) -> None:
    number = find(table, row, dataset, metric)
    assert number is not None
    assert (number.mean, number.std) == (mean, std)


def test_what_is_not_printed_is_not_there() -> None:
    assert find(2, "sgc", "film", "accuracy") is None
    assert find(1, "himp", "zinc", "mae") is None
    assert find(7, "eigvecs-L", "ogbn-arxiv", "accuracy") is None


def test_every_disagreement_has_a_note() -> None:
    found = disagreements()
    assert {(numbers[0].row, numbers[0].dataset) for numbers in found} == {
        ("rfp-qr-LAS", "ogbg-molhiv"),
        ("rfp-qr-A", "texas"),
        ("rfp-qr-A", "citeseer"),
        ("nfp-qr-A", "citeseer"),
        ("nfp-qr-A", "pubmed"),
        ("nfp-qr-A", "cora"),
    }
    for numbers in found:
        for number in numbers:
            # The note names the other table's number.
            others = {other.mean for other in numbers} - {number.mean}
            assert all(f"{other:.2f}" in number.note for other in others), number


def test_a_misprint_has_a_note() -> None:
    number = find(5, "rfp-qr-LA-k4", "counting/tailed_triangle", "mae")
    assert number is not None
    assert number.mean == 0.01289
    assert "probably 0.1289" in number.note


def test_only_known_data_sets_and_metrics() -> None:
    assert {n.dataset.split("/")[0] for n in paper_numbers()} <= set(DATASETS)
    targets = {n.dataset.split("/")[1] for n in paper_numbers() if "/" in n.dataset}
    assert targets == set(DATASETS["counting"].task.names)
    for number in paper_numbers():
        if number.metric in METRICS:
            assert number.metric == DATASETS[number.dataset.split("/")[0]].task.metric
        else:
            assert number.metric in ("homophily", "forward_ms", "memory_mb")
