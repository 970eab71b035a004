"""Node classification with the ten splits of Geom-GCN (Pei et al. 2020): WebKB, Wikipedia, Actor, and the masks of all.

PyG's own classes read the text files, from a folder of ours in which ``raw`` is a link to the raw files, so that
nothing is written beside them. Where one of them fails, the files are gone through again to name the one at fault.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.table_files import reads_as_float
from rfp.data.tasks import PARTS, Task
from rfp.errors import FileError

GEOM_GCN_SPLITS = 10
FEATURES, EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"


def split_names(prefix: str) -> list[str]:
    """File names of the ten splits (their "0.6_0.2" notwithstanding, the fractions are 48/32/20 %)."""
    return [f"{prefix}_split_0.6_0.2_{i}.npz" for i in range(GEOM_GCN_SPLITS)]


def geom_gcn_files(prefix: str) -> list[str]:
    """File names of a data set in Geom-GCN's own layout."""
    return [FEATURES, EDGES, *split_names(prefix)]


def read_geom_gcn(root: Path, task: Task, raw: str, prefix: str, dataset: Callable[[str], Any]) -> LoadedTask:
    """Read a data set with a PyG class.

    Args:
        root: Data root.
        task: Task of the data set.
        raw: Folder of the raw files below the root, such as ``webkb/cornell/raw``.
        prefix: Prefix of the names of the split files.
        dataset: Makes the PyG data set from its ``root``, of which ``raw`` without its first part is the raw folder.
    """
    folder = root / raw
    for name in (FEATURES, EDGES):
        _check_whole(folder / name)
    with tempfile.TemporaryDirectory(prefix="rfp-") as mine:
        link = Path(mine, *Path(raw).parts[1:])
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            link.symlink_to(folder.resolve(), target_is_directory=True)
        except OSError:  # not every system has links
            shutil.copytree(folder, link)
        try:
            with redirect_stderr(StringIO()):
                data = dataset(mine)[0]
            read_masks(folder, prefix, data.num_nodes)
            graphs = GraphCollection.from_data_list([data]).check()
        except Exception as error:  # of parsing, in any form: PyG does not say which file
            _explain(folder, prefix, error)
    masks = {part: data[f"{part}_mask"] for part in PARTS}
    return LoadedTask(task, graphs, data.y, masks, str(folder))


def read_masks(folder: Path, prefix: str, num_nodes: int) -> dict[str, Tensor]:
    """The ten splits as masks ``[num_nodes, 10]``.

    Raises:
        FileError: A file is damaged, or its masks are not disjoint boolean arrays of ``num_nodes`` entries.
    """
    columns: dict[str, list[Tensor]] = {part: [] for part in PARTS}
    for name in split_names(prefix):
        path = folder / name
        try:
            with np.load(path, allow_pickle=False) as arrays:
                masks = {part: np.asarray(arrays[f"{part}_mask"]) for part in PARTS}
        except Exception as error:  # a truncated archive fails as ValueError, BadZipFile, EOFError or KeyError
            raise FileError(
                f"{path}: not a split file with train_mask, val_mask and test_mask ({error}); fetch it again"
            ) from error
        for part, mask in masks.items():
            if mask.shape != (num_nodes,) or not np.isin(mask, (0, 1)).all():
                raise FileError(
                    f"{path}: {part}_mask must have {num_nodes} entries, yes or no, got {mask.dtype} of shape "
                    f"{mask.shape}; fetch the file again"
                )
            columns[part].append(torch.from_numpy(mask.astype(bool)))
        if (np.sum(list(masks.values()), axis=0) > 1).any():
            raise FileError(f"{path}: a node is in two of train, val and test; fetch the file again")
    return {part: torch.stack(masks, dim=1) for part, masks in columns.items()}


def _explain(folder: Path, prefix: str, error: Exception) -> NoReturn:
    """Raise the error that names the file, and the line, that cannot be read."""
    if isinstance(error, FileError):
        raise error
    num_nodes = 0
    for number, fields in _lines(folder / FEATURES):
        values = fields[1].split(",") if len(fields) == 3 else []
        if len(fields) != 3 or not all(map(reads_as_float, [fields[0], fields[2], *values])):
            raise _malformed(folder / FEATURES, number, "node, features with commas, label") from error
        num_nodes += 1
    for number, fields in _lines(folder / EDGES):
        if len(fields) != 2 or not all(field.isdigit() and int(field) < num_nodes for field in fields):
            raise _malformed(folder / EDGES, number, f"two node numbers below {num_nodes}") from error
    read_masks(folder, prefix, num_nodes)
    raise FileError(f"{folder}: PyG cannot read these files ({error}); fetch them again") from error


def _check_whole(path: Path) -> None:
    """Refuse a file whose last line is cut off: PyG leaves that line out and says nothing."""
    with open(path, "rb") as file:
        file.seek(max(path.stat().st_size - 1, 0))
        if file.read() != b"\n":
            raise FileError(f"{path}: cut off, the last line has no end; fetch the file again")


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if number > 1:  # the first names the columns
                yield number, line.rstrip("\n").split("\t")


def _malformed(path: Path, number: int, expected: str) -> FileError:
    return FileError(f"{path}, line {number}: expected {expected}, separated by tabs; fetch the file again")
