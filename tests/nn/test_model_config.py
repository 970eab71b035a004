"""The model's config: wrong values and unknown keys are refused with the choices; a round trip through plain values."""

from __future__ import annotations

import json

import pytest

from rfp.errors import ArgumentError
from rfp.nn import ModelConfig, RFPEncoding
from rfp.nn.model_config import read_encoding
from rfp.transforms import BASELINES, AddEigenvectorPE, AddRandomFeaturePropagationPE, AddSubstructureCounts


def test_encodings_by_name() -> None:
    given = read_encoding({"name": "rfp", "num_channels": 4, "operators": ["adjacency", "learned"]})
    assert given == RFPEncoding(num_channels=4, operators=("adjacency", "learned"))
    assert given.width(0) == 2 * 17 * 4
    assert read_encoding({"name": "eigenvectors", "num_eigenvectors": 3}) == AddEigenvectorPE(num_eigenvectors=3)
    assert read_encoding({"name": "substructures", "cycles": [3, 4]}) == AddSubstructureCounts(cycles=(3, 4))
    assert read_encoding(given) is given


def test_rnf_in_a_model_is_rfp_without_steps() -> None:
    assert read_encoding({"name": "rnf", "num_channels": 8}) == RFPEncoding(num_channels=8, num_steps=0)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_a_name(name: str) -> None:
    config = ModelConfig(out_channels=1, in_channels=2, encodings=({"name": name},))
    assert len(config.encodings) == 1


def test_round_trip_through_json() -> None:
    config = ModelConfig(
        out_channels=3,
        in_channels=5,
        encodings=(
            {"name": "rfp", "num_trajectories": 4},
            {"name": "substructures", "cycles": [3, 5]},
            {"name": "sgc"},
        ),
        trajectories="dss",
        max_parameters=10**6,
    )
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": 3}, "a key of the model's config must be one of 'out_channels'.*got 'width'"),
        ({"backbone": "gat"}, "backbone must be one of.*got 'gat'"),
        ({"task": "edge"}, "task must be one of 'graph', 'node', 'link', got 'edge'"),
        ({"trajectories": "stack"}, "trajectories must be one of"),
        ({"trajectories": "dss", "trajectory_layers": 5}, "trajectory_layers=5 is more than num_layers=4"),
        ({"trajectories": "dss", "trajectory_layers": -1}, "trajectory_layers must be"),
        ({"trajectory_layers": 1}, 'set trajectories="independent" or "dss"'),
        ({"norm": "instance"}, "norm must be one of"),
        ({"activation": "swish"}, "activation must be one of"),
        ({"readout": "attention"}, "readout must be one of"),
        ({"node_encoder": "qm9"}, "node_encoder must be one of 'none', 'zinc', 'ogb', got 'qm9'"),
        ({"edge_encoder": "linear"}, "needs edge_channels"),
        ({"backbone": "gcn", "edge_encoder": "zinc"}, 'backbone="gcn" reads no edge features'),
        ({"backbone": "gine"}, 'set edge_encoder, or use backbone="gin"'),
        ({"hidden_channels": 0}, "hidden_channels must be an integer of at least 1, got 0"),
        ({"hidden_channels": 7.5}, "hidden_channels must be an integer of at least 1, got 7.5"),
        ({"encodings": []}, "a model needs node features"),
        ({"encodings": "rfp"}, r"encodings must be a list, \[\] for none, got 'rfp'"),
        ({"encodings": None}, r"encodings must be a list, \[\] for none, got None"),
        ({"encodings": ["rfp"]}, "an encoding must be a mapping such as .*, got 'rfp'"),
        ({"backbone": ["gcn"]}, r"backbone must be one of.*got \['gcn'\]"),
        ({"residual": "no"}, "residual must be true or false, got 'no'"),
        ({"dropout": "a"}, "dropout must be a number, got 'a'"),
        *[
            ({name: value}, f"{name} must be from 0 to 1, got {value}")
            for name in ("dropout", "input_dropout", "attention_dropout", "initial_residual")
            for value in (-0.1, 1.5)
        ],
        ({"initial_residual": 0.5}, 'backbone="gin" has no initial_residual and no identity_mapping: leave them out'),
        ({"backbone": "gcnii", "identity_mapping": 0}, "identity_mapping must be above 0, got 0"),
        ({"backbone": "gcnii", "identity_mapping": "a"}, "identity_mapping must be a number, got 'a'"),
        ({"num_heads": 0}, "num_heads must be an integer of at least 1, got 0"),
        ({"num_head_layers": "a"}, "num_head_layers must be an integer of at least 1, got 'a'"),
        ({"max_parameters": 0}, "max_parameters must be an integer of at least 1, got 0"),
        (
            {"task": "link", "encodings": [{"name": "rfp", "keep_draw": True}]},
            "keep_draw keeps the draw of a graph that stays as it is; in link prediction every batch has a graph of",
        ),
        (
            {"encodings": [{"name": "laplacian"}]},
            "the name of an encoding must be one of 'rfp', 'rnf'.*got 'laplacian'",
        ),
        ({"encodings": [{"name": "rfp", "learned_form": "x"}]}, "learned_form must be one of 'auto', .*got 'x'"),
        ({"encodings": [{"name": "rfp", "keep_draw": "no"}]}, "keep_draw must be true or false, got 'no'"),
        (
            {"encodings": [{"name": "rfp", "channels": 4}]},
            "a key of encoding 'rfp' must be one of.*got 'channels'",
        ),
        (
            {"encodings": [{"name": "eigenvectors"}, {"name": "eigenvectors", "operator": "normalized_adjacency"}]},
            "2 encodings are stored as 'eigenvector_pe', .* give each an attr_name of its own",
        ),
        ({"encodings": [{"name": "rfp", "num_steps": -1}]}, "num_steps must be an integer of at least 0, got -1"),
        (
            {"encodings": [{"name": "rfp", "num_trajectories": 2}, {"name": "rnf", "num_trajectories": 3}]},
            r"agree on num_trajectories \(or have 1\), got \[2, 3\]",
        ),
    ],
)
def test_wrong_values(values: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ModelConfig.from_dict({"out_channels": 1, **values})


def test_number_of_trajectories() -> None:
    encodings = ({"name": "rfp", "num_trajectories": 4}, {"name": "rnf"}, {"name": "eigenvectors"})
    assert ModelConfig(out_channels=1, encodings=encodings).num_trajectories == 4
    assert ModelConfig(out_channels=1, in_channels=3, encodings=()).num_trajectories == 1


def test_old_names_of_arguments_are_read() -> None:
    assert read_encoding({"name": "rfp", "unit_start": True}) == RFPEncoding(start="unit")
    assert read_encoding({"name": "rnf", "unit_start": False}) == RFPEncoding(num_steps=0)
    assert read_encoding({"name": "rfp", "num_eval_draws": 3}) == RFPEncoding(eval_draws=3)
    with pytest.raises(ArgumentError, match="unit_start=True is an old name of start, which is given too"):
        read_encoding({"name": "rfp", "unit_start": True, "start": "orthonormal"})
    with pytest.raises(ArgumentError, match="start must be one of"):
        read_encoding({"name": "rfp", "start": "units"})


def test_an_encoding_without_a_name_in_configs_is_told() -> None:
    config = ModelConfig(out_channels=1, in_channels=2, encodings=(AddRandomFeaturePropagationPE(num_channels=4),))
    with pytest.raises(ArgumentError, match="AddRandomFeaturePropagationPE has no name by which a config could"):
        config.to_dict()
