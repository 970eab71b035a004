"""Any PyG data set class, by its import path, as a task."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Dataset

from rfp.data.data_config import DataConfig
from rfp.data.loaded import LoadedTask
from rfp.data.pyg_graphs import task_from_graphs
from rfp.data.splits import masks_of_consecutive, masks_of_rows
from rfp.data.tasks import PARTS
from rfp.errors import ArgumentError, FileError


def load_class(config: DataConfig, folder: Path) -> LoadedTask:
    """Make the data set and read its graphs.

    The class is the caller's choice: importing it and building the data set runs its code and, in most classes, reads
    pickles as they are.

    Args:
        config: ``dataset_class``, ``args`` and, for classes that load one part at a time, ``parts``.
        folder: Where the data set goes if ``args`` name no ``root``.
    """
    path = str(config.dataset_class)
    dataset_class = import_class(path)
    if config.parts:
        lists = [list(_make(dataset_class, path, {**config.args, **config.parts[part]}, folder)) for part in PARTS]
        joined = [graph for graphs in lists for graph in graphs]
        by_part = masks_of_consecutive([len(graphs) for graphs in lists])
        return task_from_graphs(joined, config, dataset_class.__name__, path, by_part)
    dataset = _make(dataset_class, path, config.args, folder)
    graphs = list(dataset)
    masks: dict[str, Tensor] | None = None
    if hasattr(dataset, "get_idx_split"):  # of OGB: over nodes if there is one graph
        rows = graphs[0].num_nodes if len(graphs) == 1 else len(graphs)
        published = _published_split(dataset, path, rows)
        if len(graphs) == 1:
            graphs[0].update({f"{part}_mask": mask for part, mask in published.items()})
        else:
            masks = published
    return task_from_graphs(graphs, config, _name(dataset), path, masks)


def import_class(path: str) -> type[Any]:
    """The class with this import path, if it is a PyG data set.

    Example:
        >>> import_class("torch_geometric.datasets.KarateClub").__name__
        'KarateClub'
        >>> import_class("os.system")
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: class 'os.system' must be a subclass of torch_geometric.data.Dataset, got a \
builtin_function_or_method
    """
    module_name, _, name = path.rpartition(".")
    if not module_name:
        raise ArgumentError(f"class must be an import path such as torch_geometric.datasets.TUDataset, got {path!r}")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError(f"class {path!r} cannot be imported ({error}); is its package installed?") from error
    if not isinstance(found, type) or not issubclass(found, Dataset):
        got = found.__name__ if isinstance(found, type) else f"a {type(found).__name__}"
        raise ArgumentError(f"class {path!r} must be a subclass of torch_geometric.data.Dataset, got {got}")
    return found


def _make(dataset_class: type[Any], path: str, args: Mapping[str, Any], folder: Path) -> Any:
    signature = inspect.signature(dataset_class)
    args = dict(args)
    if "root" in signature.parameters and "root" not in args:
        args["root"] = str(folder / dataset_class.__name__)
    try:
        signature.bind(**args)
    except TypeError as error:
        known = ", ".join(signature.parameters)
        raise ArgumentError(f"args of {path}: {error}; it takes {known}") from error
    try:
        return dataset_class(**args)
    except Exception as error:  # of any class: the cause is named
        raise FileError(f"{path} could not be made with {args} ({type(error).__name__}: {error})") from error


def _name(dataset: Any) -> str:
    name = getattr(dataset, "name", None)
    return name if isinstance(name, str) else type(dataset).__name__


def _published_split(dataset: Any, path: str, count: int) -> dict[str, Tensor]:
    rows = dataset.get_idx_split()
    return masks_of_rows({"train": rows["train"], "val": rows["valid"], "test": rows["test"]}, count, path)
