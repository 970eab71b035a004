"""Packed files: read whole, or refused."""

import bz2
import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from rfp.errors import FileError
from rfp.io.compression import read_packed

TEXT = b"0 1\n1 2\n" * 50
PACKED = {
    "gzip": gzip.compress(TEXT),
    "bzip2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "zstd": pa.compress(TEXT, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("name", PACKED)
def test_whole_and_one_after_the_other(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(PACKED[name])
    assert read_packed(path) == (TEXT, name)
    path.write_bytes(PACKED[name] * 2)
    assert read_packed(path) == (TEXT * 2, name)


@pytest.mark.parametrize("name", PACKED)
def test_cut_or_followed_by_something_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    for damaged in (PACKED[name][:-3], PACKED[name] + b"more", PACKED[name] + PACKED[name][:-3]):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=f"not a complete {name} file"):
            read_packed(path)


def test_plain(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(TEXT)
    assert read_packed(tmp_path / "x") == (TEXT, None)
