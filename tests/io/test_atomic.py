"""Whole files or none."""

import errno
import os
from collections import namedtuple
from pathlib import Path

import pytest

from rfp.errors import FileError, GraphError
from rfp.io.atomic import atomic_files, check_free_space


def test_files_appear_together(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with atomic_files([a, b]) as files:
        files[0].write(b"one")
        files[1].write(b"two")
        assert not a.exists()
        assert not b.exists()
    assert (a.read_bytes(), b.read_bytes()) == (b"one", b"two")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("failure", [GraphError("bad"), KeyboardInterrupt(), MemoryError()])
def test_a_failure_leaves_everything_as_it_was(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail() -> None:
        with atomic_files([path]) as files:
            files[0].write(b"half of the n")
            raise failure

    with pytest.raises(type(failure)):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_an_old_file_is_replaced_and_a_link_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_files([tmp_path / "link"]) as files:
        files[0].write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_one_clear_line(tmp_path: Path, number: int) -> None:
    with pytest.raises(FileError, match="no space left while writing") as error, atomic_files([tmp_path / "a"]):
        raise OSError(number, os.strerror(number))
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fills_up_when_it_is_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="no space left"), atomic_files([tmp_path / "a"]) as files:
        files[0].write(b"x")
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_and_a_file_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist; create it first"), atomic_files([tmp_path / "no" / "a"]):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"), atomic_files([tmp_path / "file" / "a"]):
        pass


def test_space_is_checked_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_free_space(tmp_path, 1, "x.npy")
    check_free_space(tmp_path / "missing", 10**30, "x.npy")
    usage = namedtuple("usage", ["total", "used", "free"])
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(0, 0, 10**9))
    with pytest.raises(FileError, match=r"x.npy needs 2.00 GB but .* has 1.00 GB free"):
        check_free_space(tmp_path, 2 * 10**9, "x.npy")
