"""USAir, Celegans and Yeast: small graphs without features, as MATLAB files with one sparse matrix ``net``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.tasks import PARTS, Task
from rfp.errors import FileError


def read_mat(root: Path, task: Task, file: str) -> LoadedTask:
    """Read a graph of the SEAL benchmark; its links are not split yet.

    References:
        M. Zhang, Y. Chen. Link prediction based on graph neural networks. NeurIPS 2018.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    path = root / file
    try:
        net = loadmat(path)["net"]
        matrix = sp.coo_array(net)
    except (MatReadError, ValueError, KeyError, TypeError, OSError, NotImplementedError, EOFError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise FileError(
            f"{path}: expected a MATLAB file with a sparse matrix net ({reason}); fetch it again"
        ) from error
    if matrix.shape[0] != matrix.shape[1]:
        raise FileError(f"{path}: the matrix net must be square, got {matrix.shape}; fetch it again")
    edge_index = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    graphs = GraphCollection(edge_index, torch.tensor([0, matrix.shape[0]]), torch.tensor([0, edge_index.size(1)]))
    masks = {part: torch.zeros(0, 1, dtype=torch.bool) for part in PARTS}
    return LoadedTask(task, graphs, torch.zeros(0, 1), masks, str(path.parent))
