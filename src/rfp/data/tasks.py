"""What is to be predicted, and how it is scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rfp.data.metrics import METRICS
from rfp.errors import ArgumentError, unknown_choice
from rfp.nn.levels import LEVELS, Level

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Task:
    """A prediction task.

    Args:
        name: Name of the data set.
        level: What a row of the labels stands for: one of :data:`rfp.nn.levels.LEVELS`, or its name.
        kind: ``"classification"`` (one of several classes; labels ``[rows]`` int64), ``"binary"`` (one or several
            yes/no targets; ``[rows, targets]`` float32, NaN where unknown) or ``"regression"`` (the same, without NaN).
        metric: A key of :data:`rfp.data.metrics.METRICS` that fits the kind.
        num_outputs: Classes, or targets: the width of a model's output.
        names: Names of the classes or targets, if they have any.
        categorical: ``"zinc"`` or ``"ogb"`` if the features are categories of :mod:`rfp.nn.molecules`.

    Example:
        >>> Task("cora", "node", "classification", "accuracy", 7).higher_is_better
        True
        >>> Task("zinc", "graph", "regression", "accuracy", 1)
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: metric 'accuracy' is not for regression; expected 'mae'
    """

    name: str
    level: Level
    kind: str
    metric: str
    num_outputs: int
    names: tuple[str, ...] = ()
    categorical: str | None = None

    def __post_init__(self) -> None:
        given: Any = self.level
        if not isinstance(given, Level):
            if given not in LEVELS:
                raise unknown_choice("level", given, LEVELS)
            object.__setattr__(self, "level", LEVELS[given])
        if self.kind not in self.level.kinds:
            raise unknown_choice("kind", self.kind, self.level.kinds)
        if self.metric not in METRICS:
            raise unknown_choice("metric", self.metric, METRICS)
        fitting = [repr(name) for name, metric in METRICS.items() if self.kind in metric.kinds]
        if self.kind not in METRICS[self.metric].kinds:
            raise ArgumentError(f"metric {self.metric!r} is not for {self.kind}; expected {' or '.join(fitting)}")
        if self.num_outputs < 1:
            raise ArgumentError(f"num_outputs must be at least 1, got {self.num_outputs}")

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value of the metric is a better one."""
        return METRICS[self.metric].higher_is_better
