"""How kernels are compiled for a CPU (Numba), and when what was compiled once is compiled again."""

# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
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


class _OwnFiles(IndexDataCacheFile):
    """Numba's files on disk, where a file of code is named after what it holds, and is there before the index names it.

    Numba numbers them, takes the first number that the index has not, and writes the index first. Two processes that
    compile a kernel for different types at once may take the same number, and one type is given the code of the other
    from then on. One that ends between the two writes leaves an index of these sources that names code of former ones.
    """

    def __init__(self, folder: str, base: str, digest: str) -> None:
        super().__init__(folder, base, digest)
        self._folder, self._base, self._sources = Path(folder), base, f"{digest} {self._version}"
        # What save calls: a Numba that keeps its files otherwise is seen now, not when something is kept.
        self._parts = self._load_index, self._save_index, self._save_data

    def save(self, key: Any, data: Any) -> None:
        """Keep code under the types and the processor it is for."""
        name = f"{self._base}.{hashlib.sha256(f'{self._sources} {key}'.encode()).hexdigest()[:32]}.nbc"
        if not self._load_index():  # whatever is there is of other sources; whoever misses a file compiles again
            for former in self._folder.glob(f"{glob.escape(self._base)}.*.nbc"):
                with suppress(OSError):
                    former.unlink()
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class _CacheOfAllSources(FunctionCache):
    """Numba's cache, which is as good as the files of the kernel's folder.

    Numba itself looks at the date of the one file a kernel stands in: a change in what the kernel calls from another
    file would go unnoticed, and all of them would have to stand in one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        digest = sources_digest(function.__module__.rpartition(".")[0])
        self._cache_file = _OwnFiles(self.cache_path, self._impl.filename_base, digest)
