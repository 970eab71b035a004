"""The typed config of a run: data, model, training and, for a search, the values to try. Unknown keys are errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rfp.data import DataConfig
from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, FileError, unknown_choice
from rfp.nn import ModelConfig, RFPEncoding
from rfp.nn.backbones import READ_EDGE_FEATURES
from rfp.plain_values import as_plain, check_types, field_values
from rfp.settings import as_integer
from rfp.train.halving import Halving

OPTIMIZERS = ("adam", "adamw")
SCHEDULES = ("none", "plateau", "cosine")
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
CHOICES = ("score", "loss")
ENGINES = ("auto", "replicas", "lightning")
# A search changes these; data are loaded once, before it.
_SEARCHED = ("model.", "training.")
# What a model must know of its data; filled in from it unless the config says otherwise.
FROM_DATA = ("task", "out_channels", "in_channels", "node_encoder", "edge_encoder", "edge_channels")


@dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained.

    Args:
        epochs: At most this many.
        batch_size: Graphs in a batch; node tasks on one graph always see all of it.
        lr: Learning rate.
        weight_decay: Weight decay of the optimiser: added to the gradient by ``"adam"``, decoupled in ``"adamw"``.
        optimizer: ``"adam"`` or ``"adamw"``.
        schedule: ``"plateau"`` multiplies the learning rate by ``schedule_factor`` when the validation score has not
            improved for ``schedule_patience`` epochs and ends the run below ``min_lr``; ``"cosine"`` decays it to
            ``min_lr`` over the epochs; ``"none"`` keeps it.
        warmup_epochs: The learning rate rises linearly over these first epochs.
        schedule_factor: See ``schedule``.
        schedule_patience: See ``schedule``.
        min_lr: See ``schedule``.
        patience: Stop when the validation score has not improved for this many epochs; ``None`` never stops early.
        choose_by: The best epoch of a run is the one with the best validation ``"score"`` (the loss decides between
            equals), or the lowest validation ``"loss"``, which a small validation part tells more finely.
        gradient_clip: Largest norm of a gradient; 0 for no limit.
        operator_lr: What the learning rate is multiplied by for the parameters of learned operators.
        weight_average: d of a moving average of the weights (:class:`rfp.train.weight_average.WeightAverage`): it is
            what is validated, chosen, kept and tested. 0.99 is an average over some hundred steps; 0 is none.
        sharpness: ρ of adaptive sharpness-aware minimisation (:class:`rfp.train.sharpness.Ascent`): each update is made
            by the gradient at the worst weights within this radius, at twice the cost. 0.5 is usual; 0 is without.
        eval_draws: Predictions of the final evaluation are averaged over this many draws of the random features (those
            made for choosing the epoch are of one draw).
        precision: ``"32-true"``, or mixed as ``"bf16-mixed"`` or ``"16-mixed"`` (Lightning's names).
        engine: ``"replicas"`` trains all splits and grid points of a node task as one tensor program; ``"lightning"``
            one run at a time; ``"auto"`` takes the first for node tasks on one graph, unless something else here asks
            for the second.
    """

    epochs: int = 200
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 0.0
    optimizer: str = "adam"
    schedule: str = "none"
    warmup_epochs: int = 0
    schedule_factor: float = 0.5
    schedule_patience: int = 20
    min_lr: float = 1e-6
    patience: int | None = None
    choose_by: str = "score"
    gradient_clip: float = 0.0
    operator_lr: float = 1.0
    weight_average: float = 0.0
    sharpness: float = 0.0
    eval_draws: int = 1
    precision: str = "32-true"
    engine: str = "auto"

    def __post_init__(self) -> None:
        choices = {
            "optimizer": OPTIMIZERS,
            "schedule": SCHEDULES,
            "precision": PRECISIONS,
            "engine": ENGINES,
            "choose_by": CHOICES,
        }
        check_types(self, choices)
        if self.patience is not None:
            as_integer("patience", self.patience)
        for name in ("epochs", "batch_size", "schedule_patience", "eval_draws"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("weight_decay", "warmup_epochs", "min_lr", "gradient_clip", "operator_lr", "sharpness"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} must not be negative, got {getattr(self, name)}")
        if not self.lr > 0:
            raise ArgumentError(f"lr must be positive, got {self.lr}")
        if not 0 < self.schedule_factor < 1:
            raise ArgumentError(f"schedule_factor must be between 0 and 1, got {self.schedule_factor}")
        if self.patience is not None and self.patience < 1:
            raise ArgumentError(f"patience must be at least 1, or null for no early stopping, got {self.patience}")
        if not 0 <= self.weight_average < 1:
            raise ArgumentError(f"weight_average must be at least 0 and below 1, got {self.weight_average}")
        if self.engine == "replicas" and self.only_alone:
            raise ArgumentError(
                f"replicas cannot be trained with {self.only_alone}; set engine to 'auto', or leave it out"
            )

    @property
    def only_alone(self) -> str:
        """What asks for one run at a time, since replicas do without it; empty if nothing does."""
        if self.schedule == "plateau":
            return "schedule='plateau'"
        if self.precision != "32-true":
            return f"precision={self.precision!r}"
        asked = (name for name in ("weight_average", "sharpness") if getattr(self, name))
        return next((f"{name}={getattr(self, name):g}" for name in asked), "")


@dataclass(frozen=True)
class RunConfig:
    """All that determines a result, up to the seed and the split.

    Args:
        data: Which data.
        model: Keys of :class:`rfp.nn.ModelConfig`; those in :data:`FROM_DATA` follow from the data.
        training: How it is trained.
        search: Values to try, by dotted key: ``{"training.lr": [1e-3, 1e-2], "model.num_layers": [2, 4]}``. A ``*`` in
            the place of a number means all of a list: ``model.encodings.*.start``.
        name: Name of the method, for tables and file names.
        halving: Search by successive halving (node tasks on one graph), keys of
            :class:`~rfp.train.halving.Halving`.

    Example:
        >>> config = RunConfig.from_dict({"data": "texas", "search": {"model.dropout": [0, 0.5]}})
        >>> config.with_values({"model.dropout": 0.5}).model
        {'dropout': 0.5}
        >>> RunConfig.from_dict({"data": "texas", "trainig": {}})
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: a key of the run's config must be one of 'data', 'model', 'training', 'search', \
'name', 'halving', got 'trainig'
    """

    data: DataConfig
    model: Mapping[str, Any] = field(default_factory=dict)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    name: str = ""
    halving: Halving | None = None

    def __post_init__(self) -> None:
        field_values(ModelConfig, self.model, "the model's config")
        for key, values in self.search.items():
            if not isinstance(values, list | tuple) or not values:
                raise ArgumentError(f"search: {key} needs a list of values to try, got {values!r}")
            if not key.startswith(_SEARCHED) or key == "training.engine":
                raise ArgumentError(
                    f"search: {key} cannot be searched, only values of the model and of the training (model.*, "
                    "training.*): the data and the engine are the same for all; make a config of each"
                )
        # As a file has them: a tuple among them would be no list that was read back.
        plain = {key: tuple(as_plain(value) for value in values) for key, values in self.search.items()}
        object.__setattr__(self, "search", plain)
        if self.search:
            self._with_values({key: values[0] for key, values in self.search.items()})  # raises if there is no such key
        if self.halving is not None:
            self._check_halving(self.halving)

    def _check_halving(self, halving: Halving) -> None:
        for key in halving.needs:
            if key not in self.search:
                raise ArgumentError(f"halving: there are no values to try for {key}; add them to search")
        for given in halving.also:
            if wrong := [key for key in given if not key.startswith(_SEARCHED)]:
                raise ArgumentError(f"halving: also sets values of the model and of the training, not {wrong[0]}")
            self._with_values({**{key: values[0] for key, values in self.search.items()}, **given})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """A config from plain values, such as a parsed YAML or JSON file."""
        given = field_values(cls, values, "the run's config")
        if "data" not in given:
            raise ArgumentError("the run's config needs data: a name, a path, or a mapping")
        data = given["data"]
        if isinstance(data, str):
            data = _data_from_text(data)
        data = data if isinstance(data, DataConfig) else DataConfig.from_dict(data)
        model = field_values(ModelConfig, given.get("model", {}), "the model's config")
        training = TrainingConfig(**field_values(TrainingConfig, given.get("training", {}), "the training config"))
        search = {key: _tried(key, tried) for key, tried in _mapping("search", given.get("search", {})).items()}
        halving = None if given.get("halving") is None else Halving.from_dict(given["halving"])
        return cls(data, model, training, search, str(given.get("name", "")), halving)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that :meth:`from_dict` reads back."""
        plain: dict[str, Any] = {"name": self.name} if self.name else {}
        plain |= {"data": self.data.to_dict(), "model": as_plain(self.model), "training": as_plain(self.training)}
        if self.search:
            plain["search"] = {key: list(tried) for key, tried in self.search.items()}
        return plain if self.halving is None else {**plain, "halving": self.halving.to_dict()}

    @cached_property
    def key(self) -> str:
        """Sixteen hexadecimal digits of the content, without the name: equal configs have equal keys.

        A value that is at its default counts as left out, so an option added later keeps the keys of older results.
        """
        content = {name: value for name, value in self.to_dict().items() if name != "name"}
        for part, defaults in _defaults().items():
            content[part] = _changed(content[part], defaults)
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def each_value(self) -> Iterator[RunConfig]:
        """The config without a search, once for each value that is searched, all others at the first.

        Values that make no config are passed over: whoever tries them says why.
        """
        first = {key: values[0] for key, values in self.search.items()}
        yield self.with_values(first)
        for key, values in self.search.items():
            for value in values[1:]:
                with suppress(ArgumentError):
                    yield self.with_values({**first, key: value})

    def with_values(self, values: Mapping[str, Any]) -> RunConfig:
        """The same config with some values replaced, by dotted key (``model.encodings.0.num_steps``)."""
        search = {k: v for k, v in self.search.items() if k not in values}
        halving = self.halving if self.halving is not None and self.halving.needs <= set(search) else None
        return replace(self._with_values(values), search=search, halving=halving)

    def _with_values(self, values: Mapping[str, Any]) -> RunConfig:
        """The same without anything to search."""
        plain = {name: value for name, value in self.to_dict().items() if name not in ("search", "halving")}
        for key, value in values.items():
            _set(plain, key, value)
        return RunConfig.from_dict(plain)

    def model_config(self, loaded: LoadedTask, seed: int = 0) -> ModelConfig:
        """The model's config with what the data tells filled in; runs of different seeds draw different features."""
        found = _from_data(loaded, str(self.model.get("backbone", "gin")))
        for key in ("task", "out_channels"):
            if key in self.model and self.model[key] != found[key]:
                raise ArgumentError(
                    f"model.{key}={self.model[key]!r} contradicts the data, {loaded.task.name!r}, for which it is "
                    f"{found[key]!r}; leave it out"
                )
        config = ModelConfig.from_dict({**found, **self.model})
        shifted = [replace(e, seed=e.seed + seed) if isinstance(e, RFPEncoding) else e for e in config.encodings]
        return replace(config, encodings=tuple(shifted))


def read_config(path: Path) -> RunConfig:
    """A config from a YAML or JSON file; ``name`` is the file's name unless it says otherwise."""
    import yaml

    from rfp.train.plain_yaml import KeyTwiceError, parse_yaml

    try:
        values = parse_yaml(path.read_text())
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}; give the path of a YAML file with the run's config") from error
    except KeyTwiceError as error:
        raise FileError(f"{path}, {error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: not a YAML file: {error}") from error
    if not isinstance(values, dict):
        raise FileError(f"{path}: expected keys such as data, model and training, got {type(values).__name__}")
    try:
        return RunConfig.from_dict({"name": path.stem, **values})
    except (ArgumentError, TypeError) as error:
        raise ArgumentError(f"{path}: {error}") from error


def _from_data(loaded: LoadedTask, backbone: str) -> dict[str, Any]:
    task, graphs = loaded.task, loaded.graphs
    found: dict[str, Any] = {"task": task.level.name, "out_channels": task.num_outputs}
    if graphs.x is not None and task.categorical is not None:
        found["node_encoder"] = task.categorical
    elif graphs.x is not None:
        found["in_channels"] = graphs.x.size(-1) if graphs.x.dim() > 1 else 1
    if backbone in READ_EDGE_FEATURES:
        if task.categorical is not None:
            found["edge_encoder"] = task.categorical
        elif graphs.edge_attr is not None:
            width = graphs.edge_attr.size(-1) if graphs.edge_attr.dim() > 1 else 1
            found |= {"edge_encoder": "linear", "edge_channels": width}
    return found


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    return {"training": asdict(TrainingConfig()), "data": DataConfig(name="").to_dict()}


def _changed(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}


def _data_from_text(text: str) -> DataConfig:
    from rfp.data import DATASETS

    return DataConfig(name=text) if text in DATASETS else DataConfig(path=text)


def _mapping(section: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{section} must be a mapping of keys to values, got {value!r}")
    return value


def _tried(key: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise ArgumentError(f"search: {key} needs a list of values to try, got {values!r}")
    return tuple(values)


def _set(plain: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; lists are entered by position, or all over by ``*``."""
    *path, last = key.split(".")
    places: list[Any] = [plain]
    for part in path:
        places = [_enter(place, one, key) for place in places for one in _positions(place, part)]
    for place in places:
        if isinstance(place, list):
            _enter(place, last, key)
            place[int(last)] = value
        elif isinstance(place, dict):
            place[last] = value
            if last == "start":  # which may stand there under its old name
                place.pop("unit_start", None)
        else:
            raise ArgumentError(f"{key}: there is nothing below {'.'.join(path)!r}")


def _positions(place: Any, part: str) -> list[str]:
    return [str(i) for i in range(len(place))] if part == "*" and isinstance(place, list) and place else [part]


def _enter(place: Any, part: str, key: str) -> Any:
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return place[int(part)]
    if isinstance(place, dict) and part in place:
        return place[part]
    found = list(place) if isinstance(place, dict) else list(range(len(place))) if isinstance(place, list) else []
    raise unknown_choice(f"the part {part!r} of {key!r}", part, found)
