"""Where raw files are looked for, and where what we make or download is kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rfp.errors import FileError

CHECKSUMS = "SHA256SUMS"


def cache_folder(cache: str | Path | None = None) -> Path:
    """The folder we may write to: the argument, else ``RFP_CACHE``, else ``~/.cache/rfp``.

    Downloads go to ``raw`` in it, processed files to ``processed``.
    """
    return Path(cache or os.environ.get("RFP_CACHE") or Path.home() / ".cache" / "rfp").expanduser()


def data_roots(data_root: str | Path | None = None, cache: str | Path | None = None) -> list[Path]:
    """Folders that may hold raw files, in the order in which they are tried.

    The argument, else ``RFP_DATA`` (if one is given: nothing is ever written there), then ``raw`` in the cache.
    """
    given = data_root or os.environ.get("RFP_DATA")
    roots = []
    if given:
        root = Path(given).expanduser()
        if not root.is_dir():
            origin = "data_root" if data_root else "the environment variable RFP_DATA"
            raise FileError(f"{origin} must be a folder of raw data sets, got {root}, which is not there")
        roots.append(root)
    return [*roots, cache_folder(cache) / "raw"]


def find_files(
    name: str,
    files: Sequence[str],
    roots: Sequence[Path],
    download: Callable[[Path], None] | None,
) -> Path:
    """The first root that holds all files of a data set; the last root, after a download, if none does.

    Args:
        name: Name of the data set, for errors.
        files: Paths below a root.
        roots: See :func:`data_roots`; the last one is ours.
        download: Fetches the files into the folder given, or ``None`` to stay offline.

    Raises:
        FileError: The files are in no root and cannot be downloaded; it says what to put where.
    """
    for root in roots:
        if all((root / file).is_file() for file in files):
            return root
    problem = "downloads are switched off"
    if download is not None:
        try:
            _download(download, roots[-1])
            missing = [file for file in files if not (roots[-1] / file).is_file()]
            if not missing:
                return roots[-1]
            problem = f"the download did not bring {', '.join(missing)}"
        except Exception as error:  # of urllib, fsspec, zipfile, ssl: the cause is named, the advice is the same
            problem = f"it could not be downloaded, probably there is no network ({type(error).__name__}: {error})"
    # The root that has most of the files is the one somebody began to fill.
    best = max(roots, key=lambda root: sum((root / file).is_file() for file in files))
    missing = [file for file in files if not (best / file).is_file()]
    raise FileError(
        f"{name}: raw files are missing, and {problem}. Put them under {best}"
        + (" (or under another folder, named by data_root or RFP_DATA)" if best == roots[-1] else "")
        + ":\n  "
        + "\n  ".join(missing)
    )


def _download(download: Callable[[Path], None], root: Path) -> None:
    """Download to a folder beside and move what came, so that a broken download leaves nothing half there."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=root) as part:
        download(Path(part))
        for source in sorted(path for path in Path(part).rglob("*") if path.is_file()):
            target = root / source.relative_to(part)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)


def download_with(dataset: type[Any], folder: str, **attributes: Any) -> Callable[[Path], None]:
    """A download by a PyG class into ``folder`` of a root, without the processing that its constructor would begin.

    The processing is left out since it unpickles some files as they are.

    Args:
        dataset: The class.
        folder: What the class is given as ``root``, below our root.
        attributes: What its ``raw_dir`` and ``download`` read.
    """

    def download(root: Path) -> None:
        bare = object.__new__(dataset)
        bare.root = str(root / folder)
        for name, value in attributes.items():
            setattr(bare, name, value)
        os.makedirs(bare.raw_dir, exist_ok=True)
        bare.download()

    return download


def download_zip(url: str, inside: str, folder: str) -> Callable[[Path], None]:
    """A download of an archive whose folder ``inside`` becomes ``folder`` of a root, as OGB's classes do."""

    def download(root: Path) -> None:
        from torch_geometric.data import download_url, extract_zip

        archive = download_url(url, str(root))
        extract_zip(archive, str(root))
        os.unlink(archive)
        shutil.move(str(root / inside), str(root / folder))

    return download


def digests(root: Path, files: Sequence[str]) -> dict[str, str]:
    """SHA-256 of each file, compared with ``SHA256SUMS`` of the root where that lists it.

    Raises:
        FileError: A file is not the one that was listed.
    """
    listed = _read_checksums(root / CHECKSUMS)
    found = {}
    for file in files:
        with open(root / file, "rb") as content:
            found[file] = hashlib.file_digest(content, "sha256").hexdigest()
        if listed.get(file, found[file]) != found[file]:
            raise FileError(
                f"{root / file}: damaged or replaced, its SHA-256 is {found[file][:12]}… and not "
                f"{listed[file][:12]}… as {root / CHECKSUMS} says; fetch the file again"
            )
    return found


def _read_checksums(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {pair[1].lstrip("*").removeprefix("./"): pair[0] for pair in pairs if len(pair) == 2}
