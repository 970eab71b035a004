"""The multi-process service: used where it works, said where it does not, never left running."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rfp.reproduce import mps


def test_without_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(mps.shutil, "which", lambda name: None)
    lines: list[str] = []
    with mps.multi_process_service(lines.append) as there:
        assert not there
    assert lines == ["nvidia-cuda-mps-control is not installed: processes take turns on the GPU"]


def test_one_that_runs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
    monkeypatch.setattr(mps, "_call", lambda *command: pytest.fail("nothing is to be started or stopped"))
    with mps.multi_process_service(lambda line: None) as there:
        assert there


@pytest.mark.parametrize("works", [True, False])
def test_started_probed_and_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, works: bool) -> None:
    """A stand-in for the tool that writes down how it was called."""
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    log = tmp_path / "log"
    tool = tmp_path / "control"
    tool.write_text(f'#!/bin/sh\necho "$1 $(test -d "$CUDA_MPS_PIPE_DIRECTORY" && echo pipe)$(cat)" >> {log}\n')
    tool.chmod(0o755)
    monkeypatch.setattr(mps.shutil, "which", lambda name: str(tool))
    monkeypatch.setattr(mps, "_PROBE", f"import sys; sys.exit({int(not works)})")
    lines: list[str] = []
    with mps.multi_process_service(lines.append) as there:
        assert there == works
        assert ("CUDA_MPS_PIPE_DIRECTORY" in os.environ) == works
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert log.read_text().split("\n")[:2] == ["-d pipe", " pipequit"]
    assert len(lines) == 1
    assert ("a client cannot open the GPU" in lines[0]) != works


def test_an_error_inside_stops_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    calls: list[list[str]] = []
    monkeypatch.setattr(mps.shutil, "which", lambda name: "control")
    monkeypatch.setattr(mps, "_call", lambda command, text="": calls.append([*command, text]) or "")
    with pytest.raises(ZeroDivisionError), mps.multi_process_service(lambda line: None):
        raise ZeroDivisionError
    assert calls[-1] == ["control", "quit\n"]
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
