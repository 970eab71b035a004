"""The side-car."""

import hashlib
import json
from pathlib import Path

import torch

import rfp
from rfp.io.metadata import arguments, as_text, describe_input, describe_output, layout, versions
from rfp.io.options import ReadOptions
from rfp.io.readers import read_files
from rfp.settings import Settings


def test_layout_finds_the_states_of_a_trajectory() -> None:
    operators = ("adjacency", "random_walk")
    settings = Settings(num_channels=3, num_steps=2, operators=operators)
    graph = rfp.Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4).to_undirected()
    trajectory = rfp.encode(graph, num_channels=3, num_steps=2, operators=operators, backend="reference")
    flat = trajectory.node_first()
    blocks = layout(settings)
    assert [(b["operator"], b["step"]) for b in blocks] == [(o, p) for o in operators for p in range(3)]
    assert blocks[-1]["stop"] == flat.size(1)
    for block in blocks:
        o, p = operators.index(block["operator"]), block["step"]
        expected = trajectory.states[0, :, p, 3 * o : 3 * o + 3]
        assert torch.equal(flat[:, block["start"] : block["stop"]], expected)


def test_every_argument_is_json() -> None:
    settings = Settings(seed=5, storage_dtype=torch.float16)
    values = json.loads(json.dumps(arguments(settings)))
    assert set(values) == set(Settings.__dataclass_fields__)
    assert (values["seed"], values["dtype"], values["storage_dtype"]) == (5, "float32", "float16")


def test_input_is_described_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    options = ReadOptions(directed=True)
    file = str(tmp_path / "a.csv")
    about = describe_input([file], options, read_files(file, options))
    assert about["sha256"] == hashlib.sha256(b"a,b\n").hexdigest()
    assert (about["num_nodes"], about["num_edges"], about["directed"], about["node_ids"]) == (2, 1, True, "text")
    assert about["options"]["directed"] is True
    assert (about["format"], about["as_read"]["separator"]) == ("edges", "comma")
    (tmp_path / "b.csv").write_text("b,c\n")
    two = describe_input([file, str(tmp_path / "b.csv")], options, read_files([file, tmp_path / "b.csv"], options))
    assert two["sha256"] == [hashlib.sha256(text).hexdigest() for text in (b"a,b\n", b"b,c\n")]


def test_output_shape() -> None:
    assert describe_output(Settings(num_channels=2, num_steps=3), 5, "a.npy")["shape"] == [5, 8]
    several = describe_output(Settings(num_channels=2, num_steps=3, num_trajectories=4), 5, "a.npy")
    assert (several["shape"], several["axes"]) == ([5, 4, 8], ["node", "trajectory", "column"])


def test_text_is_the_same_json_with_one_line_a_block() -> None:
    about = {"versions": versions(), "output": {"layout": layout(Settings(num_steps=2))}}
    text = as_text(about)
    assert json.loads(text) == about
    assert text.count('"step"') == sum('"step"' in line and '"stop"' in line for line in text.splitlines()) == 3


def test_the_layout_of_very_many_steps_stays_short() -> None:
    blocks = layout(Settings(num_channels=3, num_steps=10**7, operators=("adjacency", "random_walk")))
    assert [(block["step"], block["start"], block["stop"]) for block in blocks] == [
        (0, 0, 3),
        (10**7, 3 * 10**7, 3 * 10**7 + 3),
        (0, 3 * 10**7 + 3, 3 * 10**7 + 6),
        (10**7, 6 * 10**7 + 3, 6 * 10**7 + 6),
    ]
    listed = layout(Settings(num_channels=3, num_steps=4, operators=("adjacency", "random_walk")))
    assert listed[-1] == {"operator": "random_walk", "step": 4, "start": 27, "stop": 30}
