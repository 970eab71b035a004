"""Which data, and what is done to it on loading: plain values, as in a config file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfp.data.metrics import METRICS
from rfp.data.tasks import PARTS
from rfp.errors import ArgumentError
from rfp.nn.kinds import ALL_KINDS
from rfp.nn.levels import LEVELS
from rfp.plain_values import as_plain, check_types, field_values
from rfp.settings import as_integer

SELF_LOOPS = ("keep", "remove")
_NAMES = {"dataset_class": "class"}  # in files
# Keys that say what the data is to a data set that does not know it itself.
_OWN_ONLY = ("level", "kind", "metric", "random_split")


@dataclass(frozen=True)
class DataConfig:
    """A data set by name, from a file or folder, or of a PyG class; and how it is prepared.

    Args:
        name: A key of :data:`rfp.data.DATASETS`.
        path: A ``.pt`` file of PyG graphs, or a folder of CSV or Parquet files.
        dataset_class: Import path of a PyG data set class (``class`` in :meth:`from_dict`), such as
            ``torch_geometric.datasets.TUDataset``.
        args: Arguments of the class.
        parts: For classes that load one part at a time: further arguments for ``train``, ``val`` and ``test``.
        level: ``"node"`` or ``"graph"``, where own data does not tell; ``"link"`` makes the edges of any one graph the
            task, of a named data set too.
        kind: ``"classification"``, ``"binary"`` or ``"regression"``, where own data does not tell.
        metric: A key of :data:`rfp.data.metrics.METRICS`; by default the usual one for the kind. Own data only.
        target: One of several targets, by name.
        undirected: Both directions of every edge, as symmetric operators assume; ``False`` keeps edges as loaded.
        self_loops: ``"keep"`` them as loaded, or ``"remove"``.
        normalize_features: Divide each row of ``x`` by its sum.
        random_split: Fractions of train, val and test, for own data; a split that comes with them is then left alone.
            Of links 0.85, 0.05 and 0.1 unless said otherwise.
        num_splits: How many random splits.
        split_seed: Seed of the random splits, and of the negatives of links.
        time: For links: a column of times; the earliest edges are for training, the latest for the test.
        negatives: For links: validation and test edges are ranked among ``"uniform"`` non-edges, ``"hard"`` ones that
            share neighbours, or ``"both"``.
        hard_negatives: For links: hard negatives of each edge.
        identity_features: For links: ``x`` is the identity matrix, a feature for each node, whatever the graph has.
        drop_features: Leave ``x`` out, so that a model reads the graph and its encodings alone.

    Example:
        >>> DataConfig.from_dict({"name": "texas", "undirected": False}).undirected
        False
        >>> DataConfig.from_dict({"name": "texas", "undirectd": False})
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: a key of the data config must be one of 'name', 'path', 'class', 'args', 'parts', \
'level', 'kind', 'metric', 'target', 'undirected', 'self_loops', 'normalize_features', 'random_split', 'num_splits', \
'split_seed', 'time', 'negatives', 'hard_negatives', 'identity_features', 'drop_features', got 'undirectd'
    """

    name: str | None = None
    path: str | None = None
    dataset_class: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    level: str | None = None
    kind: str | None = None
    metric: str | None = None
    target: str | None = None
    undirected: bool = True
    self_loops: str = "keep"
    normalize_features: bool = False
    random_split: tuple[float, float, float] | None = None
    num_splits: int = 1
    split_seed: int = 0
    time: str | None = None
    negatives: str = "both"
    hard_negatives: int = 500
    identity_features: bool = False
    drop_features: bool = False

    def __post_init__(self) -> None:
        given = [key for key in ("name", "path", "dataset_class") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ArgumentError(f"give exactly one of name, path and class, got {', '.join(given) or 'none of them'}")
        if self.dataset_class is None and (self.args or self.parts):
            raise ArgumentError(f"args and parts belong to class, not to {given[0]}")
        choices: dict[str, Mapping[str, Any]] = {"level": LEVELS, "kind": ALL_KINDS, "metric": METRICS}
        check_types(self, {**choices, "self_loops": SELF_LOOPS})
        as_integer("num_splits", self.num_splits, 1)
        if self.parts and set(self.parts) != set(PARTS):
            raise ArgumentError(f"parts needs the keys {', '.join(PARTS)}, got {', '.join(self.parts)}")
        if self.random_split is not None:
            object.__setattr__(self, "random_split", _fractions(self.random_split))
        for key in ("normalize_features", "identity_features"):
            if self.drop_features and getattr(self, key):
                raise ArgumentError(f"drop_features leaves no features for {key}; set one of them alone")
        self._check_named()

    def _check_named(self) -> None:
        foreign = [key for key in _OWN_ONLY if getattr(self, key) is not None]
        if self.level == "link":  # whose edges are anybody's to split
            foreign = [key for key in foreign if key == "kind"]
        if self.name is not None and foreign:
            raise ArgumentError(f"{foreign[0]} is fixed for {self.name!r}; it is for data of your own (path or class)")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DataConfig:
        """A config from plain values, such as a parsed YAML file; unknown keys are errors."""
        return cls(**field_values(cls, values, "the data config", names=_NAMES))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that :meth:`from_dict` reads back, for result files; what is not set is left out."""
        values = {_NAMES.get(name, name): value for name, value in as_plain(self).items()}
        return {key: value for key, value in values.items() if value is not None and value != {}}


def _fractions(given: Any) -> tuple[float, float, float]:
    """A list of three numbers, as a config file has it; which ones can be had is for the split to say."""
    parts = np.asarray(given).tolist()
    if not isinstance(parts, list) or len(parts) != 3 or not all(type(one) in (int, float) for one in parts):
        raise ArgumentError(f"random_split must be three fractions, such as [0.8, 0.1, 0.1], got {given!r}")
    return parts[0], parts[1], parts[2]
