"""The settings: every argument checked in one place, and every face holds one."""

from __future__ import annotations

import inspect
import io
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rfp
from rfp import backends, normalization
from rfp.errors import ArgumentError
from rfp.nn import RandomFeaturePropagation, RFPEncoding
from rfp.settings import BACKEND_NAMES, Arguments, LoopArguments, Settings
from rfp.streaming import stream
from rfp.transforms import AddRandomFeaturePropagationPE

NAMES = [f.name for f in fields(Settings)]
RING = rfp.Graph(torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]]), 4)


def test_text_names_every_field() -> None:
    text = Settings(num_channels=3, operators=("adjacency",), storage_dtype=torch.float16).as_text()
    for part in ("num_channels=3", "num_steps=16", "operators=('adjacency',)", "normalize_every=1", "seed=0"):
        assert part in text
    assert "storage_dtype=torch.float16" in text
    assert text.count("=") == len(Settings.__dataclass_fields__)


def test_what_follows_from_them() -> None:
    settings = Settings(num_channels=3, num_steps=4, operators=("adjacency", "random_walk"))
    assert settings.num_columns == 30
    assert settings.stored_shape(7) == (7, 30)
    assert replace(settings, num_trajectories=2).stored_shape(7) == (7, 2, 30)
    assert settings.kept_dtype == torch.float32
    assert replace(settings, storage_dtype=torch.float16).kept_dtype == torch.float16


def test_integers_of_numpy_and_torch_are_integers() -> None:
    settings = Settings(num_channels=np.int64(3), num_steps=torch.tensor(2), seed=np.uint64(2**63))  # type: ignore[arg-type]
    assert (settings.num_channels, settings.num_steps, settings.seed) == (3, 2, 2**63)
    assert all(type(value) is int for value in (settings.num_channels, settings.num_steps, settings.seed))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": True}, "seed must be an integer, got True"),
        ({"seed": 1.0}, r"seed must be an integer, got 1\.0"),
        ({"seed": np.bool_(True)}, "seed must be an integer"),
        ({"num_channels": 0}, "num_channels must be an integer of at least 1, got 0"),
        ({"num_steps": False}, "num_steps must be an integer of at least 0, got False"),
        ({"num_trajectories": 1.5}, "num_trajectories must be an integer"),
        ({"operators": "adjacency"}, r'operators must be a non-empty list such as \["adjacency"\]'),
        ({"operators": []}, "operators must be a non-empty list"),
        ({"operators": ["laplacian"]}, "operator .* must be one of 'adjacency', .*, got 'laplacian'"),
        ({"operators": ["adjacency^0"]}, "power of an operator must be at least 1"),
        ({"operators": ["learned"]}, "got 'learned'"),
        ({"normalization": "qrr"}, "normalization must be one of .*, got 'qrr'"),
        ({"normalization": 3}, "normalization must be one of .*, got 3"),
        ({"distribution": "cauchy"}, "distribution must be one of .*, got 'cauchy'"),
        ({"start": "orthogonal"}, "start must be one of .*, got 'orthogonal'"),
        ({"backend": "nonsense"}, "backend must be one of 'auto', 'learned', .*, got 'nonsense'"),
        ({"dtype": torch.float16}, r"dtype must be torch\.float32 or torch\.float64, got torch\.float16; to keep"),
        ({"dtype": "double precision"}, "dtype must be a torch dtype .*, got 'double precision'"),
        ({"storage_dtype": torch.int32}, r"storage_dtype must be a floating-point type .*, got torch\.int32"),
        ({"storage_dtype": "float8"}, "storage_dtype must be a torch dtype"),
        ({"strict": 1}, "strict must be True or False, got 1"),
        ({"cache": 3}, "cache must be the path of a folder or None, got 3"),
        ({"chanels": 3}, "an argument of an encoding must be one of 'num_channels', .*, got 'chanels'"),
    ],
)
def test_wrong_values_are_refused_alike_by_every_face(arguments: dict[str, Any], message: str) -> None:
    faces = [
        lambda: rfp.encode(RING, **arguments),
        lambda: rfp.estimate(RING, **arguments),
        lambda: stream(RING, io.BytesIO(), **arguments),
        lambda: RandomFeaturePropagation(**arguments),
    ]
    if set(arguments) <= {*LoopArguments.__annotations__, "chanels"}:
        S, r = rfp.operators.from_name("adjacency", RING), torch.ones(4, 2)
        faces += [lambda: rfp.propagate(S, r, **arguments), lambda: list(rfp.states(S, r, **arguments))]
    if "chanels" not in arguments:  # a dataclass raises Python's own TypeError
        faces += [lambda: Settings(**arguments), lambda: AddRandomFeaturePropagationPE(**arguments)]
    for face in faces:
        with pytest.raises(ArgumentError, match=message):
            face()
    if arguments.get("operators") != ["learned"] and "chanels" not in arguments:
        with pytest.raises(ArgumentError):
            RFPEncoding(**arguments)


def test_types_by_name_and_paths() -> None:
    settings = Settings(dtype="float64", storage_dtype="float16", cache=Path("here"))  # type: ignore[arg-type]
    assert (settings.dtype, settings.storage_dtype) == (torch.float64, torch.float16)


@pytest.mark.parametrize("name", ["l2", "qr", "none", "inverse_gram"])
def test_a_normalisation_may_be_the_librarys_own_function(name: str) -> None:
    function = getattr(normalization, name)
    assert Settings(normalization=function).normalization == name
    got = rfp.encode(RING, num_channels=2, num_steps=3, normalization=function)
    assert torch.equal(got.states, rfp.encode(RING, num_channels=2, num_steps=3, normalization=name).states)


def test_the_keywords_for_type_checkers_are_the_fields() -> None:
    assert set(Arguments.__annotations__) == set(NAMES)
    assert {f.name for f in fields(AddRandomFeaturePropagationPE)} == {*NAMES, "attr_name"}
    assert set(NAMES) < {f.name for f in fields(RFPEncoding)}


def test_the_names_of_backends_are_those_there_are() -> None:
    assert ("auto", *(backend.name for backend in backends.BACKENDS)) == BACKEND_NAMES


@pytest.mark.parametrize("face", [rfp.encode, rfp.estimate, stream, RandomFeaturePropagation])
def test_help_lists_every_argument_with_its_default(face: Any) -> None:
    parameters = inspect.signature(face).parameters
    assert [parameters[f.name].default for f in fields(Settings)] == [f.default for f in fields(Settings)]
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def test_settings_and_keywords_go_together() -> None:
    settings = Settings(num_channels=2, num_steps=3, seed=4)
    expected = rfp.encode(RING, num_channels=2, num_steps=3, seed=5).flat()
    assert torch.equal(rfp.encode(RING, settings, seed=5).flat(), expected)
    assert torch.equal(RandomFeaturePropagation(settings, seed=5).eval()(RING), expected)
    assert torch.equal(RandomFeaturePropagation(2, num_steps=3, seed=5).eval()(RING), expected)
    file = io.BytesIO()
    stream(RING, file, settings, seed=5)
    assert np.array_equal(np.load(io.BytesIO(file.getvalue())), expected[0].numpy())
    assert rfp.estimate(RING, settings) == rfp.estimate(RING, num_channels=2, num_steps=3)
    S, r = rfp.operators.from_name("normalized_adjacency", RING), rfp.random_features(RING, num_channels=2, seed=5)
    assert torch.equal(rfp.propagate(S, r, settings).flat(), expected)
    assert len(list(rfp.states(S, r, settings, num_steps=1))) == 2
    with pytest.raises(ArgumentError, match=r"settings must be an rfp\.Settings, got int; give arguments by name"):
        rfp.encode(RING, 16)  # type: ignore[arg-type]


def test_the_module_keeps_what_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(rfp.NumericalError, match="strict=True"):
        RandomFeaturePropagation(6, num_steps=1, strict=True).eval()(RING)
    half = RandomFeaturePropagation(2, storage_dtype="float16", cache=tmp_path).eval()
    assert half(RING).dtype == torch.float16
    assert len(list(tmp_path.iterdir())) == 1
    assert torch.equal(half(RING), half(RING))
    half.train()(RING)  # a draw of training is made once, and not kept
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(ArgumentError, match="leave cache out"):
        RandomFeaturePropagation(2, operators=[torch.nn.Linear(1, 1)], cache=tmp_path)


def test_a_stream_refuses_what_it_cannot_keep(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="not cached; leave cache out"):
        stream(RING, io.BytesIO(), cache=tmp_path)
    with pytest.raises(ArgumentError, match=r"an \.npy file holds .*, got storage_dtype=torch\.bfloat16"):
        stream(RING, io.BytesIO(), storage_dtype=torch.bfloat16)
    assert rfp.encode(RING, storage_dtype=torch.bfloat16).states.dtype == torch.bfloat16


def test_both_directions_are_two_operators() -> None:
    assert rfp.Settings(operators=["both_directions"]).operators == ("normalized_adjacency", "normalized_adjacency.T")
    settings = rfp.Settings(num_channels=2, num_steps=1, operators=["random_walk.both^2", "adjacency"])
    assert settings.operators == ("random_walk^2", "random_walk.T^2", "adjacency")
    assert settings.num_columns == 12
    with pytest.raises(rfp.ArgumentError, match="both_directions"):
        rfp.Settings(operators=["adjacency.sym.both"])


def test_no_normalisation_is_not_w_0() -> None:
    with pytest.raises(ArgumentError, match=r'normalize_every must be an integer of at least 1, got 0; .*"none"'):
        Settings(normalize_every=0)


# Faces that take other objects' fields beside those of Settings: by hand, a keyword and its default.
WITH_OTHERS = [
    (rfp.partitioned.encode, {"memory": 2_000_000_000, "device": "cpu", "num_channels": 16, "cache": None}),
    (rfp.partitioned.encode_files, {"options": None, "memory": 2_000_000_000, "num_steps": 16}),
    (rfp.links.score_pairs, {"score": "common_neighbors", "beta": 0.005, "num_channels": 256, "num_trajectories": 4}),
    (rfp.links.top_pairs, {"exact": False, "max_length": 6, "start": "orthonormal"}),
    (rfp.theory.trace, {"operator": "adjacency", "confidence": 0.95, "distribution": "rademacher"}),
    (rfp.theory.count_triangles, {"hubs": 0, "num_samples": None, "per_node": False}),
]


@pytest.mark.parametrize(("face", "expected"), WITH_OTHERS)
def test_help_lists_the_keywords_of_every_object_a_face_takes(face: Any, expected: dict[str, Any]) -> None:
    parameters = inspect.signature(face).parameters
    assert {name: parameters[name].default for name in expected} == expected
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters.values())


@pytest.mark.parametrize(
    ("face", "given", "asked"),
    [
        (rfp.links.score_pairs, (RING, torch.tensor([[0], [2]])), {"num_step": 2}),
        (rfp.links.top_pairs, (RING, 1), {"normalization": "qr"}),
        (rfp.theory.trace, (RING,), {"power": 2, "samples": 8}),
        (rfp.theory.count_triangles, (RING,), {"length": 3}),
        (rfp.theory.count_walks, (RING,), {"length": 3, "hubs": 1}),
        (rfp.products.diagonal, (RING,), {"num_steps": 2}),
    ],
)
def test_a_keyword_that_no_object_knows_is_refused_with_those_that_are(face: Any, given: Any, asked: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"an argument must be one of '.*seed'.*, got '{list(asked)[-1]}'"):
        face(*given, **asked)
