"""The command line: finds the verb, loads it alone, and turns errors into one clear line and an exit code.

Exit codes: 0 done; 1 the work failed (full disk, out of memory, numerical trouble, interrupted); 2 what was given is
wrong (the command line, a graph, a file that cannot be read).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

from rfp.errors import ArgumentError, FileError, GraphError, MissingExtraError, RFPError, WriteError, is_out_of_memory

try:
    import typer
    from typer.core import TyperCommand, TyperGroup
except ImportError as error:  # pragma: no cover - exercised by hand in an environment without the extra
    raise SystemExit(str(MissingExtraError("typer", "cli", "the command rfp"))) from error

from rfp._version import __version__
from rfp.cli.options.panels import with_groups

# Verb -> what it does. The module `rfp.cli.VERB`, and all that it imports, is loaded when the verb is named.
VERBS = {
    "encode": "Compute the positional encoding of a graph file.",
    "count": "Count triangles, 4-cycles or closed walks of a large graph.",
    "links": "Score pairs of nodes to find missing links.",
    "explore": "Explore a graph and its encoding in a browser.",
    "plot": "Draw the figures of the explorer to a file.",
    "demo": "Watch random channels turn into eigenvectors.",
    "train": "Train a model and write its result file.",
    "search": "Search the best values of a config on validation.",
    "predict": "List the most likely links of a node, by a trained model.",
    "table": "Reproduce a table of the paper, ours beside theirs.",
    "bench": "Measure speed on this machine, beside other tools.",
}


class _Verbs(TyperGroup):
    """A group that lists its verbs from the table above, and imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(name=cmd_name, help=VERBS[cmd_name]) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load_verb(name), rest


@cache
def load_verb(name: str) -> Any:
    """The command of one verb, from the function of that name in its module."""
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    alone.command(name=name)(with_groups(getattr(import_module(f"rfp.cli.{name}"), name)))
    return typer.main.get_command(alone)


# Plain help at the top: Rich alone takes longer to load than all the rest.
app = typer.Typer(
    cls=_Verbs,
    name="rfp",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
    """Graph positional encodings by random feature propagation.

    Example: rfp encode examples/karate.csv -k 8 -o karate.npy
    """


class Interrupted(BaseException):
    """Ctrl-C or a request to end: unwinds the stack, so that unfinished files are removed on the way.

    ``kept`` is set on the way by what keeps something.
    """

    kept: str = ""


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
        _fail(str(error), _exit_code(error))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
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
        kept = "finished runs and checkpoints are kept, the same command goes on"
        otherwise = error.kept or "nothing was written under the final name"
        _fail(f"interrupted ({error}); {kept if training else otherwise}")


def _exit_code(error: RFPError) -> int:
    """2 where what was given must be corrected, 1 where the work failed."""
    given = isinstance(error, ArgumentError | GraphError | FileError) and not isinstance(error, WriteError)
    return 2 if given else 1


def _settle_stdout() -> None:
    """Flush standard output; if that fails, drop what is buffered, or the interpreter would fail again at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int = 1) -> None:
    _settle_stdout()
    sys.stderr.write(f"rfp: error: {' '.join(message.split())}\n")
    raise SystemExit(code)
