"""The content of a file, unpacked: gzip, bzip2, xz and zstd, told by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rfp.errors import FileError, MissingExtraError, RFPError


def _zstd(content: bytes) -> bytes:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "unpacking zstd") from error
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return bytes(stream.read())


def _stream_after_stream(start: Callable[[], Any]) -> Callable[[bytes], bytes]:
    """Unpack all streams of a file; what follows the last one is damage, not something to leave out in silence."""

    def unpack(content: bytes) -> bytes:
        parts = []
        while content.rstrip(b"\0"):
            stream = start()
            parts.append(stream.decompress(content))
            if not stream.eof:
                raise EOFError("it ends before its end mark")
            content = stream.unused_data
        return b"".join(parts)

    return unpack


# Suffix -> (name, first bytes, how to unpack).
PACKED: dict[str, tuple[str, bytes, Callable[[bytes], bytes]]] = {
    ".gz": ("gzip", b"\x1f\x8b", gzip.decompress),
    ".bz2": ("bzip2", b"BZh", _stream_after_stream(bz2.BZ2Decompressor)),
    ".xz": ("xz", b"\xfd7zXZ\x00", _stream_after_stream(lzma.LZMADecompressor)),
    ".zst": ("zstd", b"\x28\xb5\x2f\xfd", _zstd),
}


def _zstd_stream(path: Path) -> IO[bytes]:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "unpacking zstd") from error
    stream: IO[bytes] = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
    return stream


_STREAMS: dict[str, Callable[[Path], Any]] = {
    "gzip": gzip.open,
    "bzip2": bz2.open,
    "xz": lzma.open,
    "zstd": _zstd_stream,
}


@contextmanager
def open_unpacked(path: Path) -> Iterator[tuple[IO[bytes], str | None]]:
    """A file to be read from its beginning, unpacked as it is read, and the name of the compression if there is one."""
    with open(path, "rb") as file:
        begin = file.read(8)
    name = next((name for name, mark, _ in PACKED.values() if begin.startswith(mark)), None)
    try:
        with open(path, "rb") if name is None else _STREAMS[name](path) as stream:
            yield stream, name
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        if name is None or isinstance(error, RFPError):
            raise
        raise FileError(f"{path}: not a complete {name} file ({error}); fetch or compress it again") from error


def read_bytes(path: Path) -> bytes:
    """The content of a file (``-``: of standard input), unpacked."""
    return read_packed(path)[0]


def read_packed(path: Path) -> tuple[bytes, str | None]:
    """The content of a file, unpacked, and the name of the compression if there was one."""
    content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    for name, mark, unpack in PACKED.values():
        if not content.startswith(mark):
            continue
        try:
            return unpack(content), name
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, MissingExtraError):
                raise
            raise FileError(f"{path}: not a complete {name} file ({error}); fetch or compress it again") from error
    return content, None
