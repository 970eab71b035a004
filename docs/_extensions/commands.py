"""The page of the command line: what ``rfp VERB --help`` says, for every verb."""

from __future__ import annotations

import inspect
import re
from typing import Any

from generated_files import PARTS, write
from sphinx.application import Sphinx

from rfp.cli.main import app as command_line


def verb_text(group: Any, name: str) -> str:
    """Markdown for one verb."""
    from typer.main import get_command

    context = get_command(command_line).make_context("rfp", [], resilient_parsing=True)
    _, command, _ = group.resolve_command(context, [name])
    context = command.make_context(name, [], resilient_parsing=True, parent=context)
    lines = [f"## rfp {name}", "", _help(command.help or ""), "", "| option | meaning |", "|---|---|"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            names, meaning = record
            names = re.sub(r"\s*<(?:list\[)?(\w+)[^>]*>", r" \1", names)
            lines.append(f"| `{_cell(names)}` | {_cell(meaning)} |")
    return "\n".join([*lines, ""])


def _help(text: str) -> str:
    """Examples stand in a block of their own, so that they can be copied."""
    body, found, examples = inspect.cleandoc(text).partition("Examples:")
    if not found:
        body, found, examples = inspect.cleandoc(text).partition("Example:")
    commands = "\n".join(line.strip() for line in examples.splitlines() if line.strip())
    return f"{_plain(body).strip()}\n\n```text\n{commands}\n```" if found else _plain(body)


def _plain(text: str) -> str:
    return text.replace("\b", "").replace("<", "&lt;")


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def generate(app: Sphinx) -> None:
    from typer.main import get_command

    group: Any = get_command(command_line)
    context = group.make_context("rfp", [], resilient_parsing=True)
    write(PARTS / "commands.md", "\n".join(verb_text(group, name) for name in group.list_commands(context)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
