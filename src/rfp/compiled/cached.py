"""How kernels are compiled for a CPU (Numba), and when what was compiled once is compiled again."""

# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

# Called by kernels only, so neither cached nor callable from Python, which is quicker to compile.
allocating_helper = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
# One that makes no array and returns none. Its caller holds what it is given, so nobody needs to count who does:
# Numba's counters are dozens of atomic additions a step of a small graph.
rare_helper = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
# One that is called often: it becomes a part of its caller, which hands over no arrays, seven words each, and whose
# constants are known in it.
helper = njit(
    nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True
)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile for one thread, without the interpreter lock, and keep the result on disk."""
    compiled = njit(nogil=True, error_model="numpy")(function)
    # Where no folder can be written, or in a Numba that keeps its files otherwise, each process compiles for itself.
    with suppress(AttributeError, RuntimeError, TypeError):
        compiled._cache = _CacheOfAllSources(function)
    return compiled


@cache
def sources_digest(package: str) -> str:
    """Of all files of a kernel's folder, in which everything stands that it calls, and of those beside this one."""
    digest = hashlib.sha256()
    for folder in sorted({package, __package__}):
        for file in sorted(files(folder).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                digest.update(file.read_bytes())
    return digest.hexdigest()


class _CacheOfAllSources(FunctionCache):
    """Numba's cache, which is as good as the files of the kernel's folder.

    Numba itself looks at the date of the one file a kernel stands in: a change in what the kernel calls from another
    file would go unnoticed, and all of them would have to stand in one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        digest = sources_digest(function.__module__.rpartition(".")[0])
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, digest)
