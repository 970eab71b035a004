"""Reading pickles of tensors or arrays without running what a pickle could ask for."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from rfp.errors import FileError


class UnsafePickleError(FileError):
    """A pickle asks for something other than plain data, or is damaged."""


class SparseRows:
    """What a pickled ``csr_matrix`` consists of: its attributes, as a state that nothing has interpreted yet."""

    def to_matrix(self) -> sp.csr_array:
        """The matrix, made by SciPy from three arrays and a shape, checked on the way."""
        state = vars(self)
        matrix = sp.csr_array((state["data"], state["indices"], state["indptr"]), shape=tuple(state["_shape"]))
        matrix.check_format(full_check=True)
        return matrix


class _TensorParts:
    """What a pickled tensor consists of, not put together yet: a file may hold many more than are wanted."""

    def __init__(self, storage: bytes, *layout: Any) -> None:
        self.storage, self.layout = storage, layout

    def to_tensor(self) -> torch.Tensor:
        # The storage inside a pickle is itself a torch.save file: it is loaded with weights_only too.
        storage = torch.load(io.BytesIO(self.storage), weights_only=True)
        return torch._utils._rebuild_tensor_v2(storage, *self.layout)  # type: ignore[no-any-return,no-untyped-call]


def _with_tensors(content: Any) -> Any:
    """The same containers with the tensors put together."""
    if isinstance(content, _TensorParts):
        return content.to_tensor()
    if isinstance(content, dict):
        return {key: _with_tensors(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return type(content)(map(_with_tensors, content))
    return content


_Allowed = Mapping[tuple[str, str], Callable[..., Any]]

_TENSORS: _Allowed = {
    ("torch._utils", "_rebuild_tensor_v2"): _TensorParts,
    ("torch.storage", "_load_from_bytes"): bytes,
    ("collections", "OrderedDict"): OrderedDict,
}

# The function with which NumPy makes an empty array for a pickle to fill; its module differs between versions.
_EMPTY_ARRAY: Callable[..., Any] = np.zeros(0).__reduce__()[0]  # type: ignore[assignment]
_ARRAYS: _Allowed = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _EMPTY_ARRAY for core in ("core", "_core")},
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{(f"scipy.sparse.{module}", "csr_matrix"): SparseRows for module in ("csr", "_csr")},
    ("collections", "defaultdict"): defaultdict,
    **{(module, "list"): list for module in ("__builtin__", "builtins")},
}


class _RestrictedUnpickler(pickle.Unpickler):
    def __init__(self, file: Any, allowed: _Allowed, path: str | Path, encoding: str = "ASCII") -> None:
        super().__init__(file, encoding=encoding)
        self.allowed, self.path = allowed, path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            known = ", ".join(sorted({key[1] for key in self.allowed}))
            raise UnsafePickleError(
                f"{self.path} asks for {module}.{name}; only plain data is read from a pickle ({known}), so that a "
                "file cannot run code"
            )
        return self.allowed[module, name]


def _load(path: str | Path, allowed: _Allowed, what: str, finish: Callable[[Any], Any], encoding: str = "ASCII") -> Any:
    with open(path, "rb") as file:
        try:
            return finish(_RestrictedUnpickler(file, allowed, path, encoding).load())
        except UnsafePickleError:
            raise
        except Exception as error:  # damaged bytes make the machine of pickle fail in any way
            raise UnsafePickleError(
                f"{path} cannot be read as a pickle of {what} ({error}); fetch the file again"
            ) from error


def load_tensors(path: str | Path, items: Sequence[int] | None = None) -> Any:
    """Read a pickle of tensors, numbers, strings, lists and dicts; anything else is refused.

    Args:
        path: The file.
        items: Only these items of a pickled list; the tensors of others, which take most of the time (a third of a
            millisecond each), are not put together.

    Raises:
        UnsafePickleError: The file names another class or function, or is damaged.
    """

    def finish(content: Any) -> Any:
        return _with_tensors(content if items is None else [content[i] for i in items])

    return _load(path, _TENSORS, "tensors", finish)


def load_arrays(path: str | Path) -> Any:
    """Read a pickle, of Python 2 too, of NumPy arrays, CSR matrices, lists and dicts; anything else is refused.

    A CSR matrix comes as :class:`SparseRows`.

    Raises:
        UnsafePickleError: The file names another class or function, or is damaged.
    """
    return _load(path, _ARRAYS, "arrays", lambda content: content, encoding="latin1")
