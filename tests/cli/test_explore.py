"""``rfp explore``: what it serves, to whom."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rfp.cli.main import app

KARATE = str(Path(__file__).parents[2] / "examples" / "karate.csv")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com"])
def test_other_machines_are_let_in_only_on_purpose(host: str) -> None:
    result = CliRunner().invoke(app, ["explore", "--host", host, "--no-browser"])
    assert result.exit_code == 2
    said = " ".join(result.output.replace("│", " ").split())
    assert "--i-know" in said
    assert "unencrypted" in said


def test_a_file_that_is_not_there() -> None:
    result = CliRunner().invoke(app, ["explore", "nowhere.csv", "--no-browser"])
    assert "nowhere.csv: no such file" in str(result.exception)


def test_it_serves_the_file_at_the_address_it_prints() -> None:
    command = [sys.executable, "-m", "rfp", "explore", KARATE, "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"})
    try:
        assert server.stderr is not None
        line = server.stderr.readline()
        found = re.fullmatch(r"Exploring karate\.csv: (http://127\.0\.0\.1:\d+/)\?token=([\w-]{32})\n", line)
        assert found, line
        address, token = found.groups()
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"<title>rfp explorer</title>" in answer.read()
        asked = urllib.request.Request(f"{address}api/hello", headers={"X-Rfp-Token": token})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{address}api/hello", timeout=60)
    finally:
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=30)
    assert "Traceback" not in errors
    assert server.returncode == 0
