"""``rfp encode`` by row blocks: by itself where memory will not do, resumed, refused with the difference."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import rfp
from rfp.cli.main import app
from rfp.encode_file import FileJob
from rfp.encode_folder import Resources, parse_size, why_folder
from rfp.errors import ArgumentError
from rfp.partitioned.lock import locked

SMALL = ["-k", "3", "-P", "2"]
TEXT = "ann,bob\nbob,cy\ncy,dan\ndan,ann\nann,cy\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rfp.partitioned.checked_files.os.fsync", lambda handle: None)
    Path("g.csv").write_text(TEXT)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["encode", *arguments])


def done(*arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def expected() -> np.ndarray:
    graph = rfp.read_graph("g.csv").graph
    return rfp.encode(graph, num_channels=3, num_steps=2, backend="reference").node_first().numpy()


def test_a_folder_holds_the_encoding_of_memory_and_says_what_it_does() -> None:
    result = done("g.csv", *SMALL, "--memory", "1GB", "-o", "store")
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == "rfp: by row blocks in files (as asked for)"
    assert [line.split(" done")[0] for line in lines[1:4]] == [f"rfp: step {p} of 3" for p in (1, 2, 3)]
    assert "left" in lines[2]
    assert lines[-1].startswith("store: 4 x 9 float32 in ")
    encoded = rfp.partitioned.open("store")
    np.testing.assert_allclose(encoded.trajectory().node_first(), expected(), atol=1e-6)
    assert list(encoded.node_ids()) == ["ann", "bob", "cy", "dan"]  # type: ignore[arg-type]
    again = done("g.csv", *SMALL, "--memory", "1GB", "-o", "store")
    assert "rfp: store: 3 of 3 steps are there" in again.stderr


def test_other_arguments_are_refused_and_replaced_by_force() -> None:
    done("g.csv", *SMALL, "-o", "store")  # a name without suffix is a folder
    refused = run("g.csv", "-k", "3", "-P", "3", "-o", "store")
    assert "num_steps is 2 there and 3 here" in str(refused.exception)
    assert "steps are there" not in refused.stderr  # of another encoding nothing is gone on with
    done("g.csv", "-k", "3", "-P", "3", "-o", "store", "--force")
    assert rfp.partitioned.open("store").num_steps == 3
    Path("g.csv").write_text(TEXT + "ann,dan\nbob,dan\n")
    refused = run("g.csv", "-k", "3", "-P", "3", "-o", "store")
    assert "g.csv had 37 bytes" in str(refused.exception)


@pytest.mark.parametrize("more", [("-o", "a.npy"), ("--memory", "300MB", "-o", "store"), ("--estimate",)])
@pytest.mark.parametrize("steps", ["1000001", "99999999999999999999999"])
def test_steps_without_end_are_refused_before_anything_is_made_of_them(more: tuple[str, ...], steps: str) -> None:
    refused = run("g.csv", "-k", "3", "-P", steps, *more)
    assert isinstance(refused.exception, ArgumentError)
    assert re.search(r"-P [\d,]+ gives [\d,]+ numbers .* may never end", str(refused.exception))
    assert not Path("store").exists()


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_one_file_is_written_from_the_blocks_and_they_are_removed(suffix: str) -> None:
    done("g.csv", *SMALL, "--memory", "300MB", "-o", f"a{suffix}")
    if suffix == ".npy":
        found = np.load("a.npy")
        assert pd.read_csv("a.npy.nodes.csv")["node"].tolist() == ["ann", "bob", "cy", "dan"]
    else:
        table = pd.read_parquet("a.parquet")
        assert table["node"].tolist() == ["ann", "bob", "cy", "dan"]
        found = np.stack(table["encoding"])
        done("g.csv", *SMALL, "-o", "memory.parquet")
        by_blocks, in_memory = (pq.read_schema(file) for file in ("a.parquet", "memory.parquet"))
        assert by_blocks.equals(in_memory)  # however it was computed
        told = [json.loads(schema.metadata[b"rfp"])["arguments"] for schema in (by_blocks, in_memory)]
        assert told[0]["num_channels"] == told[1]["num_channels"] == 3
    np.testing.assert_allclose(found, expected(), atol=1e-6)
    about = json.loads(Path(f"a{suffix}.json").read_text())
    assert about["arguments"]["num_channels"] == 3
    assert about["output"]["shape"] == [4, 9]
    assert not Path(f"a{suffix}.blocks").exists()
    refused = run("g.csv", *SMALL, "--memory", "300MB", "-o", f"a{suffix}")
    assert "already there" in str(refused.exception)


def test_chosen_by_itself_when_the_estimate_says_that_memory_will_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.encode_file.available_memory", lambda device="cpu": 100)
    result = done("g.csv", *SMALL, "-o", "a.npy")
    assert "rfp: by row blocks in files (g.csv needs" in result.stderr
    assert "100 bytes is free" in result.stderr
    np.testing.assert_allclose(np.load("a.npy"), expected(), atol=1e-6)
    refused = run("g.csv", *SMALL, "--backend", "reference", "-o", "b.npy")
    assert "needs" in str(refused.exception)  # what cannot be done by blocks is refused as before


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_chosen_before_a_file_is_read_that_memory_cannot_hold(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    if format == "parquet":
        pd.DataFrame([line.split(",") for line in TEXT.split()], columns=["source", "target"]).to_parquet("g.parquet")
    monkeypatch.setattr("rfp.encode_folder.available_memory", lambda device="cpu": 200)
    monkeypatch.setattr("rfp.encode_file.read_files", lambda *a: pytest.fail("it was read"))
    result = done(f"g.{format}", *SMALL, "-o", "a.npy")
    assert "rfp: by row blocks in files (reading it takes at least" in result.stderr
    np.testing.assert_allclose(np.load("a.npy"), expected(), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory", "much", "-o", "s"], "a size such as 2GB"),
        (["--memory", "1MB", "-o", "s"], "less than Python and PyTorch need"),
        (["--workers", "2", "--scheduler", "tcp://x:1", "-o", "s"], "give one of them"),
        (["--memory", "1GB", "-o", "a.pt"], "a folder, .npy or .parquet"),
        (["--memory", "1GB", "--backend", "reference", "-o", "s"], "leave it out"),
        (["--memory", "1GB", "-k", "1000000", "-o", "s"], "k x k matrices stay whole"),
        (["--memory", "1GB", "--stream", "-o", "a.npy"], "leave it out"),
        (["--memory", "1GB", "--normalization", "inverse_gram", "-o", "s"], "normalizations qr, l2, none"),
        (["--memory", "1GB", "--storage-dtype", "float16", "-o", "s"], "stored as it is computed"),
        (["-o", "."], "no part of an encoding; give a new folder"),
    ],
)
def test_what_cannot_be_is_one_clear_line(arguments: list[str], message: str) -> None:
    result = run("g.csv", *SMALL, *arguments)
    assert result.exit_code != 0
    assert message in " ".join((result.output + str(result.exception)).replace("│", " ").split())
    assert sorted(os.listdir())[-1] in ("g.csv", "lock")


def test_standard_input_cannot_be_resumed() -> None:
    refused = CliRunner().invoke(app, ["encode", "-", *SMALL, "-o", "store"], input=TEXT)
    assert "standard input cannot be read again" in str(refused.exception)


def test_sizes_and_resources() -> None:
    assert parse_size("1.5 GiB") == 1.5 * 2**30
    for text in ("", "GB", "-1GB", "1PB", "1..2MB", "1e400"):
        with pytest.raises(ArgumentError, match="such as 2GB"):
            parse_size(text)
    assert Resources(memory=1_000_000_000).bytes_for_numbers == 770_000_000
    assert not Resources().given
    assert why_folder(FileJob(("g.csv",), "a.npy"), Resources()) is None


def test_a_folder_is_gone_on_with_unless_it_is_to_begin_anew() -> None:
    done("g.csv", *SMALL, "-o", "store")
    assert "3 of 3 steps are there" in done("g.csv", *SMALL, "--resume", "-o", "store").stderr
    again = done("g.csv", "-k", "3", "-P", "1", "--no-resume", "-o", "store")
    assert "steps are there" not in again.stderr
    assert rfp.partitioned.open("store").num_steps == 1
    factors = rfp.partitioned.open("store").manifest.factors
    assert [len(names) > 0 for names in (factors["start"], factors["0/1"])] == [False, True]
    assert all(np.load(Path("store/states") / name).shape == (1, 3, 3) for name in factors["0/1"])


def test_a_folder_that_another_command_writes_is_not_emptied_by_force() -> None:
    done("g.csv", *SMALL, "-o", "store")
    with locked(Path("store")):
        refused = run("g.csv", *SMALL, "--force", "-o", "store")
    assert "is being written by another process" in str(refused.exception)
    assert rfp.partitioned.open("store").complete
