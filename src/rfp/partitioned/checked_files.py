"""Arrays in files that are whole or not there: written aside, renamed, and read against a checksum.

A file is a plain ``.npy``, readable with NumPy alone. Beside it stands ``NAME.crc`` with the CRC-32 and the length of
its bytes. The checksum gets its name first, so a file that has its name has its checksum.

Nothing waits for the disk here: a step is thousands of files, and waiting for each took longer than computing them.
Before the manifest calls a step finished all of them are brought to the disk (:func:`sync`); what a power cut takes
before that does not have its checksum, and is computed again.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from rfp.atomic import explained
from rfp.errors import FileError

Array = NDArray[Any]

# What the name of a checksum's file ends with.
_SUM = ".crc"
# No checksum with its length is longer.
_SUM_BYTES = 64
# What was found whole: (device, inode, length, time of the last change). A file that changes is checked again, one that
# gets another name is not.
_known: set[tuple[int, int, int, int]] = set()
_guard = Lock()


class DamagedFileError(FileError):
    """A file of a store is not what was written: it was cut, or a bit of it has changed."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} is damaged: {what}")
        self.path = path
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:  # it travels from a worker to the driver
        return DamagedFileError, (self.path, self.what)


def _sum_file(path: Path) -> Path:
    return path.with_name(path.name + _SUM)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A name in the same folder to write to. It becomes ``path`` when the block ends well, and vanishes if not."""
    part = path.with_name(f".{path.name}.{os.getpid()}.{uuid4().hex[:8]}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise explained(error, path, goes_on=True) from error
        raise


def _write(path: Path, pieces: list[Any]) -> int:
    """Write the pieces; returns their CRC-32."""
    crc = 0
    with open(path, "wb") as file:
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
            file.write(piece)
    return crc


def sync(folder: Path) -> None:
    """Wait until every file below a folder is on the disk.

    The first wait takes the names of all of them there; the others find little left to do.

    Raises:
        FileError: Something of it could not be written.
    """
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise explained(error, path, goes_on=True) from error


def save_array(path: Path, array: Array) -> None:
    """Write an array; whatever stops this, ``path`` afterwards is a whole file or what it was before.

    Raises:
        FileError: The disk is full or the folder is closed to us.
    """
    array = np.ascontiguousarray(array)
    header = _header(array)
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
    body = array.reshape(-1).view(np.uint8).data if array.size else b""
    with _aside(path) as part:
        crc = _write(part, [header, body])
        with _aside(_sum_file(path)) as sums:
            _write(sums, [f"{crc:08x} {len(header) + array.nbytes}\n".encode()])


def save_sum(path: Path) -> None:
    """Write the checksum of a file that is no array, once something else has written it."""
    data = _mapped(path)
    with _aside(_sum_file(path)) as sums:
        _write(sums, [f"{zlib.crc32(data.data):08x} {len(data)}\n".encode()])


def check_sum(path: Path) -> bool:
    """Compare a file with the checksum of :func:`save_sum`; returns whether there is a checksum.

    Raises:
        DamagedFileError: The file is missing, or is not what was written.
    """
    if not _sum_file(path).exists():
        return False
    try:
        stat = path.stat()
        expected = _expected(path, stat)
        _check(path, stat, expected, [_mapped(path)])
    except FileNotFoundError as error:
        raise _missing(path, error) from error
    return True


def _header(array: Array) -> bytes:
    buffer = BytesIO()
    described: Any = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


def is_whole(path: Path) -> bool:
    """Whether the file is there and is what was written."""
    try:
        load_array(path)
    except DamagedFileError:
        return False
    return True


def load_array(path: Path, *, mapped: bool = False) -> Array:
    """The array of a file that is whole. Its bytes are summed the first time a process reads it, or when it changed.

    Args:
        path: As given to :func:`save_array`.
        mapped: Map the file instead of reading it: its pages are the system's, which takes them back when memory is
            short. For files that nobody replaces or cuts while they are used, which would kill the process.

    Raises:
        DamagedFileError: The file is missing, or is not what was written.
    """
    try:
        stat = path.stat()
        expected = _expected(path, stat)
        data = _mapped(path) if mapped else np.fromfile(path, dtype=np.uint8)
    except FileNotFoundError as error:
        raise _missing(path, error) from error
    _check(path, stat, expected, [data])
    return _parsed(data)


def _mapped(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file that is not empty; one that can only be read PyTorch would not take."""
    with open(path, "rb") as file:  # a private map: what is written to it does not get into the file
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def load_into(path: Path, out: Array) -> None:
    """:func:`load_array` into memory that is there: contiguous, of the type and shape of what was written.

    Raises:
        DamagedFileError: The file is missing, or is not what was written, or that had another shape or type.
    """
    header, body = _header(out), out.reshape(-1).view(np.uint8)
    try:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            expected = _expected(path, stat)
            begins = file.read(len(header))
            read = file.readinto(body.data) if body.size else 0
    except FileNotFoundError as error:
        raise _missing(path, error) from error
    if begins != header or len(header) + body.size != stat.st_size:
        raise DamagedFileError(path, f"it is no array of shape {list(out.shape)} and type {out.dtype}")
    _check(path, stat, expected, [np.frombuffer(begins, np.uint8), body[:read]])


def _expected(path: Path, stat: os.stat_result) -> str:
    """The checksum that was written beside a file, which must have the length that was written."""
    try:
        handle = os.open(f"{path}{_SUM}", os.O_RDONLY)  # thousands of times a step: without what a text file costs
        try:
            crc, length = os.read(handle, _SUM_BYTES).decode().split()
        finally:
            os.close(handle)
    except ValueError as error:  # also: no text
        raise DamagedFileError(path, "its checksum cannot be read") from error
    if str(stat.st_size) != length:
        raise DamagedFileError(path, f"it has {stat.st_size} bytes, written were {length}")
    return crc


def _missing(path: Path, error: FileNotFoundError) -> DamagedFileError:
    return DamagedFileError(path, f"{Path(error.filename).name} is missing")


def _check(path: Path, stat: os.stat_result, expected: str, pieces: Sequence[NDArray[np.uint8]]) -> None:
    """Compare what was read with the checksum, unless this process has found this very file whole before."""
    length = sum(map(len, pieces))
    if length != stat.st_size:
        raise DamagedFileError(path, f"it has {length} bytes, written were {stat.st_size}")
    seen = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    if seen in _known:
        return
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece.data, crc)
    if f"{crc:08x}" != expected:
        raise DamagedFileError(path, f"its checksum is {crc:08x}, that of what was written {expected}")
    with _guard:
        _known.add(seen)


def _parsed(data: NDArray[np.uint8]) -> Array:
    # Magic, version 1.0, and in two bytes how long the rest of the header is.
    header = data[: 10 + int.from_bytes(data[8:10].tobytes(), "little")].tobytes()
    shape, dtype = _described(header)
    return data[len(header) :].view(dtype).reshape(shape)


@lru_cache(maxsize=1 << 12)
def _described(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type; NumPy has Python's parser read them, and there are few headers in a store."""
    stream = BytesIO(header)
    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    return shape, dtype


def discard(path: Path) -> None:
    """Remove a file with its checksum, the file first: a checksum alone says nothing."""
    path.unlink(missing_ok=True)
    _sum_file(path).unlink(missing_ok=True)


def move(old: Path, new: Path) -> None:
    """Give a file another name, its checksum first; where it has the name already nothing happens."""
    if old.exists():
        os.replace(_sum_file(old), _sum_file(new))
        os.replace(old, new)
