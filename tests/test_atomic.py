"""Whole files or none."""

import errno
import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from rfp.atomic import atomic_files, check_folder, check_free_space, make_folder, refuse_to_replace_inputs
from rfp.errors import FileError, GraphError


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


def test_small_sizes_are_told_in_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", ["total", "used", "free"])
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(0, 0, 10**6))
    with pytest.raises(FileError, match=r"x.npy needs 2.50 MB but .* has 1.00 MB free"):
        check_free_space(tmp_path, 2_500_000, "x.npy")


def test_a_folder_that_could_not_hold_results_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_folder(tmp_path)
    check_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []  # nothing is made
    file = tmp_path / "file"
    file.touch(mode=0o777)  # may be written and run, and is no folder
    for folder in (file, file / "inside"):
        with pytest.raises(
            FileError, match=rf"{folder}: cannot be used as a folder \({file} is a file\); give another"
        ):
            check_folder(folder)
        with pytest.raises(FileError, match=f"{folder}: cannot be used as a folder .*; give another"):
            make_folder(folder)
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    monkeypatch.setattr("os.access", lambda place, mode: False)  # root may write anywhere
    with pytest.raises(FileError, match=r"c: cannot be used as a folder \(.* cannot be written to\)"):
        check_folder(tmp_path / "c")


def test_a_folder_that_is_there_and_cannot_be_looked_into_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.scandir", closed)  # root may look into any
    with pytest.raises(FileError, match=rf"{tmp_path}: cannot be used as a folder \(Permission denied\); give another"):
        make_folder(tmp_path)


def dead_process() -> int:
    """The number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_what_a_killed_run_left_is_removed_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = dead_process()
    abandoned = tmp_path / f".old.npy.{dead}.part"
    kept = [f".live.npy.{os.getppid()}.part", f"mine.{dead}.part", ".mine.part", f".huge.{10**30}.part"]
    for path in [abandoned, *(tmp_path / name for name in kept)]:
        path.write_bytes(b"half")
    with atomic_files([tmp_path / "a"]) as files:
        files[0].write(b"x")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "a"])
    assert capsys.readouterr().err == f"rfp: note: removed {abandoned}, the unfinished file of a run that was killed\n"


def test_a_file_that_is_being_written_stays_whatever_its_number(tmp_path: Path) -> None:
    # In another container, or on another machine with the same folder, process numbers mean nothing: the lock does.
    part = tmp_path / f".x.npy.{dead_process()}.part"
    code = (
        f"import fcntl, time; file = open({str(part)!r}, 'wb'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(flush=True); time.sleep(600)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        with atomic_files([tmp_path / "a"]) as files:
            files[0].write(b"x")
        assert part.exists()
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    with atomic_files([tmp_path / "a"]) as files:
        files[0].write(b"x")
    assert os.listdir(tmp_path) == ["a"]


def test_two_writers_of_one_name_do_not_disturb_each_other(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rfp.atomic import atomic_files\n"
        f"with atomic_files([Path({str(tmp_path)!r}) / 'a']) as files:\n"
        "    files[0].write(b'theirs'); print(flush=True); sys.stdin.readline()\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()
    with atomic_files([tmp_path / "a"]) as files:
        files[0].write(b"ours")
    assert (tmp_path / "a").read_bytes() == b"ours"
    other.communicate(b"\n", timeout=60)
    assert other.returncode == 0
    assert (tmp_path / "a").read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["a"]


def write_new(path: Path, content: bytes, meanwhile: Callable[[], None] = lambda: None) -> None:
    with atomic_files([path], new=True) as (file,):
        file.write(content)
        meanwhile()


def test_of_two_writers_of_a_new_name_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"

    def second() -> None:
        write_new(tmp_path / "a.b", b"another name")
        with pytest.raises(FileError, match=f"a is being written by process {os.getpid()}; wait for it"):
            write_new(path, b"second")

    write_new(path, b"first", second)
    assert path.read_bytes() == b"first"
    # Where the one is not seen by the other, whoever ends first has the name.
    monkeypatch.setattr("rfp.atomic._HAS_LOCKS", False)
    for has_links in (True, False):
        if not has_links:
            monkeypatch.setattr("os.link", Mock(side_effect=PermissionError))
        path.unlink()
        with pytest.raises(FileError, match="was written by another process meanwhile, and stays"):
            write_new(path, b"late", lambda: write_new(path, b"early"))
        assert path.read_bytes() == b"early"
        assert sorted(os.listdir(tmp_path)) == ["a", "a.b"]


def test_inputs_are_recognised_under_any_name(tmp_path: Path) -> None:
    source = tmp_path / "g.csv"
    source.write_text("0,1")
    os.link(source, tmp_path / "hard")
    (tmp_path / "soft").symlink_to("g.csv")
    (tmp_path / "nowhere").symlink_to("missing")
    for name in ("g.csv", "hard", "soft", "../" + tmp_path.name + "/g.csv"):
        with pytest.raises(FileError, match="is the input"):
            refuse_to_replace_inputs([source], [tmp_path / "other", tmp_path / name])
    with pytest.raises(FileError, match="is the input"):
        refuse_to_replace_inputs([tmp_path / "nowhere"], [tmp_path / "missing"])
    refuse_to_replace_inputs(["-", source], [tmp_path / "new", "-"])


def test_processes_of_one_number_in_two_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: 1)
    path = tmp_path / "x"
    with atomic_files([path]) as (mine,):
        mine.write(b"mine")
        with atomic_files([path]) as (other,):
            other.write(b"the other's")
        assert path.read_bytes() == b"the other's"
    assert path.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [path]
