"""What a file job computes and writes, an encoding or FastRP's embedding: its sizes, its columns, its rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rfp.backends.reference import REFERENCE
from rfp.baselines.fastrp import FastRP, fast_random_projection
from rfp.encode import encode_steps
from rfp.errors import FileError
from rfp.graph import Graph
from rfp.io.metadata import arguments, describe_output
from rfp.report import Report
from rfp.settings import Settings
from rfp.trajectory import kept_steps

# Decompositions, and multiplications in them (n k² for each), up to which a new process is done by the plain loop
# before it would have loaded Numba: some tenths of a second.
ALONE_MAX_DECOMPOSITIONS, ALONE_MAX_WORK = 512, 10**8
_NO_NUMBA = "a small graph in a new process, which would take longer to load Numba"


class Contents(Protocol):
    """What a file will hold."""

    @property
    def settings(self) -> Settings:
        """The arguments of what is computed: they give its sizes."""
        ...

    @property
    def kept(self) -> list[int]:
        """The steps that are written, ascending; raises if there are no such steps."""
        ...

    def describe(self, num_nodes: int, output: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Every argument; and shape, type and columns of the array: JSON values."""
        ...

    def rows(self, graph: Graph, done: Callable[[int], None]) -> tuple[Tensor, Report]:
        """What is written, ``[n, C]`` or ``[n, B, C]`` on the CPU, and what ran; ``done`` is told of steps."""
        ...


@dataclass(frozen=True)
class EncodingContents:
    """The steps of an encoding that are kept; only these are held.

    Args:
        settings: The arguments of the encoding.
        keep: Which steps are written: ``"all"``, ``"last"`` or a list of them.
    """

    settings: Settings
    keep: str | tuple[int, ...] = "all"

    @property
    def kept(self) -> list[int]:
        return sorted(kept_steps(self.keep, self.settings.num_steps))

    def describe(self, num_nodes: int, output: str) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.keep == "all":
            return arguments(self.settings), describe_output(self.settings, num_nodes, output)
        about = {**arguments(self.settings), "steps_kept": self.kept}
        return about, describe_output(self.settings, num_nodes, output, self.kept)

    def rows(self, graph: Graph, done: Callable[[int], None]) -> tuple[Tensor, Report]:
        alone = (REFERENCE, _NO_NUMBA) if _done_before_numba_is_loaded(self.settings, graph) else None
        rows, report = encode_steps(graph, self.settings, self.kept, chosen=alone, progress=done)
        return (rows[:, 0] if rows.size(1) == 1 else rows).cpu(), report


def _done_before_numba_is_loaded(settings: Settings, graph: Graph) -> bool:
    """Whether the plain loop, which defines the result, takes less time here than a new process takes for Numba."""
    if settings.backend != "auto" or settings.cache is not None or graph.device.type != "cpu" or "numba" in sys.modules:
        return False
    runs = settings.num_steps * len(settings.operators) * settings.num_trajectories
    work = graph.num_nodes * settings.num_channels**2 * runs
    return graph.num_graphs * runs <= ALONE_MAX_DECOMPOSITIONS and work <= ALONE_MAX_WORK


@dataclass(frozen=True)
class FastRPContents:
    """The embedding by FastRP: the weighted sum of its steps, as wide as one of them.

    Args:
        parameters: Those of FastRP.
        types: Settings of which only the types of numbers count.
        node_features: ``.npy`` file ``[n, d]`` that it starts from, a row for each node in the order of the result.
    """

    parameters: FastRP
    types: Settings
    node_features: str | None = None

    @property
    def settings(self) -> Settings:
        return Settings(
            num_channels=self.parameters.embedding_dimension,
            num_steps=len(self.parameters.iteration_weights),
            operators=("random_walk",),
            normalization="none",
            seed=self.parameters.seed,
            dtype=self.types.dtype,
            storage_dtype=self.types.storage_dtype,
        )

    @property
    def kept(self) -> list[int]:
        return [self.settings.num_steps]

    def describe(self, num_nodes: int, output: str) -> tuple[dict[str, Any], dict[str, Any]]:
        types, array = arguments(self.settings), describe_output(self.settings, num_nodes, output, self.kept)
        parameters = {**asdict(self.parameters), "iteration_weights": list(self.parameters.iteration_weights)}
        about = {"preset": "fastrp", **parameters, "node_features": self.node_features}
        size = self.parameters.embedding_dimension
        array["layout"] = [{"operator": "fastrp", "step": "weighted sum", "start": 0, "stop": size}]
        return {**about, "dtype": types["dtype"], "storage_dtype": types["storage_dtype"]}, array

    def rows(self, graph: Graph, done: Callable[[int], None]) -> tuple[Tensor, Report]:
        x = None if self.node_features is None else _read_features(self.node_features, graph.num_nodes)
        rows = fast_random_projection(graph, self.parameters, x=x, dtype=self.types.dtype, progress=done)
        return rows.to("cpu", self.types.kept_dtype), Report("fastrp", "the preset")


def _read_features(path: str, num_nodes: int) -> Tensor:
    try:
        values = np.load(path, allow_pickle=False)
        x = torch.from_numpy(np.asarray(values, dtype=np.float64))
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise FileError(f"{path}: not an .npy file of numbers ({error})") from error
    if x.dim() not in (1, 2) or len(x) != num_nodes:
        raise FileError(f"{path}: must have a row for each of the {num_nodes} nodes, got shape {list(x.shape)}")
    return x
