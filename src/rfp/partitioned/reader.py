"""Reading a partitioned encoding: steps, rows of nodes, a trajectory of what fits, and files for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.atomic import atomic_files
from rfp.errors import ArgumentError, FileError, MissingExtraError
from rfp.io.writers import write_parquet_blocks
from rfp.partitioned.checked_files import DamagedFileError, load_array
from rfp.partitioned.layout import Layout, Manifest, panels, step_name
from rfp.trajectory import Report, Trajectory

Array = NDArray[Any]


@dataclass(frozen=True)
class PartitionedEncoding:
    """A folder that :func:`rfp.partitioned.encode` wrote; see :mod:`rfp.partitioned.layout` for what lies where.

    Args:
        folder: The folder.
        manifest: What it says of itself.
    """

    folder: Path
    manifest: Manifest

    @property
    def layout(self) -> Layout:
        return Layout(self.folder)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the encoding, as plain values."""
        if self.manifest.arguments is None:
            raise FileError(f"{self.folder} holds a graph but no encoding yet; run the command that made it again")
        return self.manifest.arguments

    @property
    def num_nodes(self) -> int:
        return self.manifest.graph.num_nodes

    @property
    def num_steps(self) -> int:
        return int(self.arguments["num_steps"])

    @property
    def operators(self) -> list[str]:
        return list(self.arguments["operators"])

    @property
    def complete(self) -> bool:
        """Whether every step is there."""
        return all(
            step_name(o, p) in self.manifest.finished
            for o in range(len(self.operators))
            for p in range(self.num_steps + 1)
        )

    @property
    def report(self) -> Report:
        """What happened on the way, over all steps."""
        reason = f"{self.manifest.graph.num_blocks} row blocks in {self.folder}"
        return Report("partitioned", reason, list(self.manifest.finished.values()))

    def node_ids(self) -> Array | None:
        """The name of each node, or ``None`` where they are 0 to n - 1.

        Raises:
            DamagedFileError: The file of the names is not what was written.
        """
        if not self.layout.named():
            return None
        try:
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtraError("pyarrow", "cli", "reading node ids") from error
        ids: Array = pq.read_table(self.layout.node_ids_file)["id"].to_numpy()
        return ids

    def blocks(self, step: int, operator: int = 0) -> Iterator[Array]:
        """The row blocks of a step one after the other, each ``[rows, B, k]``; one is in memory."""
        for block in range(self.manifest.graph.num_blocks):
            yield self._block(step, operator, block)

    def _block(self, step: int, operator: int, block: int) -> Array:
        name = self._name(step, operator)
        number = len(panels(int(self.arguments["num_channels"]), self.manifest.panel))
        try:
            parts = [load_array(self.layout.block_file(name, panel, block)) for panel in range(number)]
        except DamagedFileError as damage:
            raise DamagedFileError(
                damage.path, f"{damage.what}; the command that made the folder computes it again"
            ) from damage
        return np.concatenate(parts, axis=2)

    def _name(self, asked: int, operator: int) -> str:
        step = asked + self.num_steps + 1 if asked < 0 else asked
        if not 0 <= step <= self.num_steps or not 0 <= operator < len(self.operators):
            raise ArgumentError(
                f"there is no step {asked} of operator {operator}: the encoding has steps 0 to {self.num_steps} "
                f"of operators 0 to {len(self.operators) - 1}"
            )
        name = step_name(operator, step)
        if name not in self.manifest.finished:
            raise FileError(f"step {step} of {self.operators[operator]} is not finished; run the same command again")
        return name

    def step(self, step: int, operator: int = 0) -> torch.Tensor:
        """A whole step, ``[B, n, k]``: O(n k B) memory. -1 is the last."""
        whole = np.concatenate(list(self.blocks(step, operator)), axis=0)
        return torch.from_numpy(whole).transpose(0, 1)

    def rows(self, nodes: Any) -> torch.Tensor:
        """The whole encoding of some nodes, ``[len(nodes), B, O, P + 1, k]``, reading only the blocks they are in.

        Args:
            nodes: Node numbers, in any order.
        """
        given = np.asarray(nodes).reshape(-1)
        if len(given) and given.dtype.kind not in "iu":  # a mask would be read as nodes 0 and 1
            raise ArgumentError(f"nodes must be integers, got {given.dtype}; those of a mask are np.flatnonzero(mask)")
        wanted = given.astype(np.int64)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= self.num_nodes):
            raise ArgumentError(f"nodes must be 0 to {self.num_nodes - 1}, got {wanted.min()} to {wanted.max()}")
        cuts = np.asarray(self.manifest.graph.cuts)
        owner = np.searchsorted(cuts, wanted, side="right") - 1
        k, b = int(self.arguments["num_channels"]), int(self.arguments["num_trajectories"])
        shape = (len(wanted), b, len(self.operators), self.num_steps + 1, k)
        out = np.zeros(shape, dtype=self.arguments["dtype"])
        for block in np.unique(owner):
            here = owner == block
            for o in range(len(self.operators)):
                for p in range(self.num_steps + 1):
                    out[here, :, o, p] = self._block(p, o, int(block))[wanted[here] - cuts[block]]
        return torch.from_numpy(out)

    def trajectory(self) -> Trajectory:
        """All of it in memory, as :func:`rfp.encode` returns it: O(n O (P + 1) k B)."""
        return Trajectory(self.rows(np.arange(self.num_nodes)), self.report)

    def export(
        self, path: str | Path, tick: Callable[[int], None] = lambda blocks: None, *, metadata: str = ""
    ) -> None:
        """Write all of it as one ``.npy`` or ``.parquet`` file, block by block, in the layout of :mod:`rfp.io.writers`.

        Args:
            path: With the suffix ``.npy`` or ``.parquet``.
            tick: Called with 1 after each block of rows.
            metadata: JSON text that a Parquet file holds under the key ``rfp``.
        """
        path = Path(path)
        writers: dict[str, Callable[[Any, Callable[[int], None]], None]] = {
            ".npy": self._export_npy,
            ".parquet": partial(self._export_parquet, metadata=metadata),
        }
        if path.suffix.lower() not in writers:
            raise ArgumentError(f"{path}: export writes .npy or .parquet")
        with atomic_files([path]) as files:
            writers[path.suffix.lower()](files[0], tick)

    def _row_blocks(self) -> Iterator[Array]:
        cuts = self.manifest.graph.cuts
        for low, high in pairwise(cuts):
            rows = self.rows(np.arange(low, high)).numpy()
            yield rows.reshape(high - low, rows.shape[1], -1)

    def _export_npy(self, file: Any, tick: Callable[[int], None]) -> None:
        first = next(self._row_blocks())
        several = first.shape[1] > 1
        shape = (self.num_nodes, *(first.shape[1:] if several else first.shape[2:]))
        header: Any = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for rows in self._row_blocks():
            file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)
            tick(1)

    def _export_parquet(self, file: Any, tick: Callable[[int], None], metadata: str) -> None:
        ids = self.node_ids()

        def blocks() -> Iterator[tuple[Array, Array]]:
            low = 0
            for rows in self._row_blocks():
                high = low + len(rows)
                yield np.arange(low, high) if ids is None else ids[low:high], rows
                tick(1)
                low = high

        write_parquet_blocks(file, blocks(), metadata)


def open_encoding(folder: str | Path) -> PartitionedEncoding:
    """Open a folder for reading."""
    layout = Layout(Path(folder))
    return PartitionedEncoding(layout.folder, layout.read_manifest())
