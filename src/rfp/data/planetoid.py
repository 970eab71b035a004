"""Cora, CiteSeer and PubMed (Yang et al. 2016) with the ten splits of Geom-GCN.

PyG's ``Planetoid`` unpickles the raw files as they are; here they go through the restricted reader of
:mod:`rfp.data.pickles`, and the result is the same ``Data``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.data.collection import GraphCollection
from rfp.data.geom_gcn import read_masks, split_names
from rfp.data.loaded import LoadedTask
from rfp.data.pickles import SparseRows, load_arrays
from rfp.data.tasks import Task
from rfp.errors import FileError

_PARTS = ("tx", "allx", "ty", "ally", "graph", "test.index")


def planetoid_files(prefix: str) -> list[str]:
    """File names of a data set (``x`` and ``y`` are the first rows of ``allx`` and ``ally``; PyG asks for them too)."""
    return [f"ind.{prefix}.{part}" for part in ("x", "y", *_PARTS)] + split_names(prefix)


def read_planetoid(root: Path, task: Task, raw: str, prefix: str) -> LoadedTask:
    """Read a citation network.

    The test nodes are stored in the order of ``test.index`` and put back to their own numbers. CiteSeer has test nodes
    that are in no file: they get zero features and class 0, as in PyG, and no edge. Edges are made undirected, without
    self-loops and duplicates.
    """
    folder = root / raw
    paths = {part: folder / f"ind.{prefix}.{part}" for part in _PARTS}
    test = _test_index(paths["test.index"])
    x = _with_test_rows(_dense(paths["allx"]), _dense(paths["tx"]), test, paths["tx"])
    y = _with_test_rows(_dense(paths["ally"]), _dense(paths["ty"]), test, paths["ty"]).argmax(axis=1)
    if len(x) != len(y):
        raise FileError(f"{folder}: features of {len(x)} nodes but labels of {len(y)}; fetch the files again")
    edge_index = _edges(paths["graph"], len(x))
    graphs = GraphCollection(
        edge_index,
        ptr=torch.tensor([0, len(x)]),
        edge_ptr=torch.tensor([0, edge_index.size(1)]),
        nodes={"x": torch.from_numpy(x)},
    )
    return LoadedTask(task, graphs, torch.from_numpy(y), read_masks(folder, prefix, len(x)), str(folder))


def _test_index(path: Path) -> NDArray[np.int64]:
    try:
        return np.loadtxt(path, dtype=np.int64, ndmin=1)
    except ValueError as error:
        raise FileError(f"{path}: expected one node number a line ({error}); fetch the file again") from error


def _dense(path: Path) -> NDArray[np.float32]:
    content = load_arrays(path)
    try:
        matrix = content.to_matrix().toarray() if isinstance(content, SparseRows) else np.asarray(content)
        if matrix.ndim != 2:
            raise ValueError(f"an array of shape {matrix.shape}")
        return matrix.astype(np.float32)
    except (ValueError, TypeError, KeyError) as error:
        raise FileError(f"{path}: expected a matrix, got {error}; fetch the file again") from error


def _with_test_rows(
    known: NDArray[np.float32], rows: NDArray[np.float32], test: NDArray[np.int64], path: Path
) -> NDArray[np.float32]:
    """Append the test nodes; the i-th row belongs to the i-th smallest number and moves to ``test[i]``."""
    first = len(known)
    if len(rows) != len(test) or test.min() != first or known.shape[1] != rows.shape[1]:
        raise FileError(
            f"{path}: expected a row for each of the {len(test)} nodes of test.index, which begin at {first} and have "
            f"{known.shape[1]} columns, got shape {rows.shape}; fetch the files again"
        )
    whole = np.zeros((int(test.max()) + 1, known.shape[1]), dtype=np.float32)
    whole[:first] = known
    whole[test] = rows
    return whole


def _edges(path: Path, num_nodes: int) -> torch.Tensor:
    from torch_geometric.io.planetoid import edge_index_from_dict

    neighbours: Any = load_arrays(path)
    try:
        edge_index = edge_index_from_dict(dict(neighbours), num_nodes)
        if int(edge_index.min()) < 0 or int(edge_index.max()) >= num_nodes:
            raise ValueError(f"a node outside 0 to {num_nodes - 1}")
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FileError(f"{path}: expected a dict of neighbour lists ({error}); fetch the file again") from error
    return torch.as_tensor(edge_index)
