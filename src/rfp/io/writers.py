"""Writing an encoding: ``.npy``, ``.npz``, ``.parquet`` or ``.pt``, found by the suffix.

================  =====================================================================================================
``.npy``          the array ``[n, C]``, or ``[n, B, C]`` for several trajectories
``.npz``          ``encoding``, ``node_ids``, ``metadata`` (JSON text), and ``ptr`` for a batch of graphs
``.parquet``      a row for each node: ``node``, then ``encoding`` (a list of C numbers), or ``encoding_0`` to
                  ``encoding_{B-1}``; ``graph`` first for a batch; the metadata under the schema key ``rfp``
``.pt``           a dict ``encoding``, ``node_ids``, ``metadata`` (and ``ptr``), for ``torch.load(weights_only=True)``
================  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.errors import FileError, MissingExtraError
from rfp.io.options import NodeIds

# Bytes handed to the operating system at a time: an error then comes with its cause (no space, no permission).
_CHUNK = 1 << 24
_ROW_GROUP_BYTES = 1 << 26
# Names of nodes up to so many are written line by line.
_FEW_ROWS = 1 << 12


@dataclass(frozen=True)
class EncodedNodes:
    """What is written.

    Args:
        array: ``[n, C]`` or ``[n, B, C]``, on the CPU.
        node_ids: Names of the nodes, or ``None`` for 0 to n - 1 (in each graph of a batch).
        ptr: Node offsets of a batch of graphs, else ``None``.
        metadata: JSON text: every argument, the version and the layout of the columns.
    """

    array: Tensor
    node_ids: NodeIds | None
    ptr: Tensor | None
    metadata: str

    @property
    def names(self) -> NodeIds:
        """The name of each row; in a batch the number of the node within its graph."""
        if self.node_ids is not None:
            return self.node_ids
        rows = np.arange(len(self.array))
        return rows if self.ptr is None else rows - self.ptr.numpy()[self.graphs]

    @property
    def graphs(self) -> NDArray[np.int64]:
        """The graph of each row of a batch."""
        ptr = torch.tensor([0, len(self.array)]) if self.ptr is None else self.ptr
        return np.repeat(np.arange(len(ptr) - 1), ptr.diff().numpy())


def write_npy(file: IO[bytes], encoding: EncodedNodes) -> None:
    """Write the array alone; also to a pipe."""
    values = encoding.array.contiguous().numpy()
    descr = np.lib.format.dtype_to_descr(values.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": values.shape}
    np.lib.format.write_array_header_1_0(file, header)
    view = values.reshape(-1).view(np.uint8)
    for start in range(0, len(view), _CHUNK):
        file.write(view[start : start + _CHUNK].data)


def write_npz(file: IO[bytes], encoding: EncodedNodes) -> None:
    """Write arrays that ``np.load`` reads without pickle; text ids become a NumPy string array."""
    ids = encoding.names
    arrays = {
        "encoding": encoding.array.numpy(),
        "node_ids": ids.astype(str) if ids.dtype == object else ids,
        "metadata": np.array(encoding.metadata),
    }
    if encoding.ptr is not None:
        arrays["ptr"] = encoding.ptr.numpy()
    np.savez(file, allow_pickle=False, **arrays)


def write_pt(file: IO[bytes], encoding: EncodedNodes) -> None:
    """Write a dict of tensors, text ids as a list of strings."""
    ids = encoding.names
    content: dict[str, Any] = {
        "encoding": encoding.array.contiguous(),
        "node_ids": ids.tolist() if ids.dtype == object else torch.from_numpy(ids),
        "metadata": encoding.metadata,
    }
    if encoding.ptr is not None:
        content["ptr"] = encoding.ptr
    try:
        torch.save(content, file)
    except RuntimeError as error:
        # torch reports a failed write as a RuntimeError around the OSError that caused it.
        cause = error.__cause__ or error.__context__
        raise cause if isinstance(cause, OSError) else error from error


def write_parquet(file: IO[bytes], encoding: EncodedNodes) -> None:
    """Write one row for each node."""
    values = encoding.array.contiguous().numpy()
    if values.ndim == 2:
        values = values[:, None]
    graphs = None if encoding.ptr is None else encoding.graphs
    write_parquet_blocks(file, [(encoding.names, values)], encoding.metadata, graphs=graphs)


def write_parquet_blocks(
    file: IO[bytes],
    blocks: Iterable[tuple[NDArray[Any], NDArray[Any]]],
    metadata: str,
    *,
    graphs: NDArray[Any] | None = None,
) -> None:
    """Write a row for each node from blocks of rows, one after the other: the layout at the head of this module.

    Rows come in groups of about 64 MB, so that a reader need not hold all of them.

    Args:
        file: Opened for writing.
        blocks: Names of the nodes ``[rows]`` and their rows ``[rows, B, C]``.
        metadata: JSON text; none if it is empty.
        graphs: Graph number of each node, where there is one block of several graphs.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "writing Parquet") from error
    writer: Any = None
    for ids, values in blocks:
        num_trajectories, width = values.shape[1:]
        columns = {} if graphs is None else {"graph": pa.array(graphs)}
        columns["node"] = pa.array(ids.tolist() if ids.dtype == object else ids)
        for b in range(num_trajectories):
            flat = pa.array(np.ascontiguousarray(values[:, b]).reshape(-1))
            name = "encoding" if num_trajectories == 1 else f"encoding_{b}"
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, width)
        table = pa.table(columns).replace_schema_metadata({"rfp": metadata} if metadata else None)
        if writer is None:
            writer = pq.ParquetWriter(file, table.schema, compression="zstd", use_dictionary=["node"])
        writer.write_table(table, row_group_size=max(1, _ROW_GROUP_BYTES // max(1, values[:1].nbytes)))
    if writer is not None:
        writer.close()


def write_node_ids(file: IO[bytes], encoding: EncodedNodes) -> None:
    """Write the names of the rows as CSV: column ``node``, and ``graph`` before it for a batch."""
    ids = encoding.names
    if len(ids) <= _FEW_ROWS:
        file.write("".join(_few_lines(encoding)).encode())
        return
    import pyarrow as pa
    from pyarrow import csv

    columns = {} if encoding.ptr is None else {"graph": pa.array(encoding.graphs)}
    columns["node"] = pa.array(ids.tolist() if ids.dtype == object else ids)
    csv.write_csv(pa.table(columns), file)


def _few_lines(encoding: EncodedNodes) -> Iterator[str]:
    """The same lines, as Arrow writes them, before it would be loaded: names of columns and texts in quotes."""
    nodes = [str(name) if isinstance(name, int) else _quoted(name) for name in encoding.names.tolist()]
    if encoding.ptr is None:
        yield from (f"{line}\n" for line in (_quoted("node"), *nodes))
        return
    yield f"{_quoted('graph')},{_quoted('node')}\n"
    yield from (f"{graph},{node}\n" for graph, node in zip(encoding.graphs.tolist(), nodes, strict=True))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


Writer = Callable[[IO[bytes], EncodedNodes], None]

# Suffix -> writer. A new format is one function and one line here.
WRITERS: dict[str, Writer] = {".npy": write_npy, ".npz": write_npz, ".parquet": write_parquet, ".pt": write_pt}


def find_writer(path: Path) -> Writer:
    """The writer for this suffix."""
    if path.suffix.lower() not in WRITERS:
        raise FileError(f"{path}: the output must end in {', '.join(WRITERS)} (or be - for .npy on standard output)")
    return WRITERS[path.suffix.lower()]
