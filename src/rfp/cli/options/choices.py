"""An option that takes one of a few names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer


def panel(title: str) -> Callable[..., Any]:
    """Options that stand together in the help."""

    def option(*names: str, **settings: Any) -> Any:
        return typer.Option(*names, rich_help_panel=title, **settings)

    return option


def one_of(choices: Iterable[str]) -> dict[str, Any]:
    """Settings of an option whose value must be one of these names."""
    names = tuple(choices)

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}")
        return value

    return {"callback": check, "metavar": "|".join(names)}
