"""A bar for terminals, a line now and then for logs."""

import io
import pickle

import pytest

from rfp.cli.progress import Ticker, progress_bar


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


def test_a_line_a_minute_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of the work it is in; what a part has done before is not told again."""
    log, clock = io.StringIO(), [1000.0]
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with progress_bar() as bar:
        bar.stage("reading")
        for _ in range(3):
            clock[0] += 25
            bar.advance(1000)
        bar.stage("propagating", 4)
        for _ in range(4):
            clock[0] += 50
            bar.advance(1)
    assert log.getvalue().splitlines() == [
        "rfp: reading: 3,000",
        "rfp: propagating: 2 of 4, about 1.7 min left",
        "rfp: propagating: 4 of 4",
    ]


def test_short_programs_one_after_the_other_say_something_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is done in less than a minute, and each has a bar of its own."""
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    tick = Ticker(quiet=False)
    for _ in range(5):
        for epoch in range(1, 4):
            clock[0] += 10
            tick("final", epoch, 3)
    assert log.getvalue().splitlines() == ["rfp: final: 3 of 3"] * 2


def test_the_time_that_is_left_does_not_count_what_an_earlier_try_did(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    tick = Ticker(quiet=False)
    for epoch in (901, 902, 903):
        clock[0] += 60
        tick("zinc", epoch, 1000)
    assert log.getvalue().splitlines() == [
        "rfp: zinc: 902 of 1,000, about 1.6 h left",
        "rfp: zinc: 903 of 1,000, about 1.6 h left",
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_in_another_process_lines_are_written_at_a_terminal_too(monkeypatch: pytest.MonkeyPatch, quiet: bool) -> None:
    terminal, clock = Terminal(), [0.0]
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    here = Ticker(quiet=quiet)
    here("cora", 1, 9)
    tick = pickle.loads(pickle.dumps(here))
    for epoch in (1, 2):
        clock[0] += 60
        tick("cora", epoch, 9)
    here.close()
    assert ("rfp: cora: 2 of 9, about 7.0 min left\n" in terminal.getvalue()) is not quiet
