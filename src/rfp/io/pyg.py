"""PyG graphs stored by ``torch.save``: read with ``weights_only=True``, so a file cannot run code."""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import FileError, GraphError
from rfp.graph import Graph
from rfp.io.options import LoadedGraph, ReadOptions
from rfp.ragged import join

_EXPECTED = "a Data, a list of Data, a PyG dataset's processed file, or a dict {edge_index, num_nodes, edge_weight}"
# Attributes with one row for each node, from which a data set's graph sizes can be read.
_NODE_ATTRIBUTES = ("x", "z", "pos", "node_species", "batch")


def read_pyg(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read a graph, or a list of graphs as one batch; ``edge_weight`` is used where present, ``edge_attr`` never."""
    try:
        graph = _as_graph(load_pyg_file(path), path)
    except GraphError as error:
        raise error if str(error).startswith(str(path)) else GraphError(f"{path}: {error}") from error
    if options.num_nodes not in (None, graph.num_nodes):
        raise GraphError(f"{path} has {graph.num_nodes} nodes, but --num-nodes is {options.num_nodes}; leave it out")
    if options.unweighted:
        graph = Graph(graph.edge_index, graph.num_nodes, None, graph.ptr)
    directed = options.directed is not False
    return LoadedGraph(
        graph=graph if directed else graph.to_undirected(),
        directed=directed,
        weights=None if graph.edge_weight is None else "edge_weight",
    )


def load_pyg_file(path: Path) -> Any:
    """What ``torch.save`` put into a file, if that is tensors and PyG graphs in plain containers."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        # Plain containers of tensors; their constructors do nothing else. Those that PyG has registered itself must not
        # be named again: the context would take them off the list when it ends.
        registered = torch.serialization.get_safe_globals()
        needed = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in registered]
        _check_sums(path)
        _check_names(path)
        with torch.serialization.safe_globals(needed):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch.load names no exception type: a pickle, zip or key error may come out
        raise FileError(
            f"{path}: not {_EXPECTED} that can be loaded without running code from the file; save it again as one of "
            "these (a Batch as batch.to_data_list())"
        ) from error


def _check_sums(path: Path) -> None:
    """Raise unless every part of the archive has its checksum: torch does not look at all of them."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} is damaged")


# Names of classes are short. Torch looks through a name it refuses with a pattern that takes time by the square of it.
_LONGEST_NAME = 1000
# Before zip archives torch.save wrote a number, its version, the machine, the object and the keys of its tensors.
_PICKLES_OF_OLD_FILES = 5


def _check_names(path: Path) -> None:
    """Raise if a pickle names a class by an endless text; nothing is loaded."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            pickles = [archive.read(part) for part in archive.namelist() if part.endswith("data.pkl")]
    else:
        pickles = [path.read_bytes()]
    for content in pickles:
        if re.search(rb"\S{%d}" % _LONGEST_NAME, content) is None:
            continue  # what all others have, and quicker seen than each of their operations
        stream = io.BytesIO(content)
        for _number in range(_PICKLES_OF_OLD_FILES):
            longest = 0
            try:
                for code, value, _ in pickletools.genops(stream):
                    longest = max(longest, len(value or "")) if code.name in ("GLOBAL", "INST") else longest
            except Exception:  # not a pickle, or the tensors behind them: that is for torch to say
                break
            if longest > _LONGEST_NAME:
                raise ValueError("the name of a class is endless")


def _as_graph(content: Any, path: Path) -> Graph:
    if isinstance(content, dict):
        return _from_values(content, path)
    if isinstance(content, tuple) and len(content) in (2, 3) and isinstance(content[1], dict | None):
        return _from_dataset(content, path)
    if isinstance(content, list | tuple):
        return as_graph([_as_graph(one, path) for one in content])
    if getattr(content, "edge_index", None) is None:
        raise GraphError(f"{path} holds a {type(content).__name__}; expected {_EXPECTED}")
    try:
        values = {**content.to_dict(), "num_nodes": content.num_nodes}
    except Exception as error:  # a Data can be given any attributes, and infers its size from some of them
        raise GraphError(
            f"{path}: its Data cannot say how many nodes it has; set num_nodes and save it again"
        ) from error
    return _from_values(values, path)


def _from_values(values: Mapping[str, Any], path: Path) -> Graph:
    """One graph, or a batch with ``ptr``, from named tensors; each is checked before it is used."""
    if not isinstance(values.get("edge_index"), Tensor):
        raise GraphError(f"{path}: there is no tensor edge_index, only {sorted(map(str, values))[:6]}")
    num_nodes, x, ptr = values.get("num_nodes"), values.get("x"), values.get("ptr")
    if num_nodes is None and isinstance(x, Tensor) and x.dim():
        num_nodes = len(x)
    if num_nodes is None:
        raise GraphError(f"{path}: num_nodes is needed beside edge_index, so that isolated nodes are counted")
    return Graph(
        _integers(values["edge_index"], "edge_index", path),
        _integer(num_nodes, "num_nodes", path),
        _weights(values.get("edge_weight"), path),
        None if ptr is None else _integers(ptr, "ptr", path),
    )


def _from_dataset(content: tuple[Any, ...], path: Path) -> Graph:
    """A processed file of ``InMemoryDataset``: attributes joined over graphs, and where each graph begins."""
    joined, slices = content[0], content[1]
    values = joined if isinstance(joined, dict) else joined.to_dict() if hasattr(joined, "to_dict") else None
    if not isinstance(values, dict):
        raise GraphError(f"{path} holds a {type(joined).__name__}; expected {_EXPECTED}")
    if slices is None:
        return _from_values(values, path)
    sizes = values.get("_num_nodes")
    if sizes is None:
        known = next((name for name in _NODE_ATTRIBUTES if name in slices), None)
        if known is None:
            raise GraphError(
                f"{path}: the number of nodes of each graph is not in the file; save a list of Data instead"
            )
        sizes = _integers(slices[known], f"slices of {known}", path).diff()
    sizes = _integers(sizes, "the numbers of nodes", path)
    if sizes.dim() != 1 or bool((sizes < 0).any()):
        raise GraphError(f"{path}: the numbers of nodes must not be negative, got {sizes.flatten().tolist()[:4]}...")
    edge_index = _integers(values.get("edge_index"), "edge_index", path)
    cuts = _integers(slices.get("edge_index"), "slices of edge_index", path)
    whole = (
        cuts.shape == (len(sizes) + 1,) and edge_index.dim() == 2 and cuts[[0, -1]].tolist() == [0, edge_index.size(1)]
    )
    if not whole or bool((cuts.diff() < 0).any()):
        first = cuts.flatten().tolist()[:4]
        raise GraphError(f"{path}: the slices of edge_index must cut it into {len(sizes)} graphs, got {first}...")
    edge_index, ptr = join(edge_index, sizes, cuts.diff())
    return Graph(edge_index, int(ptr[-1]), _weights(values.get("edge_weight"), path), ptr)


def _integers(value: Any, name: str, path: Path) -> Tensor:
    """An int64 tensor in memory, from a tensor or a list of integers."""
    try:
        tensor = torch.as_tensor(value)
        kind = tensor.dtype
        if kind.is_floating_point or kind.is_complex or kind == torch.bool or tensor.layout != torch.strided:
            raise TypeError(f"got {kind}, {tensor.layout}")
        return tensor.long()
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(f"{path}: {name} must be a plain tensor of integers ({error})") from error


def _integer(value: Any, name: str, path: Path) -> int:
    tensor = _integers(value, name, path)
    if tensor.numel() != 1:
        raise GraphError(f"{path}: {name} must be one integer, got shape {list(tensor.shape)}")
    return int(tensor)


def _weights(value: Any, path: Path) -> Tensor | None:
    if value is None:
        return None
    if not isinstance(value, Tensor) or value.is_complex() or value.layout != torch.strided or value.is_quantized:
        raise GraphError(f"{path}: edge_weight must be a plain tensor of real numbers, got {_kind(value)}")
    return value.squeeze(1) if value.dim() == 2 and value.size(1) == 1 else value


def _kind(value: Any) -> str:
    return f"{value.dtype}, {value.layout}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
