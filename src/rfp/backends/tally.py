"""A counter whose entries may still be on a GPU: reading it waits for them, counting does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

from torch import Tensor


class DeviceTally(Counter[str]):
    """:data:`rfp.normalization.Tally` with counts that a kernel has not finished writing.

    A training loop that never looks at the report never waits for the device.

    Example:
        >>> import torch
        >>> tally = DeviceTally()
        >>> tally.defer("dependent_columns", torch.tensor([2, 1]))
        >>> tally["dependent_columns"]
        3
    """

    def __init__(self, *args: Any) -> None:
        self._pending: list[tuple[str, Tensor]] = []
        super().__init__(*args)

    def defer(self, name: str, count: Tensor) -> None:
        """Add ``count.sum()`` to the entry when somebody asks."""
        self._pending.append((name, count))

    def _settle(self) -> None:
        pending, self._pending = self._pending, []
        for name, count in pending:
            total = int(count.sum())
            if total:
                super().__setitem__(name, super().get(name, 0) + total)

    def __getitem__(self, name: str) -> int:
        self._settle()
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._settle()
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._settle()
        return super().__iter__()

    def __len__(self) -> int:
        self._settle()
        return super().__len__()

    def get(self, name: str, default: Any = None) -> Any:
        self._settle()
        return super().get(name, default)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self._settle()
        return super().keys()

    def values(self) -> ValuesView[int]:  # type: ignore[override]
        self._settle()
        return super().values()

    def items(self) -> ItemsView[str, int]:  # type: ignore[override]
        self._settle()
        return super().items()

    def __repr__(self) -> str:
        self._settle()
        return super().__repr__()


def count_later(tally: Counter[str], name: str, count: Tensor) -> None:
    """Add a count that lives on a device, without waiting for it if the tally allows."""
    if isinstance(tally, DeviceTally):
        tally.defer(name, count)
    else:
        tally[name] += int(count.sum())
