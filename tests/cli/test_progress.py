"""The bar is for terminals."""

import io

import pytest

from rfp.cli.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def use(quiet: bool = False) -> None:
    with progress_bar(quiet=quiet) as bar:
        bar.stage("reading")
        bar.stage("propagating", 4)
        bar.advance(4)


def test_nothing_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr("sys.stderr", pipe)
    use()
    monkeypatch.setattr("sys.stderr", terminal)
    use(quiet=True)
    assert pipe.getvalue() == terminal.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    use()
    assert "propagating" in terminal.getvalue()
    assert "4/4" in terminal.getvalue()
