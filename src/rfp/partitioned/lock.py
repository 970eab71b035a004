"""One driver to a folder: a lock that the system takes back when its holder dies."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rfp.errors import FileError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock for the length of the block.

    Raises:
        FileError: Another process holds it; the message says which.
    """
    with open(folder / "lock", "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise FileError(
                f"{folder} is being written by another process ({holder}); wait for it, or choose another folder"
            ) from error
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
