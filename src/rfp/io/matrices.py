"""Adjacency matrices: SciPy ``.npz`` and Matrix Market."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
import torch

from rfp.errors import FileError, GraphError
from rfp.graph import Graph
from rfp.io.options import LoadedGraph, ReadOptions


def read_npz(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read a matrix stored by ``scipy.sparse.save_npz``; nothing is ever unpickled."""
    try:
        matrix = sp.load_npz(path)
    except (ValueError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        # The messages of NumPy advise to unpickle, which this never does.
        raise FileError(f"{path}: not a sparse matrix; write it with scipy.sparse.save_npz") from error
    return _from_matrix(matrix, path, options)


def read_matrix_market(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read ``.mtx`` or ``.mtx.gz``; a symmetric matrix stored as one triangle is completed."""
    try:
        matrix = scipy.io.mmread(path)
    except (ValueError, EOFError, OverflowError, zlib.error) as error:
        raise FileError(f"{path}: not a Matrix Market file ({error})") from error
    return _from_matrix(matrix, path, options)


def _from_matrix(stored: Any, path: Path, options: ReadOptions) -> LoadedGraph:
    matrix = sp.coo_array(stored)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"{path}: an adjacency matrix must be square, got shape {matrix.shape}")
    if options.num_nodes not in (None, matrix.shape[0]):
        raise GraphError(f"{path} has {matrix.shape[0]} nodes, but --num-nodes is {options.num_nodes}; leave it out")
    if np.iscomplexobj(matrix.data):
        raise GraphError(f"{path}: the matrix is complex; real weights are needed, e.g. abs(matrix)")
    values = matrix.data.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad) and not options.unweighted:
        row, col = int(matrix.row[bad[0]]), int(matrix.col[bad[0]])
        raise GraphError(
            f"{path}: entry ({row}, {col}) is {values[bad[0]]}; weights must be finite; correct it or give --unweighted"
        )
    weighted = not options.unweighted and not bool((values == 1).all())
    edges = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    graph = Graph(edges, matrix.shape[0], torch.from_numpy(values) if weighted else None)
    directed = options.directed is not False
    return LoadedGraph(
        graph=graph if directed else graph.to_undirected(),
        directed=directed,
        weights="the entries of the matrix" if weighted else None,
    )
