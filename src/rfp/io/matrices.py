"""Adjacency matrices: SciPy ``.npz`` and Matrix Market."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from rfp.errors import FileError, GraphError
from rfp.graph import Graph
from rfp.io.compression import read_bytes
from rfp.io.options import LoadedGraph, ReadOptions

# Bytes that one byte of a compressed archive can stand for, at the most.
_MOST_DEFLATED = 1032


def read_npz(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read a matrix stored by ``scipy.sparse.save_npz``; nothing is ever unpickled."""
    import scipy.sparse as sp

    with open(path, "rb") as file:  # what the system has to say about the path, it says here
        try:
            _check_arrays(file)
            file.seek(0)
            matrix = sp.load_npz(file)
            _check_structure(matrix)
        except MemoryError:
            raise
        except Exception as error:  # damaged bytes make zipfile, NumPy and SciPy fail in any way
            # The messages of NumPy advise to unpickle, which this never does.
            raise FileError(f"{path}: not a sparse matrix; write it with scipy.sparse.save_npz") from error
    return _from_matrix(matrix, path, options)


def _check_arrays(whole: IO[bytes]) -> None:
    """Raise unless each array of the archive has just the bytes its header speaks of: no more is ever allocated."""
    with zipfile.ZipFile(whole) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                shape, dtype = _array_header(file)
                begin = file.tell()
            size = int(np.prod(shape, dtype=object)) * dtype.itemsize
            if dtype.hasobject or size != member.file_size - begin:
                raise ValueError(f"{member.filename} holds something else than its header says")
            if member.file_size > _MOST_DEFLATED * (member.compress_size + 1):
                raise ValueError(f"{member.filename} cannot have the size that the archive says")


def _array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def _check_structure(matrix: Any) -> None:
    """Raise for indices that point outside the matrix: SciPy's compiled code would follow them."""
    if matrix.dtype.kind not in "biufc":
        raise ValueError(f"entries of type {matrix.dtype}")
    if hasattr(matrix, "check_format"):  # compressed rows, columns, blocks; the others are checked when they are made
        matrix.check_format(full_check=True)


def read_matrix_market(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read ``.mtx`` or ``.mtx.gz``; a symmetric matrix stored as one triangle is completed."""
    from rfp.io.matrix_market import parse_matrix_market

    return _from_matrix(parse_matrix_market(read_bytes(path), str(path)), path, options)


def _from_matrix(stored: Any, path: Path, options: ReadOptions) -> LoadedGraph:
    import scipy.sparse as sp

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
