"""What was compiled is kept on disk, and compiled again when any file of the kernels changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
from numba.core.errors import NumbaError

from rfp.backends.compiled import dense_products, small_graphs, sparse_product
from rfp.compiled import cached, operator_values, pattern

# A package whose kernel calls a helper of another file; it prints what the kernel gives and how often it was read.
HELPERS = """from kept.cached import helper

@helper
def more(x):
    return x + 1
"""
KERNELS = """from kept.cached import kernel
from kept.helpers import more

@kernel
def twice(x):
    return 2 * more(x)
"""
CALL = (
    "from kept.kernels import twice\n"
    "print(twice(3), sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))"
)


@cached.helper
def _add_in_turns(a, b, times):  # type: ignore[no-untyped-def]
    for _ in range(times):
        row = b[0]
        for c in range(len(row)):
            a[0, c] += row[c]
        a, b = b, a


@cached.kernel
def _in_turns(a, b, times):  # type: ignore[no-untyped-def]
    _add_in_turns(a, b, times)


def test_what_a_helper_is_given_stays_its_callers() -> None:
    """It counts no references: there are as many after it as before, however it passes arrays around."""
    a, b = np.ones((2, 3)), np.ones((2, 3))
    held = sys.getrefcount(a), sys.getrefcount(b)
    _in_turns(a, b, 5)
    assert (sys.getrefcount(a), sys.getrefcount(b)) == held
    assert a[0].tolist() == [13.0] * 3  # Fibonacci's numbers
    assert b[0].tolist() == [8.0] * 3


@cached.helper
def _makes_an_array(n):  # type: ignore[no-untyped-def]
    return np.zeros(n).sum()


@cached.kernel
def _calls_it(n):  # type: ignore[no-untyped-def]
    return _makes_an_array(n)


def test_a_helper_that_makes_an_array_is_not_compiled() -> None:
    with pytest.raises(NumbaError, match="zeros"):
        _calls_it(3)


def called(folder: Path) -> list[int]:
    """Result of the kernel, times it was read from disk, times it was compiled, in a new process."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


def test_a_change_in_what_a_kernel_calls_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "kept"
    package.mkdir()
    shutil.copy(cached.__file__, package / "cached.py")
    for name, text in {"__init__": "", "helpers": HELPERS, "kernels": KERNELS}.items():
        (package / f"{name}.py").write_text(text)
    assert called(tmp_path) == [8, 0, 1]
    assert called(tmp_path) == [8, 1, 0]
    os.utime(package / "kernels.py", (0, 0))  # what the files say counts, not when they were copied
    assert called(tmp_path) == [8, 1, 0]
    (package / "helpers.py").write_text(HELPERS.replace("x + 1", "x + 2"))
    assert called(tmp_path) == [10, 0, 1]


def files_of(folder: Path, sources: str = "sources") -> Any:
    return cached._OwnFiles(str(folder), "kernel-1.py3", sources)


def test_two_processes_that_compile_at_once_keep_their_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has read the index before the first wrote it, and writes while the first does."""
    first, second = files_of(tmp_path), files_of(tmp_path)
    write, second._load_index = first._save_data, dict

    def write_between(name: str, data: Any) -> None:
        second.save("of strided rows", "code for strided rows")
        write(name, data)

    monkeypatch.setattr(first, "_save_data", write_between)
    first.save("of whole rows", "code for whole rows")
    assert files_of(tmp_path).load("of whole rows") == "code for whole rows"
    assert files_of(tmp_path).load("of strided rows") in (None, "code for strided rows")


@pytest.mark.parametrize("unwritten", ["_save_data", "_save_index"])
def test_code_of_former_sources_is_not_found_after_an_end_in_the_middle(
    unwritten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files_of(tmp_path, "former sources").save("types", "former code")
    ends = files_of(tmp_path)

    def end(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ends, unwritten, end)
    with pytest.raises(KeyboardInterrupt):
        ends.save("types", "code")
    assert files_of(tmp_path).load("types") is None
    files_of(tmp_path).save("types", "code")
    files_of(tmp_path).save("other types", "other code")
    assert files_of(tmp_path).load("types") == "code"
    assert files_of(tmp_path).load("other types") == "other code"
    assert len(list(tmp_path.iterdir())) == 3  # the index and both: nothing of former sources stays


def compiled_parts(function: Any) -> Iterator[Any]:
    """The functions, compiled or intrinsic, that a compiled function names, and those that they name."""
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        part = getattr(value, "py_func", None) or getattr(value, "_defn", None)
        if part is not None:
            yield part
            yield from compiled_parts(part)


@pytest.mark.parametrize(
    ("kernels", "called", "folder"),
    [
        (
            [
                dense_products._gram_kernel,
                dense_products._times_upper_kernel,
                small_graphs._small_graphs_kernel,
                sparse_product._sparse_product_kernel,
            ],
            {"vload", "fma", "aligned_zeros", "normalize_columns", "_gather"},
            "rfp.backends.compiled",
        ),
        (
            [pattern._pattern_kernel, operator_values._operator_values_kernel],
            {"_begin_rows", "_close_gaps", "_invert_roots"},
            "rfp.compiled",
        ),
    ],
)
def test_what_kernels_call_stands_beside_them(kernels: list[Any], called: set[str], folder: str) -> None:
    """Else another file could change what they are, and nobody would notice."""
    found = {part.__name__: part.__module__ for kernel in kernels for part in compiled_parts(kernel.py_func)}
    assert called <= set(found)
    assert {module.rpartition(".")[0] for module in found.values()} == {folder}
