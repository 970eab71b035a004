"""The command as a process: exit codes, one line for every error, pipes, signals."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rfp
from rfp.cli.main import VERBS, _exit_code, app, load_verb
from rfp.errors import ArgumentError, FileError, GraphError, NumericalError, RFPError, WriteError
from rfp.io import ReadOptions

SOURCE = str(Path(rfp.__file__).parents[1])


def start(*arguments: str, folder: Path, **more: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "rfp", *arguments]
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **more
    )


def test_version_and_verbs() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"rfp {rfp.__version__}\n"
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert [line.split()[0] for line in text.split("Commands:")[1].splitlines() if line] == list(VERBS)
    assert "..." not in text.split("Commands:")[1]  # no line is cut


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_with_an_example(verb: str) -> None:
    result = CliRunner().invoke(app, [verb, "--help"])
    assert result.exit_code == 0, result.output
    assert "Example" in result.stdout
    assert f"rfp {verb}" in result.stdout


def test_an_unknown_verb_is_named() -> None:
    result = CliRunner().invoke(app, ["frobnicate"])
    assert result.exit_code == 2
    assert "frobnicate" in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GraphError("x"), 2),
        (ArgumentError("x"), 2),
        (FileError("x"), 2),
        (WriteError("x"), 1),
        (NumericalError("x"), 1),
    ],
)
def test_exit_codes_tell_what_was_given_from_what_failed(error: RFPError, code: int) -> None:
    assert _exit_code(error) == code


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "none.csv", "-k", "2", "-o", "nodir/x.npy"],
        ["plot", "none.csv", "-o", "nodir/x.png"],
        ["links", "none.csv", "--top", "3", "-o", "nodir/x.csv"],
        ["count", "none.csv", "--per-node", "nodir/x.csv"],
    ],
)
def test_a_folder_that_is_not_there_is_a_wrong_argument_and_seen_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, RFPError)
    assert _exit_code(error) == 2
    assert str(error) == f"{arguments[-1]}: the folder nodir does not exist; create it first"


def test_errors_and_pipes_of_a_real_process(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("0,1\n1,2\n")
    (tmp_path / "bad.csv").write_text("0,1\n1,-2\n")
    options = ["-k", "2", "-P", "2", "--backend", "reference"]
    with open(tmp_path / "piped.npy", "wb") as out, open("/dev/full", "wb") as full:
        wrong = start("encode", "bad.csv", *options, "-o", "a.npy", folder=tmp_path, stdout=subprocess.PIPE)
        piped = start("encode", "good.csv", *options, "-o", "-", folder=tmp_path, stdout=out)
        stuck = start("encode", "good.csv", *options, "-o", "-", folder=tmp_path, stdout=full)
        output, message = wrong.communicate(timeout=300)
        assert (wrong.returncode, output) == (2, b"")
        assert message.decode().splitlines() == [
            "rfp: error: bad.csv, line 2: node id -2 is negative; expected integers from 0 on, or --ids text"
        ]
        _, message = piped.communicate(timeout=300)
        assert piped.returncode == 0, message
        _, message = stuck.communicate(timeout=300)
        assert stuck.returncode == 1
        expected = b"rfp: error: standard output cannot be written (No space left on device)"
        assert message.splitlines()[1:] == [expected]  # after the line on how the file was read
    assert np.load(tmp_path / "piped.npy").shape == (3, 6)
    assert b"\x1b" not in message  # no progress bar, no colours: not a terminal


def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("".join(f"{i} {(i + 1) % 50}\n" for i in range(50)))
    minutes = ["-k", "8", "-P", "200000", "--backend", "reference", "--stream", "-o", "a.npy"]
    process = start("encode", "g.txt", *minutes, folder=tmp_path, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while len(os.listdir(tmp_path)) == 1 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {name.split(".")[-1] for name in os.listdir(tmp_path)} == {"txt", "part"}
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate(timeout=300)
    assert process.returncode == 1
    expected = "rfp: error: interrupted (SIGTERM); nothing was written under the final name"
    assert message.decode().splitlines()[1:] == [expected]  # after the line on how the file was read
    assert os.listdir(tmp_path) == ["g.txt"]


def test_the_device_is_chosen_alike_in_every_verb() -> None:
    options = {verb: {option.name: option for option in load_verb(verb).params} for verb in VERBS}
    with_device = {verb: known["device"] for verb, known in options.items() if "device" in known}
    assert {"encode", "plot", "train", "search", "table", "bench", "links"} <= set(with_device)
    assert {option.default for option in with_device.values()} == {"auto"}
    assert len({option.help for option in with_device.values()}) == 1


def test_reading_options_are_those_of_the_library_in_every_verb() -> None:
    names = {field.name for field in fields(ReadOptions)}
    for verb in ("encode", "plot", "count", "explore", "links"):
        assert names <= {option.name for option in load_verb(verb).params}, verb
