"""Errors that name the argument, the value got, the value expected and what to try next."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class RFPError(Exception):
    """Base class of every error this library raises on purpose."""


class ArgumentError(RFPError, ValueError):
    """An argument has a value the function cannot use."""


class GraphError(RFPError, ValueError):
    """A graph is malformed: an index out of range, a NaN weight, a wrong ``ptr``."""


class NumericalError(RFPError, ArithmeticError):
    """``strict=True`` and the result departs from the plain method, or a value is not finite."""


class FileError(RFPError, OSError):
    """A file cannot be read or written: missing, of another format, no permission, a full disk."""


class WriteError(FileError):
    """A result cannot be written: a full disk, a missing or closed folder, standard output that went away."""


class MissingExtraError(RFPError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'torch-rfp[{extra}]'")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory is short: torch, CUDA and its libraries say so in classes and words of their own.

    Example:
        >>> is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
        True
        >>> is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
        False
    """
    said = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or any(words in said for words in _OUT_OF_MEMORY)


# On a GPU torch has an error of its own, on a CPU it is a plain RuntimeError.
_OUT_OF_MEMORY = ("OutOfMemoryError", "out of memory", "ALLOC_FAILED", "can't allocate memory", "not enough memory")


def check_names(argument: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise for the first of the names that is not known; the error lists those that are."""
    for name in given:
        if name not in known:
            raise unknown_choice(argument, name, known)


def unknown_choice(argument: str, got: object, choices: object) -> ArgumentError:
    """The error for a name that is not one of the choices; it lists them."""
    names = ", ".join(repr(c) for c in choices)  # type: ignore[attr-defined]
    return ArgumentError(f"{argument} must be one of {names}, got {got!r}")
