"""A trajectory in a file: what new nodes need, without anything that a reader would have to trust."""

from __future__ import annotations

import json
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.atomic import atomic_files
from rfp.errors import ArgumentError, FileError, RFPError
from rfp.graph import Graph
from rfp.report import Report
from rfp.settings import Settings
from rfp.trajectory.stored_states import States, StoredStates

TRAJECTORY_FORMAT = "rfp trajectory 1"
# NumPy has no bfloat16: its bits are kept as integers, and the settings say what they are.
_AS_BITS = {torch.bfloat16: torch.int16}
_ARRAYS = ("storage", "factors", "edge_index", "keys")


def save_trajectory(trajectory: StoredStates, path: str | Path) -> None:
    """Write a trajectory with its factors and its graph, as an uncompressed ``.npz`` of plain arrays and JSON.

    Args:
        trajectory: From :func:`rfp.encode` or :func:`~rfp.new_nodes.extend`, with named operators, normalisation and
            distribution.
        path: Written whole or not at all.
    """
    settings, graph = trajectory.origin()
    about = {
        "format": TRAJECTORY_FORMAT,
        "drawn": trajectory.drawn,
        "num_nodes": graph.num_nodes,
        "settings": _plain(settings),
    }
    about["report"] = {"backend": trajectory.report.backend, "events": dict(trajectory.report.events)}
    arrays = {"storage": trajectory.storage, "factors": trajectory.factors}
    arrays |= {"edge_index": graph.edge_index, "keys": graph.keys}
    if graph.edge_weight is not None:
        arrays["edge_weight"] = graph.edge_weight
    content = {name: _to_numpy(value) for name, value in arrays.items()}
    content["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with atomic_files([Path(path)]) as (file,):
        np.savez(file, **content)


def load_as(kind: type[States], path: str | Path, device: torch.device | str) -> States:
    """Read what :func:`rfp.new_nodes.save` wrote, as :func:`rfp.new_nodes.load` says.

    Args:
        kind: What is made of it.
        path: The file.
        device: Where the tensors go.
    """
    try:
        content = _read(Path(path))
        trajectory = _from_content(kind, content, device)
    except FileNotFoundError as error:
        raise FileError(f"{path}: no such file") from error
    except (RFPError, OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise FileError(f"{path}: not a trajectory that rfp saved, or damaged ({text}); save it again") from error
    return trajectory


def _plain(settings: Settings) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(Settings):
        value = getattr(settings, field.name)
        named = list(value) if field.name == "operators" else [value]
        if field.name in ("operators", "normalization", "distribution") and not all(isinstance(x, str) for x in named):
            raise ArgumentError(f"{field.name} must be given by name to be saved, got {value!r}")
        values[field.name] = str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else value
    values["cache"] = None  # a folder of the machine it was made on
    return {**values, "operators": list(settings.operators)}


def _to_numpy(values: Tensor) -> Any:
    bits = _AS_BITS.get(values.dtype)
    return (values if bits is None else values.view(bits)).detach().cpu().contiguous().numpy()


def _read(path: Path) -> dict[str, Any]:
    """The arrays of an uncompressed ``.npz``, each no larger than its part of the file says."""
    content = {}
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.compress_type != zipfile.ZIP_STORED or not part.filename.endswith(".npy"):
                raise ValueError(f"{part.filename} is compressed or no array")
            with archive.open(part) as file:
                version = np.lib.format.read_magic(file)
                read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                shape, _, dtype = read_header[version](file)
                if dtype.hasobject or int(np.prod(shape, dtype=object)) * dtype.itemsize > part.file_size:
                    raise ValueError(f"{part.filename} claims more than it holds")
            with archive.open(part) as file:
                content[part.filename.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
    return content


def _from_content(kind: type[States], content: dict[str, Any], device: torch.device | str) -> States:
    about = json.loads(content["about"].tobytes())
    if about["format"] != TRAJECTORY_FORMAT:
        raise ValueError(f"its format is {about['format']!r}, expected {TRAJECTORY_FORMAT!r}")
    settings = Settings(**{**about["settings"], "operators": tuple(about["settings"]["operators"])})
    tensors = {name: torch.from_numpy(content[name]).to(device) for name in _ARRAYS}
    weight = torch.from_numpy(content["edge_weight"]).to(device) if "edge_weight" in content else None
    graph = Graph(tensors["edge_index"], int(about["num_nodes"]), weight).with_keys(tensors["keys"])
    storage = tensors["storage"]
    if settings.kept_dtype in _AS_BITS:
        storage = storage.view(settings.kept_dtype)
    n, b, o, length, k = storage.shape
    expected = (graph.num_nodes, len(settings.operators), settings.num_steps + 1)
    wide = tensors["factors"].shape == (o, length, b, k, k) and tensors["keys"].shape == (1,)
    if (n, o, length) != expected or not wide or not isinstance(about["drawn"], bool):
        raise ValueError("the sizes of its parts do not fit together")
    if storage.dtype != settings.kept_dtype or tensors["factors"].dtype != torch.float64:
        raise ValueError("the types of its parts are not those of its arguments")
    if not all(bool(torch.isfinite(part).all()) for part in (storage, tensors["factors"])):
        raise ValueError("a value is not finite")
    events = {str(name): int(count) for name, count in about["report"]["events"].items()}
    report = Report(str(about["report"]["backend"]), "read from a file", [events])
    return kind(storage, report, settings, graph, about["drawn"], tensors["factors"])
