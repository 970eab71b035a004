"""Reading pickled tensors without running what a pickle could ask for."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rfp.errors import RFPError


class UnsafePickleError(RFPError):
    """A pickle asks for something other than tensors in plain containers."""


def _load_storage(content: bytes) -> Any:
    """A tensor's storage inside a pickle is itself a ``torch.save`` file: load that with ``weights_only`` too."""
    return torch.load(io.BytesIO(content), weights_only=True)


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    ("torch.storage", "_load_from_bytes"): _load_storage,
    ("collections", "OrderedDict"): OrderedDict,
}


class _TensorUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnsafePickleError(f"the file asks for {module}.{name}; only tensors in lists and dicts are read")
        return _ALLOWED[module, name]


def load_tensors(path: str | Path) -> Any:
    """Read a pickle of tensors, numbers, strings, lists and dicts; anything else is refused.

    Raises:
        UnsafePickleError: The file names another class or function.
    """
    with open(path, "rb") as file:
        try:
            return _TensorUnpickler(file).load()
        except (pickle.UnpicklingError, EOFError, IndexError, RuntimeError) as error:
            raise UnsafePickleError(f"{path} cannot be read as a pickle of tensors: {error}") from error
