"""A file dropped on the page: untrusted bytes, read without pickle, without trusting a size that it claims.

The page sends bytes and a name. Of the name only the suffix is used, and only to choose among known formats: the bytes
go to a file of our own naming in a private folder, which is gone when the graph is read.
"""

from __future__ import annotations

import gzip
import re
import tempfile
import zipfile
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath

from rfp.errors import FileError, GraphError, RFPError
from rfp.explorer.graphs import OpenGraph
from rfp.explorer.limits import Limits
from rfp.io import FORMATS, ReadOptions, read_files
from rfp.io.compression import PACKED
from rfp.io.readers import find_format

# torch.load reads pickles; even restricted to weights they are not taken from a page.
_REFUSED = ("pyg",)
_PAJEK_NODES = re.compile(rb"^\s*\*vertices\s+(\d+)", re.IGNORECASE | re.MULTILINE)
_LONGEST_NAME = 120


async def receive(chunks: AsyncIterator[bytes], limits: Limits) -> bytes:
    """The body of a request, given up as soon as it is too long."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limits.upload_bytes:
            raise FileError(_too_long(limits))
        parts.append(chunk)
    return b"".join(parts)


def _too_long(limits: Limits) -> str:
    return (
        f"the file has more than {limits.upload_bytes / 1e6:,.0f} MB, the most that is taken by drag and drop "
        "(unpacked); give it on the command line instead: rfp explore FILE"
    )


def shown_name(name: str) -> str:
    """The last part of a file name, whatever system it comes from, shortened for display.

    >>> shown_name("../../etc/passwd"), shown_name(r"C:\\\\data\\\\web.csv")
    ('passwd', 'web.csv')
    """
    last = PureWindowsPath(PurePosixPath(name).name).name
    printable = "".join(c for c in last if c.isprintable())
    return printable[-_LONGEST_NAME:] or "graph.txt"


def read_upload(body: bytes, name: str, limits: Limits, options: ReadOptions | None = None) -> OpenGraph:
    """Read a dropped file.

    Args:
        body: Its bytes.
        name: Its name as the page gives it.
        limits: The sizes allowed.
        options: How to read it.

    Raises:
        RFPError: It is too large, of an unknown format, or not what its suffix says; the message names the file.
    """
    shown = shown_name(name)
    try:
        kind = find_format(Path(shown))
        if kind in _REFUSED:
            raise FileError(
                f"{shown}: PyTorch files are pickles and are not taken from a page; "
                f"give it on the command line instead: rfp explore {shown}"
            )
        if shown.lower().endswith(".gz"):
            body = _unzipped(body, limits)
        if any(body.startswith(mark) for _, mark, _ in PACKED.values()):
            raise FileError(f"{shown}: from a page only .gz is unpacked, once; unpack the file first")
        with tempfile.TemporaryDirectory(prefix="rfp-explore-") as folder:
            path = Path(folder) / f"dropped{FORMATS[kind].suffixes[0]}"
            path.write_bytes(body)
            _check_claims(kind, path, limits)
            try:
                loaded = read_files(path, replace(options or ReadOptions(), format=kind))
            except RFPError as error:
                raise type(error)(str(error).replace(str(path), shown)) from error
            except Exception as error:  # whatever a parser meets in a stranger's bytes, the page gets one line
                raise FileError(f"{shown}: cannot be read as {kind} ({type(error).__name__})") from error
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise FileError(f"{shown}: not a gzip file, or a damaged one; pack it again") from error
    limits.check_graph(loaded.graph.num_nodes, loaded.graph.num_edges)
    return OpenGraph(loaded, shown, ("upload", shown))


def _unzipped(body: bytes, limits: Limits) -> bytes:
    """All members of a gzip file, which may be several: files packed apart and put together, or blocks."""
    with gzip.GzipFile(fileobj=BytesIO(body)) as file:
        unpacked = file.read(limits.upload_bytes + 1)
    if len(unpacked) > limits.upload_bytes:
        raise FileError(_too_long(limits))
    return unpacked


def _check_claims(kind: str, path: Path, limits: Limits) -> None:
    """Refuse what would only turn out to be too large while it is read: packed archives, claimed shapes."""
    if kind == "npz":
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(part.file_size for part in archive.infolist()) > limits.upload_bytes:
                    raise FileError(_too_long(limits))
        except zipfile.BadZipFile:
            return  # the reader says what it is not
    elif kind == "mtx":
        with path.open("rb") as lines:
            sizes = next((line for line in lines if not line.startswith(b"%")), b"").split()
        if len(sizes) >= 2 and all(part.isdigit() for part in sizes):
            numbers = [int(part) for part in sizes]
            limits.check_graph(max(numbers[:2]), numbers[2] if len(numbers) > 2 else numbers[0] * numbers[1])
    elif kind == "parquet":
        _check_parquet(path, limits)
    elif kind == "pajek" and (claimed := _PAJEK_NODES.search(path.read_bytes())):
        limits.check_graph(int(claimed[1]), 0)
    elif kind in ("graphml", "gexf"):
        _check_xml(path.read_bytes())


def _check_xml(content: bytes) -> None:
    # Of what the parser reads, only UTF-16 writes < otherwise than ASCII does, and never without a byte of zeros.
    if b"\0" in content:
        raise GraphError("the file is XML in UTF-16, or damaged; save it in UTF-8")
    if b"<!ENTITY" in content:
        raise GraphError("the file declares entities, which no graph needs; remove them")


def _check_parquet(path: Path, limits: Limits) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        about = pq.ParquetFile(path).metadata
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return  # the reader says what it is not
    limits.check_graph(0, about.num_rows)
    sizes = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    if sum(sizes) > limits.upload_bytes:
        raise FileError(_too_long(limits))
