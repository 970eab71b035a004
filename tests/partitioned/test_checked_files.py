"""Arrays in files that are whole or not there."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rfp.errors import FileError
from rfp.partitioned.checked_files import DamagedFileError, discard, is_whole, load_array, load_into, save_array
from rfp.partitioned.layout import Layout, Manifest, StoredGraph


def loaded_into(path: Path, like: np.ndarray) -> np.ndarray:
    """What :func:`load_into` reads into memory in which something else stood."""
    out = np.full_like(np.atleast_1d(like), 1)  # as which one number is written
    load_into(path, out)
    return out


@pytest.mark.parametrize("shape", [(3, 2, 4), (0, 2, 4), (5,), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_, np.uint8])
def test_what_is_written_is_read_by_us_and_by_numpy(tmp_path: Path, shape: tuple[int, ...], dtype: type) -> None:
    array = (np.random.default_rng(0).random(shape) * 9).astype(dtype)
    save_array(tmp_path / "deep" / "a.npy", array)
    for read in (
        load_array(tmp_path / "deep" / "a.npy"),
        load_array(tmp_path / "deep" / "a.npy", mapped=True),
        loaded_into(tmp_path / "deep" / "a.npy", array),
        np.load(tmp_path / "deep" / "a.npy"),
    ):
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["a.npy", "a.npy.crc"]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("way", ["read", "mapped", "into"])
@pytest.mark.parametrize("harm", ["bit", "cut", "grown", "gone", "no sum", "bad sum"])
def test_a_damaged_file_is_never_used(tmp_path: Path, harm: str, known: bool, way: str) -> None:
    read: dict[str, Callable[[], object]] = {
        "read": lambda: load_array(path),
        "mapped": lambda: load_array(path, mapped=True),
        "into": lambda: loaded_into(path, np.arange(1000.0)),
    }
    path = tmp_path / "a.npy"
    save_array(path, np.arange(1000.0))
    if known:
        read[way]()  # a file that was whole once is checked again when it changes
    data = bytearray(path.read_bytes())
    if harm == "bit":
        data[700] ^= 16
        path.write_bytes(data)
    elif harm == "cut":
        path.write_bytes(data[:-8])
    elif harm == "grown":
        path.write_bytes(data + b"x")
    elif harm == "gone":
        path.unlink()
    elif harm == "no sum":
        path.with_name("a.npy.crc").unlink()
    else:
        path.with_name("a.npy.crc").write_text("what")
    assert not is_whole(path)
    with pytest.raises(DamagedFileError, match=r"a\.npy is damaged: ") as caught:
        read[way]()
    assert caught.value.path == path
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.path, str(again)) == (path, str(caught.value))


@pytest.mark.parametrize("out", [np.zeros(999), np.zeros(1001), np.zeros(1000, np.int64), np.zeros((500, 2))])
def test_what_has_another_shape_or_type_is_not_read_into_memory(tmp_path: Path, out: np.ndarray) -> None:
    save_array(tmp_path / "a.npy", np.arange(1000.0))
    with pytest.raises(DamagedFileError, match="it is no array of shape"):
        load_into(tmp_path / "a.npy", out)


def test_a_new_version_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    save_array(path, np.zeros(3))
    save_array(path, np.ones(5))
    np.testing.assert_array_equal(load_array(path), np.ones(5))
    discard(path)
    discard(path)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_nothing_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npy"
    save_array(path, np.zeros(3))

    class Full(io.BytesIO):
        def write(self, piece: object) -> int:
            raise OSError(28, "No space left on device")

    def full(name: Path, mode: str) -> Full:
        name.touch()
        return Full()

    monkeypatch.setattr("rfp.partitioned.checked_files.open", full, raising=False)
    with pytest.raises(
        FileError, match=r"no space left while writing .*; free some and do the same again: what is finished is kept"
    ):
        save_array(path, np.ones(5))
    np.testing.assert_array_equal(load_array(path), np.zeros(3))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npy", "a.npy.crc"]


def test_what_the_disk_refuses_later_is_told_before_a_step_is_called_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path)
    first = Manifest(StoredGraph(1, 0, 0, 0, False, True, (0, 1)), None, 1)
    layout.write_manifest(first, tmp_path)
    state = layout.state("start")
    save_array(state / "a.npy", np.ones(3))
    synced: list[str] = []

    def full(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="no space left"):
        layout.write_manifest(first.with_step("start", {}, []), state)
    assert layout.read_manifest() == first
    assert synced == ["a.npy", "a.npy.crc"]
