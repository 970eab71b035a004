"""How options are declared: in panels of the help, with names to choose from, and many as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer

from rfp.errors import ArgumentError


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


def with_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb as typer reads it: a parameter that is a dataclass becomes one option for each of its fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int = 2
    ...     height: int = 1
    >>> def draw(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> print(inspect.signature(with_groups(draw)))
    (*, name: str, width: int = 2, height: int = 1)
    >>> with_groups(draw)(name="box", width=3, height=4)
    box Size(width=3, height=4)
    """
    groups: dict[str, Any] = {}
    parameters = []
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        kind: Any = parameter.annotation
        groups[parameter.name] = kind
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
                )
            )

    @wraps(verb)
    def call(**values: Any) -> None:
        for name, kind in groups.items():
            given = {field.name: values.pop(field.name) for field in fields(kind)}
            try:
                values[name] = kind(**given)
            except ArgumentError as error:
                raise typer.BadParameter(str(error)) from error
        verb(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
