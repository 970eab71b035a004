"""``rfp encode`` for an embedding of k columns: steps kept, and FastRP."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import rfp
from rfp.baselines import fast_random_projection
from rfp.cli.main import app

SMALL = ["-k", "3", "-P", "4", "--backend", "reference"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("g.csv").write_text("0,1\n1,2\n2,3\n3,0\n0,2\n")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["encode", "g.csv", "-q", *arguments])


def refusal(result: Result) -> str:
    """The one line that the command ends with, exit code 2; :func:`rfp.cli.main.main` prints the library's errors."""
    if isinstance(result.exception, rfp.RFPError):
        return str(result.exception)
    assert result.exit_code == 2, result.exception
    return " ".join(result.output.replace("│", " ").split())


def written(*arguments: str) -> np.ndarray:
    result = run(*arguments, "-o", "a.npy", "--force")
    assert result.exit_code == 0, (result.output, result.exception)
    return np.load("a.npy")


def graph() -> rfp.Graph:
    return rfp.Graph(torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]]), 4).to_undirected()


@pytest.mark.parametrize("how", [(), ("--stream",)])
@pytest.mark.parametrize(("option", "steps"), [(("--last-only",), [4]), (("--steps-kept", "-1,0,2"), [0, 2, 4])])
def test_only_the_steps_that_are_kept_are_written(
    how: tuple[str, ...], option: tuple[str, ...], steps: list[int]
) -> None:
    operators = ("--operator", "adjacency", "--operator", "random_walk")
    whole = written(*SMALL, *operators, "-B", "2").reshape(4, 2, 2, 5, 3)
    few = written(*SMALL, *operators, "-B", "2", *option, *how)
    assert np.array_equal(few, whole[:, :, :, steps].reshape(4, 2, -1))
    about = json.loads(Path("a.npy.json").read_text())
    assert about["arguments"]["steps_kept"] == steps
    assert about["output"]["shape"] == list(few.shape)
    blocks = about["output"]["layout"]
    assert [block["step"] for block in blocks] == steps * 2
    assert [(block["start"], block["stop"]) for block in blocks] == [(3 * i, 3 * i + 3) for i in range(len(blocks))]


def test_whole_batches_and_caches_keep_the_same_steps() -> None:
    last = written(*SMALL, "--last-only")
    assert np.array_equal(written(*SMALL, "--last-only", "--cache", "store"), last)
    assert np.array_equal(written(*SMALL, "--last-only", "--cache", "store"), last)


def test_fastrp_equals_the_library() -> None:
    found = written("--preset", "fastrp", "-k", "8", "--seed", "5")
    assert np.array_equal(found, fast_random_projection(graph(), embedding_dimension=8, seed=5))
    about = json.loads(Path("a.npy.json").read_text())
    assert about["arguments"]["preset"] == "fastrp"
    assert about["arguments"]["iteration_weights"] == [0.0, 1.0, 1.0]
    assert about["output"]["shape"] == [4, 8]
    assert about["output"]["layout"] == [{"operator": "fastrp", "step": "weighted sum", "start": 0, "stop": 8}]

    np.save("x.npy", np.eye(4))
    options = "--iteration-weights 0.5,2 --normalization-strength -0.5 --node-self-influence 3 --dtype float64"
    features = "--node-features x.npy --property-ratio 0.5 --storage-dtype float16"
    found = written("--preset", "fastrp", "-k", "8", *options.split(), *features.split())
    expected = fast_random_projection(
        graph(),
        embedding_dimension=8,
        iteration_weights=[0.5, 2.0],
        normalization_strength=-0.5,
        node_self_influence=3.0,
        property_ratio=0.5,
        x=torch.eye(4),
        dtype=torch.float64,
    )
    assert found.dtype == np.float16
    assert np.array_equal(found, expected.half())


def test_of_fastrp_the_kept_terms_of_the_sum() -> None:
    found = written("--preset", "fastrp", "-k", "8", "--last-only")
    assert np.array_equal(found, fast_random_projection(graph(), embedding_dimension=8, iteration_weights=[0, 0, 1.0]))


def test_what_it_costs_follows_what_is_kept() -> None:
    def cost(*options: str) -> dict[str, int]:
        result = CliRunner().invoke(app, ["encode", "g.csv", "--estimate", "--json", *options])
        assert result.exit_code == 0, result.output
        found: dict[str, int] = json.loads(result.stdout)
        return found

    assert cost(*SMALL)["width"] == 15
    assert cost(*SMALL, "--last-only")["output_bytes"] == 4 * 3 * 4
    assert cost("--preset", "fastrp", "-k", "8")["width"] == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--last-only --steps-kept 1", "contradict"),
        ("--steps-kept 5", "from 0 to 4"),
        ("--steps-kept 1,1", "each once"),
        ("--steps-kept one", "whole numbers"),
        ("--node-self-influence 1", "add --preset fastrp"),
        ("--preset fastrp", "-P and --preset"),
        ("--preset node2vec", "not one of fastrp"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(options: str, message: str) -> None:
    result = run(*SMALL, *options.split(), "-o", "a.npy")
    assert message in refusal(result)
    assert not Path("a.npy").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--iteration-weights 0,x", "numbers separated by commas"),
        ("--iteration-weights 0,0", "all zero"),
        ("--property-ratio 0.5", "belong together"),
        ("--property-ratio 0.5 --node-features g.csv", "not an .npy file"),
        ("--property-ratio 0.5 --node-features short.npy", "a row for each of the 4 nodes"),
        ("--stream", "leave --stream out"),
    ],
)
def test_bad_parameters_of_fastrp(options: str, message: str) -> None:
    np.save("short.npy", np.zeros((3, 2)))
    result = run("--preset", "fastrp", *options.split(), "-o", "a.npy")
    assert message in refusal(result)
    assert not Path("a.npy").exists()
