"""The command line: registers the verbs and turns errors into one clear line and an exit code.

Exit codes: 0 done, 1 the work failed (bad input, full disk, numerical trouble), 2 the command line was wrong.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Annotated

from rfp.errors import MissingExtraError, RFPError

try:
    import typer
except ImportError as error:  # pragma: no cover - exercised by hand in an environment without the extra
    raise SystemExit(str(MissingExtraError("typer", "cli", "the command rfp"))) from error

from rfp._version import __version__
from rfp.cli import bench, count, demo, encode, search, table, train

app = typer.Typer(
    name="rfp",
    help="Graph positional encodings by random feature propagation.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command(name="encode")(encode.encode)
app.command(name="count")(count.count)
app.command(name="demo")(demo.demo)
app.command(name="train")(train.train)
app.command(name="search")(search.search)
app.command(name="table")(table.table)
app.command(name="bench")(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rfp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Graph positional encodings by random feature propagation."""


class Interrupted(BaseException):
    """Ctrl-C or a request to end: unwinds the stack, so that unfinished files are removed on the way."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(signal.Signals(number).name)


def main() -> None:
    """Run the command; every expected failure is one line on stderr."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    try:
        app(prog_name="rfp")
    except RFPError as error:
        _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        _fail("out of memory; see what is needed with --estimate, or write step by step with --stream -o OUT.npy")
    except BrokenPipeError:
        # The reader of a pipe went away (`rfp ... | head`): nothing to say.
        _settle_stdout()
        raise SystemExit(1) from None
    except OSError as error:
        _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except Interrupted as error:
        training = sys.argv[1:2] in (["train"], ["search"], ["table"])
        left = (
            "finished runs and checkpoints are kept, the same command goes on"
            if training
            else ("nothing was written under the final name")
        )
        _fail(f"interrupted ({error}); {left}")


def _is_out_of_memory(error: BaseException) -> bool:
    # torch has its own error on a GPU and a plain RuntimeError on a CPU.
    return isinstance(error, MemoryError) or any(
        part in str(error) for part in ("can't allocate memory", "out of memory", "not enough memory")
    )


def _settle_stdout() -> None:
    """Flush standard output; if that fails, drop what is buffered, or the interpreter would fail again at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> None:
    _settle_stdout()
    sys.stderr.write(f"rfp: error: {' '.join(message.split())}\n")
    raise SystemExit(1)
