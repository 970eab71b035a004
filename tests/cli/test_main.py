"""The command as a process: exit codes, one line for every error, pipes, signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import rfp
from rfp.cli.main import _is_out_of_memory, app

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
    assert "encode" in text
    assert "demo" in text


def test_errors_and_pipes_of_a_real_process(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("0,1\n1,2\n")
    (tmp_path / "bad.csv").write_text("0,1\n1,-2\n")
    options = ["-k", "2", "-P", "2", "--backend", "reference"]
    with open(tmp_path / "piped.npy", "wb") as out, open("/dev/full", "wb") as full:
        wrong = start("encode", "bad.csv", *options, "-o", "a.npy", folder=tmp_path, stdout=subprocess.PIPE)
        piped = start("encode", "good.csv", *options, "-o", "-", folder=tmp_path, stdout=out)
        stuck = start("encode", "good.csv", *options, "-o", "-", folder=tmp_path, stdout=full)
        output, message = wrong.communicate(timeout=300)
        assert (wrong.returncode, output) == (1, b"")
        assert message.decode().splitlines() == [
            "rfp: error: bad.csv, line 2: node id -2 is negative; expected integers from 0 on (or text ids such as n1)"
        ]
        _, message = piped.communicate(timeout=300)
        assert piped.returncode == 0, message
        _, message = stuck.communicate(timeout=300)
        assert stuck.returncode == 1
        assert message == b"rfp: error: standard output cannot be written (No space left on device)\n"
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
    assert message.decode() == "rfp: error: interrupted (SIGTERM); nothing was written under the final name\n"
    assert os.listdir(tmp_path) == ["g.txt"]


def test_memory_errors_are_recognised() -> None:
    assert _is_out_of_memory(MemoryError())
    assert _is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried ..."))
    assert not _is_out_of_memory(RuntimeError("shape mismatch"))
