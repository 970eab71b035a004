"""ogbg-molhiv and ogbn-arxiv from the files of the Open Graph Benchmark (Hu et al. 2020), without the ``ogb`` package.

Its classes write a pickle and fail to read it back with the ``torch.load`` of today; the raw files are plain CSV. The
layout of the folders is OGB's own.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.splits import masks_of_rows
from rfp.data.tasks import PARTS, Task
from rfp.errors import FileError, GraphError

_MOLHIV_TABLES = ("edge", "edge-feat", "node-feat", "num-node-list", "num-edge-list", "graph-label")
_ARXIV_TABLES = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")
_SPLIT_NAMES = {"train": "train", "val": "valid", "test": "test"}


def _names(folder: str, tables: tuple[str, ...], split: str) -> list[str]:
    raw = [f"{folder}/raw/{table}.csv.gz" for table in tables]
    return raw + [f"{folder}/split/{split}/{name}.csv.gz" for name in _SPLIT_NAMES.values()]


MOLHIV_FILES = _names("ogbg_molhiv", _MOLHIV_TABLES, "scaffold")
ARXIV_FILES = _names("ogbn_arxiv", _ARXIV_TABLES, "time")


def read_molhiv(root: Path, task: Task) -> LoadedTask:
    """Read the molecules: ``x`` ``[n, 9]`` and ``edge_attr`` ``[m, 3]`` categories, ``y`` ``[graphs, 1]`` 0 or 1.

    Each bond is in the files once; the reverse direction follows it directly, as in OGB.
    """
    folder = root / "ogbg_molhiv"
    raw = folder / "raw"
    num_nodes, num_bonds = (_table(raw / f"num-{kind}-list.csv.gz", np.int64)[:, 0] for kind in ("node", "edge"))
    bonds = _table(raw / "edge.csv.gz", np.int64, rows=int(num_bonds.sum()))
    features = _table(raw / "edge-feat.csv.gz", np.int64, rows=int(num_bonds.sum()))
    atoms = _table(raw / "node-feat.csv.gz", np.int64, rows=int(num_nodes.sum()))
    y = _table(raw / "graph-label.csv.gz", np.float32, rows=len(num_nodes))
    both = np.stack([bonds, bonds[:, ::-1]], axis=1).reshape(-1, 2)
    graphs = GraphCollection.from_sizes(
        torch.from_numpy(np.ascontiguousarray(both.T)),
        torch.from_numpy(num_nodes),
        torch.from_numpy(2 * num_bonds),
        nodes={"x": torch.from_numpy(atoms)},
        edges={"edge_attr": torch.from_numpy(np.repeat(features, 2, axis=0))},
    )
    masks = _masks(folder / "split" / "scaffold", len(num_nodes))
    return LoadedTask(task, _checked(graphs, raw), torch.from_numpy(y), masks, str(folder))


def read_arxiv(root: Path, task: Task) -> LoadedTask:
    """Read the citation network: ``x`` ``[n, 128]``, ``y`` ``[n]`` of 40 classes, one split by year; edges directed."""
    folder = root / "ogbn_arxiv"
    raw = folder / "raw"
    num_nodes = int(_table(raw / "num-node-list.csv.gz", np.int64).sum())
    num_edges = int(_table(raw / "num-edge-list.csv.gz", np.int64).sum())
    edges = _table(raw / "edge.csv.gz", np.int64, rows=num_edges)
    x = _table(raw / "node-feat.csv.gz", np.float32, rows=num_nodes)
    y = _table(raw / "node-label.csv.gz", np.int64, rows=num_nodes)[:, 0]
    graphs = GraphCollection(
        torch.from_numpy(np.ascontiguousarray(edges.T)),
        ptr=torch.tensor([0, num_nodes]),
        edge_ptr=torch.tensor([0, num_edges]),
        nodes={"x": torch.from_numpy(x)},
    )
    masks = _masks(folder / "split" / "time", num_nodes)
    return LoadedTask(task, _checked(graphs, raw), torch.from_numpy(np.ascontiguousarray(y)), masks, str(folder))


def _table(path: Path, dtype: DTypeLike, rows: int | None = None) -> NDArray[np.generic]:  # -> [rows, columns]
    """A gzip CSV file of numbers without a header (about a million rows of nine a second)."""
    try:
        with gzip.open(path, "rt") as file:
            values = np.loadtxt(file, delimiter=",", dtype=dtype, ndmin=2)
    except (OSError, EOFError, ValueError) as error:
        raise FileError(f"{path}: damaged ({error}); fetch the file again") from error
    if rows is not None and len(values) != rows:
        raise FileError(f"{path}: {len(values)} rows where {rows} are expected; fetch the file again")
    return values


def _masks(folder: Path, count: int) -> dict[str, Tensor]:
    rows = {part: _table(folder / f"{_SPLIT_NAMES[part]}.csv.gz", np.int64)[:, 0] for part in PARTS}
    return masks_of_rows({part: torch.from_numpy(index) for part, index in rows.items()}, count, str(folder))


def _checked(graphs: GraphCollection, raw: Path) -> GraphCollection:
    try:
        return graphs.check()
    except GraphError as error:
        raise FileError(f"{raw / 'edge.csv.gz'}: {error}; fetch the file again") from error
