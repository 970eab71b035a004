"""Files that appear whole or not at all, and never in the place of what was read."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from rfp.errors import FileError, WriteError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # pragma: no cover - Windows has no such locks
    flock = None  # type: ignore[assignment]

_HAS_LOCKS = flock is not None
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# An unfinished file: a dot, the final name, a number of its own, that of the process that writes it.
_PART = re.compile(r"\..+\.(\d+)\.part")


@contextmanager
def atomic_files(paths: Sequence[Path], *, new: bool = False) -> Iterator[list[IO[bytes]]]:
    """Open files that get their names only when the block ends well: all are written and on the disk by then.

    They are written under other names in the same folder and renamed in the order given, so the last one tells that
    all are there. If the block raises (also through Ctrl-C), nothing is left and files of those names are as before.
    What a killed process left unfinished in these folders is removed first, with a note on standard error.

    Args:
        paths: The final names.
        new: Whether they must be new ones. Of several writers of one first name the last are told: at once where the
            system has locks, at the end at the latest.

    Raises:
        FileError: A name that must be new is not.
        WriteError: The folder is missing or closed to us, or the disk is full.
    """
    targets = [Path(os.path.realpath(path)) for path in paths]  # through a link, not over it
    # Numbers of processes are those of a machine or a container: two may have the same one and write to one folder.
    own = f"{uuid.uuid4().hex[:8]}.{os.getpid()}"
    parts = [target.with_name(f".{target.name}.{own}.part") for target in targets]
    for folder in dict.fromkeys(target.parent for target in targets):
        for left in remove_abandoned(folder):
            sys.stderr.write(f"rfp: note: removed {left}, the unfinished file of a run that was killed\n")
    if new and (writer := _writer_of(targets[0])) is not None:
        raise FileError(f"{paths[0]} is being written by process {writer}; wait for it, or choose another name")
    if new and targets[0].exists():
        raise _taken(targets[0])
    try:
        with ExitStack() as stack:
            files: list[IO[bytes]] = [stack.enter_context(_open_part(part)) for part in parts]
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for number, (part, target) in enumerate(zip(parts, targets, strict=True)):
            if new and number == 0:
                _claim(part, target)
            else:
                os.replace(part, target)
        for folder in {target.parent for target in targets}:
            _sync_folder(folder)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise explained(error, paths[-1]) from error
    finally:
        for part in parts:
            with suppress(OSError):  # renamed by now, or never opened
                part.unlink()


@contextmanager
def _open_part(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing and hold a lock on it, which ends with this process however it ends."""
    with open(path, "wb") as file:
        if _HAS_LOCKS:
            with suppress(OSError):  # a file system without locks
                flock(file, LOCK_EX | LOCK_NB)
        yield file


def _writer_of(target: Path) -> str | None:
    """The number of the process, here or elsewhere, that is writing a file of this name; ``None`` if nobody is seen."""
    if not _HAS_LOCKS:
        return None
    with suppress(OSError):  # a missing folder is reported when the file is opened
        for entry in os.scandir(target.parent):
            match = _PART.fullmatch(entry.name)
            if match is None or not entry.name.startswith(f".{target.name}."):
                continue
            with suppress(OSError), open(entry.path, "rb+") as file:
                try:
                    flock(file, LOCK_EX | LOCK_NB)
                except BlockingIOError:
                    return match[1]
    return None


def _claim(part: Path, target: Path) -> None:
    """Give a finished file its name, which nobody else may have taken by now."""
    try:
        try:
            os.link(part, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: nearly as good
            if target.exists():
                raise FileExistsError from None
            os.replace(part, target)
    except FileExistsError:
        raise _taken(target) from None


def _taken(target: Path) -> FileError:
    return FileError(
        f"{target} was written by another process meanwhile, and stays; choose another name, or replace it with --force"
    )


@contextmanager
def alone_in(folder: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until no other process is in such a block for the same folder; where there are no locks, go on at once.

    Args:
        folder: Which.
        waits: Called if there is one.
    """
    if not _HAS_LOCKS:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            try:
                flock(handle, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                waits()
                flock(handle, LOCK_EX)
        yield
    finally:
        os.close(handle)


def remove_abandoned(folder: Path) -> list[Path]:
    """Remove the unfinished files of dead processes; returns what was removed.

    A file goes only if no process here has the number in its name *and* nobody holds its lock: the first keeps files
    of living processes on file systems without locks, the second those of other machines and containers, whose
    numbers mean nothing here.
    """
    removed: list[Path] = []
    if not _HAS_LOCKS:
        return removed
    try:
        candidates = [folder / entry.name for entry in os.scandir(folder) if _PART.fullmatch(entry.name)]
    except OSError:
        return removed  # a missing folder is reported when the file is opened
    for path in sorted(candidates):
        match = _PART.fullmatch(path.name)
        if match is None or _is_alive(int(match[1])) or path.is_symlink():
            continue
        with suppress(OSError), open(path, "rb+") as file:
            flock(file, LOCK_EX | LOCK_NB)
            path.unlink()
            removed.append(path)
    return removed


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # another user's, or no number of a process at all
        return True
    return True


def refuse_to_replace_inputs(inputs: Iterable[Path | str], outputs: Iterable[Path | str]) -> None:
    """Raise if a file to be written is one that is read, under whatever name: another spelling, a link, a hard link."""
    read = [Path(path) for path in inputs if str(path) != "-"]
    for output in map(Path, outputs):
        for path in read:
            if _is_same_file(path, output):
                raise FileError(f"{output} is the input {path}, which would be lost; write to another name")


def check_output(path: Path, inputs: Iterable[Path | str], *, force: bool) -> None:
    """Raise, before any work, for a file that cannot be written or must not be replaced."""
    refuse_to_replace_inputs(inputs, [path])
    if path.is_dir():
        raise FileError(f"{path} is a folder; give a file name")
    if path.exists() and not force:
        raise FileError(f"{path} already there; choose another name, or replace it with --force")
    if not path.absolute().parent.is_dir():
        raise WriteError(f"{path}: the folder {path.parent} does not exist; create it first")


def _is_same_file(one: Path, other: Path) -> bool:
    with suppress(OSError):
        if os.path.samefile(one, other):
            return True
    return os.path.realpath(one) == os.path.realpath(other)


def _sync_folder(folder: Path) -> None:
    # The rename itself must survive a power cut. Not every system lets a folder be opened.
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    with suppress(OSError):
        os.fsync(handle)
    os.close(handle)


def explained(error: OSError, path: Path, *, goes_on: bool = False) -> WriteError:
    """What went wrong and what to do, in one line.

    Args:
        error: What the system raised.
        path: What was being written.
        goes_on: Whether it is one file of a work that is taken up where it stopped.
    """
    if error.errno in _NO_SPACE:
        told = f"{path}: no space left while writing ({error.strerror}); "
        if goes_on:
            return WriteError(
                told + "free some and do the same again: what is finished is kept, and it goes on from there"
            )
        return WriteError(told + "free some or choose another folder. Nothing was written under this name")
    if isinstance(error, FileNotFoundError):
        return WriteError(f"{path}: the folder {path.parent} does not exist; create it first")
    return WriteError(f"{path}: cannot be written ({error.strerror or error}); choose another place with -o")


def check_folder(folder: Path) -> None:
    """Raise, before the work whose results it is to hold, if a folder could not be made or written to."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise FileError(f"{folder}: cannot be used as a folder ({there} is a file); give another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise FileError(f"{folder}: cannot be used as a folder ({there} cannot be written to); give another")


def make_folder(folder: Path) -> None:
    """Make a folder, unless it is there.

    Raises:
        FileError: It cannot be made or looked into, or what is there is no folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.scandir(folder).close()
    except OSError as error:
        raise FileError(f"{folder}: cannot be used as a folder ({error.strerror}); give another") from error


def check_free_space(folder: Path, needed: int, name: str) -> None:
    """Raise if the disk of ``folder`` has less than ``needed`` bytes left."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # a missing folder is reported when the file is opened
    if free < needed:
        unit, name_of_unit = (1e9, "GB") if needed >= 1e8 else (1e6, "MB")
        raise WriteError(
            f"{name} needs {needed / unit:.2f} {name_of_unit} but {folder} has {free / unit:.2f} {name_of_unit} free; "
            "free some, choose another folder, or store less: --storage-dtype float16, fewer steps or channels"
        )
