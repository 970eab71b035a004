"""Configs of runs: read, checked, changed by dotted key, and told apart by their key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rfp.data import load
from rfp.errors import ArgumentError, FileError
from rfp.nn import RFPModel
from rfp.train import RunConfig, TrainingConfig, read_config, run

PLAIN: dict[str, Any] = {
    "name": "try",
    "data": {"name": "texas"},
    "model": {"backbone": "gcn", "encodings": [{"name": "rfp", "num_steps": 4}]},
    "training": {"lr": 0.01},
    "search": {"model.encodings.0.num_steps": [4, 8]},
}


def test_round_trip_and_key() -> None:
    config = RunConfig.from_dict(PLAIN)
    assert RunConfig.from_dict(config.to_dict()) == config
    assert RunConfig.from_dict({**PLAIN, "name": "other"}).key == config.key
    assert RunConfig.from_dict({**PLAIN, "training": {"lr": 0.02}}).key != config.key
    assert RunConfig.from_dict({**PLAIN, "search": {}}).key != config.key
    # A default that is written out is the same config.
    assert RunConfig.from_dict({**PLAIN, "training": {"lr": 0.01, "epochs": 200}}).key == config.key


def test_values_by_dotted_key() -> None:
    config = RunConfig.from_dict(PLAIN)
    changed = config.with_values({"model.encodings.0.num_steps": 8, "training.epochs": 3, "data.undirected": False})
    assert changed.model["encodings"][0]["num_steps"] == 8
    assert changed.training.epochs == 3
    assert not changed.data.undirected
    assert changed.search == {}  # what was set is no longer searched
    assert config.model["encodings"][0]["num_steps"] == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainig": {}}, "a key of the run's config must be one of .*, got 'trainig'"),
        ({"training": {"learning_rate": 1}}, "a key of the training config must be one of .*, got 'learning_rate'"),
        ({"model": {"depth": 1}}, "a key of the model's config must be one of .*, got 'depth'"),
        ({"data": {"nam": "texas"}}, "a key of the data config must be one of .*, got 'nam'"),
        *[
            (
                {"data": {"name": "texas", "drop_features": True, key: True}},
                f"drop_features leaves no features for {key}",
            )
            for key in ("normalize_features", "identity_features")
        ],
        ({"training": {"lr": 0}}, "lr must be positive, got 0"),
        ({"training": {"epochs": 0}}, "epochs must be at least 1, got 0"),
        ({"training": {"epochs": 1.5}}, "epochs must be an integer, got 1.5"),
        ({"training": {"patience": 2.5}}, "patience must be an integer, got 2.5"),
        ({"training": {"lr": float("nan")}}, "lr must be finite, got nan"),
        ({"training": {"patience": 0}}, "patience must be at least 1, or null"),
        ({"training": {"schedule": "steps"}}, "schedule must be one of 'none', 'plateau', 'cosine', got 'steps'"),
        ({"training": {"weight_decay": -1}}, "weight_decay must not be negative, got -1"),
        ({"training": {"schedule_factor": 1.0}}, "schedule_factor must be between 0 and 1"),
        ({"training": {"weight_average": 1.0}}, "weight_average must be at least 0 and below 1, got 1.0"),
        ({"training": {"sharpness": -0.1}}, "sharpness must not be negative, got -0.1"),
        ({"training": {"weight_average": -0.1}}, "weight_average must be at least 0 and below 1, got -0.1"),
        *[
            ({"training": {"engine": "replicas", **alone}}, f"replicas cannot be trained with {next(iter(alone))}=")
            for alone in (
                {"schedule": "plateau"},
                {"precision": "bf16-mixed"},
                {"weight_average": 0.9},
                {"sharpness": 0.5},
            )
        ],
        ({"training": [1]}, "the training config must be a mapping"),
        ({"search": {"training.lr": 0.1}}, "training.lr needs a list of values to try, got 0.1"),
        *[
            ({"search": {key: values}}, f"{key} cannot be searched, only values of the model and of the training")
            for key, values in (
                ("data.drop_features", [False, True]),
                ("training.engine", ["replicas", "lightning"]),
                ("name", ["a", "b"]),
            )
        ],
        ({"search": {"training.lr": []}}, "training.lr needs a list of values to try"),
        ({"search": {"model.encodings.3.num_steps": [1]}}, "the part '3' of 'model.encodings.3.num_steps'"),
        ({"search": {"training.speed": [1]}}, "a key of the training config must be one of .*, got 'speed'"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        RunConfig.from_dict({**PLAIN, **changes})


def test_data_is_needed() -> None:
    with pytest.raises(ArgumentError, match="needs data"):
        RunConfig.from_dict({"model": {}})


def test_the_data_fills_in_the_model() -> None:
    club = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.5, 0.25, 0.25]}
    config = RunConfig.from_dict({"data": club, "model": {"backbone": "gcn", "encodings": [{"name": "rfp"}]}})
    model = config.model_config(load(club), seed=7)
    assert (model.task, model.out_channels, model.in_channels) == ("node", 4, 34)
    assert model.encodings[0].seed == 7  # another seed, other draws
    assert config.model_config(load(club)).encodings[0].seed == 0


@pytest.mark.parametrize(("key", "value", "right"), [("task", "graph", "'node'"), ("out_channels", 2, "4")])
def test_what_contradicts_the_data_is_refused(key: str, value: Any, right: str) -> None:
    club = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.5, 0.25, 0.25]}
    config = RunConfig.from_dict({"data": club, "model": {"backbone": "gcn", key: value}})
    with pytest.raises(
        ArgumentError, match=f"model.{key}={value!r} contradicts the data, 'KarateClub', .* it is {right}"
    ):
        config.model_config(load(club))


def test_each_value_of_a_search() -> None:
    config = RunConfig.from_dict({**PLAIN, "search": {"training.lr": [0.1, 0.2], "training.epochs": [3, 4, 5]}})
    found = [(one.training.lr, one.training.epochs) for one in config.each_value()]
    assert found == [(0.1, 3), (0.2, 3), (0.1, 4), (0.1, 5)]
    alone = RunConfig.from_dict({**PLAIN, "search": {}})
    assert list(alone.each_value()) == [alone]


def test_without_features_a_model_reads_its_encodings_alone() -> None:
    club = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.5, 0.25, 0.25], "drop_features": True}
    config = RunConfig.from_dict(
        {
            "data": club,
            "model": {"backbone": "gcn", "norm": "none", "encodings": [{"name": "rnf"}]},
            "training": {"epochs": 2},
        }
    )
    loaded = load(club)
    assert config.model_config(loaded).in_channels == 0
    molecules = replace(loaded, task=replace(loaded.task, categorical="zinc"))
    assert config.model_config(molecules).node_encoder == "none"
    with_features = RunConfig.from_dict({**config.to_dict(), "data": {**club, "drop_features": False}})
    assert config.key != with_features.key
    propagates = config.with_values({"model.encodings": [{"name": "sgc"}]})
    with pytest.raises(ArgumentError, match="encoding 'sgc' propagates node features, and there are none"):
        propagates.model_config(loaded)
    size = RFPModel(config.model_config(loaded)).num_parameters  # 16 random numbers a node into the first map, no x
    for engine in ("replicas", "lightning"):
        (done,) = run(config.with_values({"training.engine": engine})).runs
        assert done.num_parameters == size


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: texas\ntraining: {lr: 1e-2}\n")
    config = read_config(path)
    assert (config.name, config.training) == ("mine", TrainingConfig(lr=0.01))
    path.write_text("data: texas\ntraining: {rate: 1}\n")
    with pytest.raises(ArgumentError, match=r"mine.yaml: a key of the training config"):
        read_config(path)
    path.write_text("- 1\n")
    with pytest.raises(FileError, match="expected keys such as data, model and training, got list"):
        read_config(path)
    path.write_text("a: [1\n")
    with pytest.raises(FileError, match="not a YAML file"):
        read_config(path)
    with pytest.raises(FileError, match="No such file"):
        read_config(tmp_path / "none.yaml")


def test_a_new_start_replaces_the_old_name_of_it() -> None:
    old = RunConfig.from_dict({"data": "zinc", "model": {"encodings": [{"name": "rfp", "unit_start": True}]}})
    new = old.with_values({"model.encodings.0.start": "orthonormal"})
    assert new.model["encodings"] == [{"name": "rfp", "start": "orthonormal"}]
    assert old.model["encodings"] == [{"name": "rfp", "unit_start": True}]
