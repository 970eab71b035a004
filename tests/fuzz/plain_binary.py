"""Plain readers of binary files: NumPy's archives, Parquet and ``torch.save``, without the library and without SciPy.

The archives of torch are unpacked and unpickled here, by a table of the few names that may stand in one; tensors are
bytes that NumPy looks at. Parquet is read by Arrow, as there is no second reader at hand, but into plain Python values.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tests.fuzz.plain_reader import CannotTell, Read, assemble, choose, require

Entries = Iterable[tuple[int, int, float]]


def summed(entries: Entries, num_nodes: int, *, weighted: bool) -> Read:
    """Entries at one place add up; ``weighted=False``: each counts 1."""
    merged: dict[tuple[Any, Any], float] = {}
    for i, j, value in entries:
        require(0 <= i < num_nodes and 0 <= j < num_nodes, "an entry outside")
        require(math.isfinite(value) or not weighted, "a weight is not finite")
        merged[i, j] = merged.get((i, j), 0.0) + (value if weighted else 1.0)
    return list(range(num_nodes)), merged


def read_npz(content: bytes, *, directed: bool, weighted: bool) -> Read:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        parts = {name: archive[name] for name in archive.files}
    rows, columns = (int(size) for size in parts["shape"])
    require(rows == columns, "not square")
    found = MATRICES[parts["format"].item().decode() if parts["format"].dtype.kind == "S" else parts["format"].item()]
    return summed([(int(i), int(j), float(v)) for i, j, v in found(parts)], rows, weighted=weighted)


def of_coordinates(parts: dict[str, Any]) -> Any:
    return zip(parts["row"], parts["col"], parts["data"], strict=True)


def of_rows(parts: dict[str, Any]) -> Any:
    starts, data = parts["indptr"], parts["data"]
    for row in range(len(starts) - 1):
        for e in range(starts[row], starts[row + 1]):
            yield row, parts["indices"][e], data[e]


def of_columns(parts: dict[str, Any]) -> Any:
    return ((i, j, value) for j, i, value in of_rows(parts))


def of_blocks(parts: dict[str, Any]) -> Any:
    for row, column, block in of_rows(parts):
        height, width = block.shape
        for (i, j), value in np.ndenumerate(block):
            yield row * height + i, column * width + j, value


def of_diagonals(parts: dict[str, Any]) -> Any:
    """SciPy leaves out what is zero, and what lies outside."""
    rows, columns = parts["shape"]
    for offset, values in zip(parts["offsets"], parts["data"], strict=True):
        for j, value in enumerate(values):
            if 0 <= j - offset < rows and j < columns and value != 0:
                yield j - offset, j, value


MATRICES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "coo": of_coordinates,
    "csr": of_rows,
    "csc": of_columns,
    "bsr": of_blocks,
    "dia": of_diagonals,
}


def read_parquet(content: bytes, *, directed: bool, weighted: bool) -> Read:
    file = pq.ParquetFile(io.BytesIO(content))
    names = file.schema_arrow.names
    require(len(set(names)) == len(names), "two columns of one name")
    used = choose([name.strip() for name in names], len(names), weighted=weighted)
    table = file.read(columns=[names[i] for i in used if i is not None])  # others may be damaged
    source, target, *values = (None if i is None else table.column(names[i]).to_pylist() for i in used)
    require(source, "no edges")
    ends = list(zip(source, target, strict=True))
    flat = [name for pair in ends for name in pair]
    require(all(name is not None for name in flat), "a missing id")
    require(all(type(name) in (int, str) for name in flat), "ids of another kind")
    if all(isinstance(name, int) for name in flat):
        require(all(0 <= name < 2**63 for name in flat), "an id that is no node number")
    else:
        ends = [(str(u), str(v)) for u, v in ends]
    weights = [1.0] * len(ends) if values[0] is None else [float(value) for value in values[0]]
    require(all(map(math.isfinite, weights)), "a weight is not finite")
    return assemble(ends, weights, directed=directed)


class Made:
    """What a pickle makes of a name: its arguments and its state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = {}

    def __setstate__(self, state: Any) -> None:
        self.state = state


KINDS = {"LongStorage": "<i8", "FloatStorage": "<f4", "DoubleStorage": "<f8", "IntStorage": "<i4"}


class Plain(pickle.Unpickler):
    """Tensors of an archive of torch as arrays; names beside those of the table are refused."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}/data.pkl")), encoding="utf-8")
        self.archive, self.folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        known = {"_rebuild_tensor_v2": view, "OrderedDict": OrderedDict, "defaultdict": lambda *_: {}}
        if name in KINDS:
            return KINDS[name]
        require(
            name in known or name in ("Data", "GlobalStorage", "DataEdgeAttr", "DataTensorAttr"), f"{module}.{name}"
        )
        return known.get(name, Made)

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, count = pid
        return np.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), kind)[:count]


def view(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Any:
    places = np.full(size, offset, dtype=np.int64)
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(length) * step).reshape([-1 if i == axis else 1 for i in range(len(size))])
    require(not places.size or (places.min() >= 0 and places.max() < len(storage)), "a tensor outside its storage")
    return storage[places]


def read_torch(content: bytes, *, directed: bool, weighted: bool) -> Read:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            folder = next(name for name in archive.namelist() if name.endswith("/data.pkl")).removesuffix("/data.pkl")
            saved = Plain(archive, folder).load()
    except zipfile.BadZipFile as error:
        # A name or a number that is told twice in an archive and damaged once: torch looks at the other one.
        if "CRC" in str(error):
            raise
        raise CannotTell(str(error)) from error
    if isinstance(saved, tuple):
        graphs = list(cut(*saved[:2]))
    else:
        graphs = [values_of(one) for one in (saved if isinstance(saved, list) else [saved])]
    entries, first = [], 0
    for values in graphs:
        ends = values["edge_index"]
        weight = values.get("edge_weight")
        weight = np.ones(ends.shape[1]) if weight is None else weight.reshape(-1)
        require(ends.min(initial=0) >= 0 and ends.max(initial=-1) < int(values["num_nodes"]), "an edge outside")
        entries += [(int(u) + first, int(v) + first, float(w)) for u, v, w in zip(*ends, weight, strict=True)]
        first += int(values["num_nodes"])
    return summed(entries, first, weighted=weighted)


def values_of(saved: Any) -> dict[str, Any]:
    """The attributes of a graph."""
    if isinstance(saved, dict):
        return saved
    store = saved.state["_store"]
    return dict(store.state["_mapping"])


def cut(joined: Any, slices: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The graphs of a data set."""
    values = values_of(joined)
    edges = slices["edge_index"]
    for g, size in enumerate(values["_num_nodes"]):
        part = slice(int(edges[g]), int(edges[g + 1]))
        weight = values.get("edge_weight")
        own = {"edge_index": values["edge_index"][:, part], "num_nodes": size}
        yield own if weight is None else {**own, "edge_weight": weight[part]}


BINARY_READERS: dict[str, Callable[..., Read]] = {
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".pt": read_torch,
    ".pth": read_torch,
}
