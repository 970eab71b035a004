"""PyG graphs stored by ``torch.save``: read with ``weights_only=True``, so a file cannot run code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import FileError, GraphError
from rfp.graph import Graph
from rfp.io.options import LoadedGraph, ReadOptions

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
        with torch.serialization.safe_globals(needed):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch.load names no exception type: a pickle, zip or key error may come out
        raise FileError(
            f"{path}: not {_EXPECTED} that can be loaded without running code from the file; save it again as one of "
            "these (a Batch as batch.to_data_list())"
        ) from error


def _as_graph(content: Any, path: Path) -> Graph:
    if isinstance(content, dict):
        return _from_dict(content, path)
    if isinstance(content, tuple) and len(content) in (2, 3) and isinstance(content[1], dict | None):
        return _from_dataset(content, path)
    if isinstance(content, list | tuple):
        return as_graph([_as_graph(one, path) for one in content])
    if getattr(content, "edge_index", None) is None:
        raise GraphError(f"{path} holds {_name(content)}; expected {_EXPECTED}")
    return as_graph(content)


def _from_dict(content: dict[str, Any], path: Path) -> Graph:
    edge_index = content.get("edge_index")
    if not isinstance(edge_index, Tensor):
        raise GraphError(f"{path}: the dict has no tensor edge_index, only {sorted(map(str, content))[:6]}")
    num_nodes, x = content.get("num_nodes"), content.get("x")
    if num_nodes is None and isinstance(x, Tensor):
        num_nodes = len(x)
    if num_nodes is None:
        raise GraphError(f"{path}: the dict needs num_nodes beside edge_index, so that isolated nodes are counted")
    return Graph(edge_index, int(num_nodes), content.get("edge_weight"), content.get("ptr"))


def _from_dataset(content: tuple[Any, ...], path: Path) -> Graph:
    """A processed file of ``InMemoryDataset``: attributes joined over graphs, and where each graph begins."""
    joined, slices = content[0], content[1]
    values = joined if isinstance(joined, dict) else joined.to_dict()
    if slices is None:
        return _from_dict(values, path)
    sizes = values.get("_num_nodes")
    if sizes is None:
        known = next((slices[name] for name in _NODE_ATTRIBUTES if name in slices), None)
        if known is None:
            raise GraphError(
                f"{path}: the number of nodes of each graph is not in the file; save a list of Data instead"
            )
        sizes = known.diff()
    sizes = torch.as_tensor(sizes)
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    shift = torch.repeat_interleave(ptr[:-1], slices["edge_index"].diff())
    return Graph(values["edge_index"] + shift, int(ptr[-1]), values.get("edge_weight"), ptr)


def _name(content: Any) -> str:
    return f"a {type(content).__name__}"
