"""Only sensible tasks can be made."""

import pytest

from rfp.data.tasks import Task
from rfp.errors import ArgumentError


def test_direction_follows_the_metric() -> None:
    assert Task("a", "graph", "binary", "average_precision", 3).higher_is_better
    assert not Task("a", "node", "regression", "mae", 1).higher_is_better


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("edge", "binary", "roc_auc", 1), "level must be one of 'graph', 'node', 'link', got 'edge'"),
        (("node", "ranking", "mae", 1), "kind must be one of"),
        (("node", "binary", "f1", 1), "metric must be one of"),
        (("node", "classification", "roc_auc", 2), "expected 'accuracy'"),
        (("node", "classification", "accuracy", 0), "num_outputs"),
    ],
)
def test_others_are_refused(values: tuple[str, str, str, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Task("a", *values)
