"""Where a verb computes: the same option, with the same default, wherever there is a choice."""

from __future__ import annotations

from typing import Annotated

import typer

from rfp.errors import ArgumentError


def _known_device(name: str) -> str:
    from rfp.environment import find_device

    try:
        find_device(name)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    return name


Device = Annotated[
    str,
    typer.Option(
        callback=_known_device,
        metavar="auto|cpu|cuda|cuda:N",
        help="Where to compute. auto takes a GPU if there is one.",
        rich_help_panel="Where",
    ),
]
