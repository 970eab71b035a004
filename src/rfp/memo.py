"""What is derived from an object, kept with it: computed when it is first asked for, gone when the object is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")


class Memo:
    """A place in a graph or a matrix for what other modules derive from it, each under the function that makes it.

    Example:
        >>> memo = Memo()
        >>> memo.of(str, 12), memo.of(str, 13)
        ('12', '12')
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Callable[..., Any], Any] = {}

    def of(self, make: Callable[..., Value], *arguments: Any) -> Value:
        """``make(*arguments)`` of the first call; the same value at every later one."""
        if make not in self._values:
            self._values[make] = make(*arguments)
        value: Value = self._values[make]
        return value

    def put(self, make: Callable[..., Value], value: Value) -> None:
        """Give the value that ``make`` would return, where it is known already."""
        self._values[make] = value
