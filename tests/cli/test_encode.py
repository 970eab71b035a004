"""``rfp encode`` as its user meets it."""

import gzip
import io
import json
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner, Result

import rfp
from rfp.cli.main import app

SMALL = ["-k", "3", "-P", "2", "--backend", "reference"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("g.csv").write_text("ann,bob\nbob,cy\ncy,dan\ndan,ann\nann,cy\n")
    return tmp_path


def run(*arguments: str, **more: object) -> Result:
    return CliRunner().invoke(app, ["encode", *arguments], **more)  # type: ignore[arg-type]


def done(*arguments: str, **more: object) -> Result:
    result = run(*arguments, **more)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def library(**arguments: object) -> np.ndarray:
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    graph = rfp.Graph(edges, 4).to_undirected()
    return (
        rfp.encode(graph, **{"num_channels": 3, "num_steps": 2, "backend": "reference", **arguments})
        .node_first()
        .numpy()
    )


def test_npy_equals_the_library_and_nothing_else_is_left() -> None:
    result = done("g.csv", *SMALL, "-o", "a.npy")
    assert np.array_equal(np.load("a.npy"), library())
    assert sorted(os.listdir()) == ["a.npy", "a.npy.json", "a.npy.nodes.csv", "g.csv"]
    assert pd.read_csv("a.npy.nodes.csv")["node"].tolist() == ["ann", "bob", "cy", "dan"]
    assert result.stdout == ""
    assert "g.csv: 4 nodes, 5 undirected edges, unweighted; format edges, separator comma, header none" in result.stderr
    assert "a.npy: 4 x 9 float32" in result.stderr


def test_every_option_reaches_the_library() -> None:
    options = (
        "-k 2 -P 3 -w 2 -B 2 --operator adjacency --operator random_walk.T --normalization l2 --distribution uniform"
    )
    more = "--seed 9 --dtype float64 --storage-dtype float16 --backend reference --device cpu -o a.npz"
    done("g.csv", *options.split(), *more.split())
    read = np.load("a.npz", allow_pickle=False)
    expected = library(
        num_channels=2,
        num_steps=3,
        normalize_every=2,
        num_trajectories=2,
        operators=["adjacency", "random_walk.T"],
        normalization="l2",
        distribution="uniform",
        seed=9,
        dtype=torch.float64,
        storage_dtype=torch.float16,
    )
    assert read["encoding"].dtype == np.float16
    assert np.array_equal(read["encoding"], expected)
    assert read["node_ids"].tolist() == ["ann", "bob", "cy", "dan"]
    recorded = json.loads(Path("a.npz.json").read_text())
    assert recorded["arguments"]["seed"] == 9
    assert recorded["arguments"]["operators"] == ["adjacency", "random_walk.T"]
    assert recorded["output"]["shape"] == [4, 2, 16]
    assert recorded["versions"]["rfp"] == rfp.__version__


def test_parquet_and_pt() -> None:
    done("g.csv", *SMALL, "-o", "a.parquet")
    frame = pd.read_parquet("a.parquet")
    assert frame["node"].tolist() == ["ann", "bob", "cy", "dan"]
    assert np.array_equal(np.stack(frame["encoding"]), library())
    done("g.csv", *SMALL, "-o", "a.pt")
    assert np.array_equal(torch.load("a.pt", weights_only=True)["encoding"].numpy(), library())


def test_numbers_0_to_n_need_no_file_of_names() -> None:
    Path("n.txt").write_text("0 1\n1 2\n")
    done("n.txt", *SMALL, "-o", "a.npy")
    assert not Path("a.npy.nodes.csv").exists()
    assert json.loads(Path("a.npy.json").read_text())["input"]["node_ids"] == "0 to n - 1"


def test_a_batch_of_graphs() -> None:
    triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
    torch.save([Data(edge_index=triangle, num_nodes=3), Data(edge_index=triangle, num_nodes=4)], "b.pt")
    done("b.pt", *SMALL, "-o", "a.npy")
    alone = rfp.encode((triangle, 4), num_channels=3, num_steps=2, backend="reference").node_first().numpy()
    assert np.allclose(np.load("a.npy")[3:], alone, atol=1e-6)
    assert pd.read_csv("a.npy.nodes.csv").to_dict("list") == {
        "graph": [0, 0, 0, 1, 1, 1, 1],
        "node": [0, 1, 2, 0, 1, 2, 3],
    }


@pytest.mark.parametrize("name", ["k.csv.gz", "k.npz", "k.graphml"])
def test_the_same_draw_from_every_format(name: str) -> None:
    graph = nx.path_graph(6)
    if name == "k.csv.gz":
        Path(name).write_bytes(gzip.compress("".join(f"{u},{v}\n" for u, v in graph.edges).encode()))
    elif name == "k.npz":
        sp.save_npz(name, nx.to_scipy_sparse_array(graph, dtype=float))
    else:
        nx.write_graphml(graph, name)
    done(name, *SMALL, "-o", "a.npy")
    expected = rfp.encode(graph, num_channels=3, num_steps=2, backend="reference").node_first().numpy()
    assert np.allclose(np.load("a.npy"), expected, atol=1e-6)


def test_options_of_reading() -> None:
    Path("w.txt").write_text("when who whom strength\n5 1 3 2.0\n6 3 2 4.0\n")
    columns = ["--source", "who", "--target", "3", "--weight", "strength"]
    done("w.txt", *SMALL, *columns, "--num-nodes", "5", "--directed", "--operator", "adjacency", "-o", "a.npy")
    edges, weight = torch.tensor([[1, 3], [3, 2]]), torch.tensor([2.0, 4.0])
    graph = rfp.Graph(edges, 5, weight)
    expected = rfp.encode(graph, num_channels=3, num_steps=2, operators=["adjacency"], backend="reference")
    assert np.array_equal(np.load("a.npy"), expected.node_first().numpy())
    read = json.loads(Path("a.npy.json").read_text())["input"]
    assert (read["weights"], read["ignored_columns"]) == ("column 'strength'", ["'when'"])


def test_streamed_equals_memory() -> None:
    done("g.csv", *SMALL, "-B", "2", "--stream", "-o", "s.npy")
    done("g.csv", *SMALL, "-B", "2", "--no-stream", "-o", "m.npy")
    assert np.array_equal(np.load("s.npy"), np.load("m.npy"))
    assert json.loads(Path("s.npy.json").read_text())["output"]["streamed"] is True
    assert Path("s.npy.nodes.csv").read_bytes() == Path("m.npy.nodes.csv").read_bytes()


def test_streams_by_itself_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = rfp.estimate(rfp.read_graph("g.csv").graph, num_channels=3, num_steps=2)
    monkeypatch.setattr("rfp.encode_file.available_memory", lambda device: cost.working_bytes)
    done("g.csv", *SMALL, "-o", "a.npy")
    assert json.loads(Path("a.npy.json").read_text())["output"]["streamed"] is True
    assert np.array_equal(np.load("a.npy"), library())
    result = run("g.csv", *SMALL, "-o", "a.parquet")
    assert result.exit_code == 1
    assert "write it step by step with -o a.npy" in str(result.exception)
    done("g.csv", *SMALL, "--no-stream", "-o", "a.parquet")


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_standard_output(how: str) -> None:
    result = done("g.csv", *SMALL, how, "-o", "-")
    assert np.array_equal(np.load(io.BytesIO(result.stdout_bytes)), library())
    assert os.listdir() == ["g.csv"]
    assert "rows follow the order of the node ids" in result.stderr


def test_standard_input() -> None:
    done("-", *SMALL, "-o", "a.npy", input=Path("g.csv").read_bytes())
    assert np.array_equal(np.load("a.npy"), library())
    assert json.loads(Path("a.npy.json").read_text())["input"]["sha256"] is None


def test_json_report() -> None:
    result = done("g.csv", *SMALL, "--json", "-o", "a.npy")
    report = json.loads(result.stdout)
    assert report["output"]["shape"] == [4, 9]
    assert report["report"]["backend"] == "reference"
    assert set(report["seconds"]) == {"read", "encode", "write", "total"}
    assert result.stderr.splitlines()[0].startswith("g.csv: 4 nodes")
    assert done("g.csv", *SMALL, "--json", "--quiet", "-o", "b.npy").stderr == ""


def test_estimate_runs_nothing() -> None:
    result = done("g.csv", "-k", "3", "-P", "2", "--estimate", "--json")
    values = json.loads(result.stdout)
    assert values["output_bytes"] == 4 * 9 * 4
    assert values["num_edges"] == 10
    assert "144 bytes" in done("g.csv", "-k", "3", "-P", "2", "--estimate").stdout
    assert os.listdir() == ["g.csv"]


def test_the_estimate_of_a_huge_graph_is_immediate() -> None:
    Path("n.txt").write_text("0 1\n1 2\n")
    values = json.loads(done("n.txt", "--num-nodes", "2000000000", "--estimate", "--json").stdout)
    assert (values["num_nodes"], values["output_bytes"]) == (2 * 10**9, 2 * 10**9 * 17 * 16 * 4)


def test_what_would_never_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("g.csv", "-P", "10000000", "-o", "a.npy")
    assert "-P 10,000,000 gives 160,000,016 numbers for each node" in str(result.exception)
    result = run("g.csv", "-k", "1000000", "-o", "a.npy")
    assert "a k x k matrix 8.0 TB); use fewer channels" in str(result.exception)
    assert json.loads(done("g.csv", "-k", "100000", "--estimate", "--json").stdout)["working_bytes"] > 80 * 10**9
    assert os.listdir() == ["g.csv"]
    monkeypatch.setattr("rfp.encode_file.MAX_STEPS", 1)
    done("g.csv", *SMALL, "-o", "a.npy", "--force")
    assert np.load("a.npy").shape == (4, 9)


def test_an_existing_output_is_kept_unless_forced() -> None:
    done("g.csv", *SMALL, "-o", "a.npy")
    before = Path("a.npy").read_bytes()
    result = run("g.csv", *SMALL, "--seed", "1", "-o", "a.npy")
    assert result.exit_code == 1
    assert "already there; choose another name, or replace with --force" in str(result.exception)
    assert Path("a.npy").read_bytes() == before
    Path("n.txt").write_text("0 1\n1 2\n")
    done("n.txt", *SMALL, "-o", "a.npy", "--force")
    assert len(np.load("a.npy")) == 3
    assert not Path("a.npy.nodes.csv").exists()  # it named the nodes of the other graph


def test_the_input_is_never_replaced(tmp_path: Path) -> None:
    sp.save_npz("x.npz", sp.csr_array([[0, 1], [1, 0]]))
    os.link("x.npz", "hard.npz")
    os.symlink("x.npz", "soft.npz")
    before = Path("x.npz").read_bytes()
    for name in ("x.npz", "hard.npz", "soft.npz", str(tmp_path / "x.npz")):
        result = run("x.npz", *SMALL, "-o", name, "--force")
        assert "is the input x.npz, which would be lost" in str(result.exception)
    os.rename("g.csv", "a.npy.nodes.csv")  # a name that goes with the output
    assert "is the input" in str(run("a.npy.nodes.csv", *SMALL, "-o", "a.npy", "--force").exception)
    assert Path("x.npz").read_bytes() == before
    assert sorted(os.listdir()) == ["a.npy.nodes.csv", "hard.npz", "soft.npz", "x.npz"]


def test_a_failure_while_computing_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("rfp.file_contents.encode_steps", fail)
    assert run("g.csv", *SMALL, "-o", "a.npy").exit_code == 1
    assert os.listdir() == ["g.csv"]


def test_a_disk_that_fills_up_keeps_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    done("g.csv", *SMALL, "-o", "a.npy")
    before = Path("a.npy").read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run("g.csv", *SMALL, "--force", "--seed", "3", "-o", "a.npy")
    assert result.exit_code == 1
    assert "no space left while writing" in str(result.exception)
    assert Path("a.npy").read_bytes() == before
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_too_little_space_is_said_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.atomic.shutil.disk_usage", lambda folder: type("usage", (), {"free": 10}))
    result = run("g.csv", *SMALL, "-o", "a.npy")
    assert "a.npy needs" in str(result.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ["g.csv"],
        ["g.csv", "-o", "-", "--json"],
        ["g.csv", "-o", "a.npy", "-k", "0"],
        ["g.csv", "-o", "a.npy", "--operator", "foo"],
        ["g.csv", "-o", "a.npy", "--normalization", "foo"],
        ["g.csv", "-o", "a.npy", "--dtype", "float16"],
        ["g.csv", "-o", "a.npy", "--device", "toaster"],
        ["g.csv", "-o", "a.npy", "--device", "cuda:99"],
        ["g.csv", "-o", "a.npy", "--wrong"],
        [],
    ],
)
def test_a_wrong_command_line_is_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2
    assert os.listdir() == ["g.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "-o", "a.npy"], "none.csv: no such file"),
        (["g.csv", "-o", "a.csv"], "must end in .npy"),
        (["g.csv", "-o", "no/a.npy"], "the folder no does not exist"),
        (["g.csv", "-o", "a.pt", "--stream"], "--stream writes .npy only"),
        (["g.csv", "-o", "a.npy", "--stream", "--cache", "kept"], "--stream and --cache contradict each other"),
        (["g.csv", "-k", "9", "--strict", "-o", "a.npy"], "dependent columns"),
        (["g.csv", "--num-nodes", "9", "-o", "a.npy"], "g.csv, line 1: node id 'ann' is not a node number"),
    ],
)
def test_work_that_cannot_be_done_is_code_1(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in str(result.exception)
    assert isinstance(result.exception, rfp.RFPError)
    assert os.listdir() == ["g.csv"]


def test_help_has_an_example_that_runs(folder: Path) -> None:
    text = done("--help").stdout
    example = next(line.split() for line in text.splitlines() if "examples/karate.csv" in line)
    karate = Path(__file__).parents[2] / "examples" / "karate.csv"
    done(str(karate), *example[3:])
    expected = rfp.encode(nx.Graph(nx.karate_club_graph().edges), num_channels=8).node_first()
    assert np.load("karate.npy").shape == tuple(expected.shape) == (34, 136)


def test_show_says_how_the_file_was_read_and_stops() -> None:
    Path("w.csv").write_text("# c\nsource,target,weight,year\nann,bob,2,1\nbob,ann,2,1\nbob,cy,0.5,2\n")
    shown_lines = done("w.csv", "--show").stdout.splitlines()
    lines = dict(line.split(None, 1) for line in shown_lines if not line.startswith(" "))
    assert lines["separator"] == "comma"
    assert lines["header"] == "line 2"
    assert (lines["source"], lines["weight"]) == ("column 'source'", "column 'weight'")
    assert lines["comments"] == "1 skipped"
    assert lines["duplicates"] == "1 of 3 lines merged (equal)"
    assert lines["ignored"] == "column 'year'"
    assert "ann  bob  2" in done("w.csv", "--show").stdout
    shown = json.loads(done("w.csv", "--show", "--json").stdout)
    assert shown["first_edges"] == [["ann", "bob", "2"], ["bob", "ann", "2"], ["bob", "cy", "0.5"]]
    assert sorted(os.listdir()) == ["g.csv", "w.csv"]


def test_several_files_and_every_option_of_reading() -> None:
    Path("a.csv").write_text("//x\n01;1;2\n")
    Path("b.csv").write_text("1;2;3\n2;1;4\n")
    options = [
        "--comment",
        "//",
        "--ids",
        "int",
        "--duplicates",
        "max",
        "--no-quotes",
        "--no-header",
        "--delimiter",
        ";",
    ]
    done("a.csv", "b.csv", *SMALL, *options, "--weight", "3", "--operator", "adjacency", "-o", "a.npy")
    graph = rfp.Graph(torch.tensor([[0, 0], [0, 1]]), 2, torch.tensor([2.0, 4.0]))
    expected = rfp.encode(
        graph.to_undirected(), num_channels=3, num_steps=2, operators=["adjacency"], backend="reference"
    )
    assert np.allclose(np.load("a.npy"), expected.node_first().numpy(), atol=1e-6)
    about = json.loads(Path("a.npy.json").read_text())["input"]
    assert about["file"] == ["a.csv", "b.csv"]
    assert len(about["sha256"]) == 2


def test_the_cache_serves_the_second_call() -> None:
    first, second = (
        json.loads(done("g.csv", *SMALL, "--cache", "kept", "-o", name, "--json").stdout) for name in ("a.npy", "b.npy")
    )
    assert "cached" not in first["report"]["reason"]
    assert "cached in kept" in second["report"]["reason"]
    assert np.array_equal(np.load("a.npy"), np.load("b.npy"))
