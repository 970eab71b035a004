"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from rfp.errors import FileError, WriteError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_files(paths: Sequence[Path]) -> Iterator[list[IO[bytes]]]:
    """Open files that get their names only when the block ends well: all are written and on the disk by then.

    They are written under other names in the same folder and renamed in the order given, so the last one tells that
    all are there. If the block raises (also through Ctrl-C), nothing is left and files of those names are as before.

    Args:
        paths: The final names.

    Raises:
        FileError: The folder is missing or closed to us, or the disk is full.
    """
    targets = [Path(os.path.realpath(path)) for path in paths]  # through a link, not over it
    parts = [target.with_name(f".{target.name}.{os.getpid()}.part") for target in targets]
    try:
        with ExitStack() as stack:
            files: list[IO[bytes]] = [stack.enter_context(open(part, "wb")) for part in parts]
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for part, target in zip(parts, targets, strict=True):
            os.replace(part, target)
        for folder in {target.parent for target in targets}:
            _sync_folder(folder)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise _explained(error, paths[-1]) from error
    finally:
        for part in parts:
            with suppress(OSError):  # renamed by now, or never opened
                part.unlink()


def _sync_folder(folder: Path) -> None:
    # The rename itself must survive a power cut. Not every system lets a folder be opened.
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    with suppress(OSError):
        os.fsync(handle)
    os.close(handle)


def _explained(error: OSError, path: Path) -> WriteError:
    if error.errno in _NO_SPACE:
        return WriteError(
            f"{path}: no space left while writing ({error.strerror}); free some or choose another folder. "
            "Nothing was written under this name"
        )
    if isinstance(error, FileNotFoundError):
        return WriteError(f"{path}: the folder {path.parent} does not exist; create it first")
    return WriteError(f"{path}: cannot be written ({error.strerror or error}); choose another place with -o")


def check_free_space(folder: Path, needed: int, name: str) -> None:
    """Raise if the disk of ``folder`` has less than ``needed`` bytes left."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # a missing folder is reported when the file is opened
    if free < needed:
        raise WriteError(
            f"{name} needs {needed / 1e9:.2f} GB but {folder} has {free / 1e9:.2f} GB free; free some, choose another "
            "folder, or store less: --storage-dtype float16, fewer steps or channels"
        )
