"""A file of PyG graphs, saved with ``torch.save``, as a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch_geometric.data import Data
from torch_geometric.data.separate import separate

from rfp.data.data_config import DataConfig
from rfp.data.loaded import LoadedTask
from rfp.data.pyg_graphs import task_from_graphs
from rfp.data.splits import masks_of_consecutive
from rfp.data.tasks import PARTS
from rfp.errors import FileError
from rfp.io.pyg import load_pyg_file

_EXPECTED = "a Data, a list of Data, a dict {train: [...], val: [...], test: [...]} of such lists, or a processed file"


def load_file(path: Path, config: DataConfig) -> LoadedTask:
    """Read one graph, a list, a dict of the lists of each part, or the processed file of a PyG data set.

    Loaded with ``weights_only=True``: a file cannot run code.
    """
    content = load_pyg_file(path)
    name = path.stem
    if isinstance(content, dict) and set(content) == set(PARTS):
        lists = [_graphs(content[part], path) for part in PARTS]
        masks = masks_of_consecutive([len(graphs) for graphs in lists])
        return task_from_graphs([graph for graphs in lists for graph in graphs], config, name, str(path), masks)
    return task_from_graphs(_graphs(content, path), config, name, str(path))


def _graphs(content: Any, path: Path) -> list[Any]:
    if isinstance(content, Data):
        return [content]
    if isinstance(content, tuple) and len(content) in (2, 3) and isinstance(content[1], dict | None):
        return _separated(content)
    if isinstance(content, list | tuple) and all(isinstance(graph, Data) for graph in content):
        return list(content)
    raise FileError(f"{path} holds {_describe(content)}; expected {_EXPECTED}")


def _separated(content: tuple[Any, ...]) -> list[Any]:
    """The graphs of a processed file of ``InMemoryDataset``: attributes joined over graphs, and where each begins."""
    joined, slices = content[0], content[1]
    data = Data.from_dict(joined) if isinstance(joined, dict) else joined
    if slices is None:
        return [data]
    count = len(next(iter(slices.values()))) - 1
    return [separate(cls=Data, batch=data, idx=i, slice_dict=slices, decrement=False) for i in range(count)]


def _describe(content: Any) -> str:
    if isinstance(content, list | tuple) and content:
        return f"a list of {type(content[0]).__name__}"
    return f"a {type(content).__name__}" + (
        f" with the keys {sorted(map(str, content))}" if isinstance(content, dict) else ""
    )
