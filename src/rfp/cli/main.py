"""The command line: registers the verbs and turns errors into one clear line and an exit code.

Exit codes: 0 done, 1 the work failed (bad input, full disk, numerical trouble), 2 the command line was wrong.
"""

from __future__ import annotations

import os
import sys

from rfp.errors import MissingExtraError, RFPError

try:
    import typer
except ImportError as error:  # pragma: no cover - exercised by hand in an environment without the extra
    raise SystemExit(str(MissingExtraError("typer", "cli", "the command rfp"))) from error

from rfp.cli import encode

app = typer.Typer(
    name="rfp",
    help="Graph positional encodings by random feature propagation.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command(name="encode")(encode.encode)


def main() -> None:
    """Run the command; every expected failure is one line on stderr."""
    try:
        app()
    except RFPError as error:
        _fail(str(error))
    except MemoryError:
        _fail("out of memory; see what is needed with --estimate, or write step by step with --stream")
    except BrokenPipeError:
        # The reader of a pipe went away (`rfp ... | head`): nothing to say, and nothing may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        _fail("interrupted; nothing was written under the final name")


def _fail(message: str) -> None:
    sys.stderr.write(f"rfp: error: {message}\n")
    raise SystemExit(1)
