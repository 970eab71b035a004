"""``rfp plot``: pictures without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rfp.cli.main import app

KARATE = str(Path(__file__).parents[2] / "examples" / "karate.csv")


@pytest.mark.parametrize(("name", "begin"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.html", b"<!doctype")])
def test_every_kind(tmp_path: Path, name: str, begin: bytes) -> None:
    out = tmp_path / name
    arguments = ["plot", KARATE, "-k", "4", "-P", "8", "--channel", "1", "--step", "0", "--step", "8", "-o", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.exception
    assert out.read_bytes().startswith(begin)
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code != 0
    assert "already there" in str(again.exception)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-o", "a.gif"], ".png, .svg, .pdf, .html"),
        (["--channel", "16", "-o", "a.png"], "0 to 15"),
        (["--trajectory", "1", "-o", "a.png"], "0 to 0"),
        (["--show-operator", "1", "-o", "a.png"], "0 to 0"),
    ],
)
def test_wrong_command_lines(arguments: list[str], part: str) -> None:
    result = CliRunner().invoke(app, ["plot", KARATE, *arguments])
    assert result.exit_code == 2
    assert part in " ".join(result.output.replace("│", " ").split())
