r"""The folder of a partitioned encoding: what lies where, and the manifest that says what it is.

::

    FOLDER/
      manifest.json                       arguments, graph and its hash, row cuts, panels, steps done
                                          and the files of their factors, versions
      graph/
        block-00000.crow.npy              [rows + 1] int64: where the entries of each row of the block begin
        block-00000.col.npy               [entries] int32 (int64 above 2^31 nodes), ascending in each row
        block-00000.value.npy             [entries] uint8 where every weight is 1, else float64
        row_sums.npy col_sums.npy         [n] float64: sums of |weights|; col_sums only if the matrix is not symmetric
        loops.npy                         [n] bool: which nodes have a self-loop
        node_ids.parquet                  the name of each node, unless they are 0 to n - 1
        operator-0.block-00000.npy        [entries] values of the first operator on the entries of the block
      graph-T/ graph-sym/                 the same blocks of the transposed or symmetrised matrix, where an operator of
                                          a directed graph needs it
      states/start/                       step 0, which all operators share
      states/0/0001/                      step 1 of the first operator
        panel-000.block-00000.npy         [rows, B, channels of the panel]
        factor-0.npy                      [B, k, k] float64: the state is S a times these, in order ([B, k]: diagonal)
        vectors.npy                       [blocks, B, k, k] float64, rarely: what Q of each block was multiplied by
        lengths.npy                       [p, B, k] float64: lengths of the columns of S a

Every ``.npy`` is plain; beside it stands its checksum (:mod:`rfp.partitioned.checked_files`). Each row of the graph
holds its diagonal entry, zero where there is no self-loop. A step whose number is in the manifest is finished: it is
result and checkpoint in one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rfp.errors import FileError
from rfp.partitioned.checked_files import DamagedFileError, check_sum, sync

STORE_FORMAT = "rfp-partitioned-1"
# The matrices of a graph that operators are made of: A itself, its transpose, and that of the undirected graph.
SIDES = ("", "T", "sym")


@dataclass(frozen=True)
class StoredGraph:
    """What the manifest says of the graph.

    Args:
        num_nodes: n.
        num_entries: Stored entries, those of the diagonal included.
        num_edges: Entries that are edges.
        key: :attr:`rfp.Graph.keys` of the same graph in memory; random features are drawn from it.
        weighted: Whether entries carry a value; if not each edge counts 1.
        symmetric: Whether the matrix equals its transpose.
        cuts: First row of each block, and n.
        source: What it was made from, by name, length and time of its last change.
        weights: :func:`rfp.partitioned.row_blocks.hash_of_weights`, which the key leaves out; ``None`` in folders of
            earlier versions.
    """

    num_nodes: int
    num_entries: int
    num_edges: int
    key: int
    weighted: bool
    symmetric: bool
    cuts: tuple[int, ...]
    source: dict[str, Any] = field(default_factory=dict, hash=False)
    weights: int | None = None

    @property
    def num_blocks(self) -> int:
        return len(self.cuts) - 1

    def rows(self, block: int) -> slice:
        """The nodes of a block."""
        return slice(self.cuts[block], self.cuts[block + 1])


@dataclass(frozen=True)
class Manifest:
    """All that a reader of the folder needs to know.

    Args:
        graph: The graph.
        arguments: The fields of :class:`rfp.settings.Settings`, as plain values; ``None`` before an encoding begins.
        panel: Channels of a panel; the last one may have fewer.
        finished: Steps that are done, ``"start"`` or ``"operator/step"``, with the events of each.
        factors: The files under ``states`` of what each was multiplied by, in order: k x k matrices.
        versions: Versions of what wrote the folder.
        format: Version of the folder's format.
    """

    graph: StoredGraph
    arguments: dict[str, Any] | None = None
    panel: int = 0
    finished: dict[str, dict[str, int]] = field(default_factory=dict)
    factors: dict[str, list[str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    format: str = STORE_FORMAT

    def with_step(self, name: str, events: dict[str, int], factors: list[str]) -> Manifest:
        """The manifest after one more step."""
        return replace(self, finished={**self.finished, name: events}, factors={**self.factors, name: factors})


@dataclass(frozen=True)
class Layout:
    """Where things lie in a folder."""

    folder: Path

    @property
    def manifest_file(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def node_ids_file(self) -> Path:
        return self.folder / "graph" / "node_ids.parquet"

    def graph_folder(self, side: str = "") -> Path:
        """The folder of one of the :data:`SIDES`."""
        return self.folder / (f"graph-{side}" if side else "graph")

    def loops_file(self, side: str = "") -> Path:
        return self.graph_folder(side) / "loops.npy"

    def sums_file(self, axis: str, side: str = "") -> Path:
        """Sums of absolute weights over ``"row"`` or ``"col"``."""
        return self.graph_folder(side) / f"{axis}_sums.npy"

    def operator_file(self, operator: int, block: int) -> Path:
        """Values of an operator on the entries of a block."""
        return self.folder / "graph" / f"operator-{operator}.block-{block:05d}.npy"

    def graph_file(self, block: int, part: str, side: str = "") -> Path:
        return self.graph_folder(side) / f"block-{block:05d}.{part}.npy"

    def state(self, name: str) -> Path:
        """The folder of a state: ``"start"``, ``"0/3"`` (step 3 of the first operator), or one on the way to it."""
        operator, *rest = name.split("/")
        return self.folder / "states" / Path(operator, *(f"{int(p):04d}" if p.isdigit() else p for p in rest))

    def block_file(self, name: str, panel: int, block: int) -> Path:
        return self.state(name) / f"panel-{panel:03d}.block-{block:05d}.npy"

    def factor_file(self, name: str, number: int) -> Path:
        return self.state(name) / f"factor-{number}.npy"

    def vectors_file(self, name: str) -> Path:
        """What the orthonormal basis of each block was multiplied by, where Gram matrices could not serve."""
        return self.state(name) / "vectors.npy"

    def factor_files(self, name: str) -> list[str]:
        """What a finished state was multiplied by, in order, as paths under ``states``."""
        there = sorted(self.state(name).glob("factor-*.npy")) + sorted(self.state(name).glob("vectors.npy"))
        return [path.relative_to(self.folder / "states").as_posix() for path in there]

    def lengths_file(self, name: str) -> Path:
        """Lengths of the columns of the product, ``[p, B, k]``, before it was normalised."""
        return self.state(name) / "lengths.npy"

    def locate(self, path: Path) -> tuple[str, int] | None:
        """The state and the block of a file that can be computed again; ``""`` for the values of an operator."""
        block = re.fullmatch(r"(panel-\d+|operator-\d+)\.block-(\d+)\.npy", path.name)
        if block is None:
            return None
        if block[1].startswith("operator"):
            return "", int(block[2])
        name = path.parent.relative_to(self.folder / "states")
        return "/".join(str(int(part)) if part.isdigit() else part for part in name.parts), int(block[2])

    def named(self) -> bool:
        """Whether nodes have other names than 0 to n - 1, in a file that is what was written.

        Raises:
            DamagedFileError: It is not.
        """
        try:  # folders of earlier versions have no checksum of it
            return check_sum(self.node_ids_file) or self.node_ids_file.exists()
        except DamagedFileError as damage:
            raise DamagedFileError(damage.path, f"{damage.what}; {self.how_to_begin_anew}") from damage

    @property
    def how_to_begin_anew(self) -> str:
        """What to do where something is damaged that only the preparation makes, in words."""
        return f"nothing here can make it again: remove {self.folder} and run the command once more"

    def read_manifest(self) -> Manifest:
        """The manifest.

        Raises:
            FileError: There is none, or it is of another format.
        """
        try:
            values = json.loads(self.manifest_file.read_text())
        except FileNotFoundError as error:
            raise FileError(f"{self.folder} is no partitioned encoding: it has no manifest.json") from error
        except (OSError, ValueError) as error:
            raise FileError(f"{self.manifest_file}: cannot be read ({error})") from error
        try:
            if values["format"] != STORE_FORMAT:
                raise FileError(
                    f"{self.manifest_file}: format {values['format']!r}, this version reads {STORE_FORMAT!r}"
                )
            graph = StoredGraph(**values.pop("graph"))
            manifest = Manifest(replace(graph, cuts=tuple(graph.cuts)), **values)
        except (KeyError, TypeError, AttributeError) as error:
            raise FileError(f"{self.manifest_file}: not a manifest of this format ({error})") from error
        if damage := _damage(manifest):
            raise FileError(
                f"{self.manifest_file} is damaged: {damage}; choose a new folder, or begin this one anew (rfp encode "
                "--no-resume)"
            )
        return manifest

    def write_manifest(self, manifest: Manifest, new: Path) -> None:
        """Replace the manifest in one go, once what is new in it is on the disk: the files of this folder."""
        sync(new)
        part = self.manifest_file.with_name(f".manifest.json.{os.getpid()}.part")
        with open(part, "w") as file:
            json.dump(asdict(manifest), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.manifest_file)


# What the arguments of an encoding are in the manifest.
_WHOLE = ("num_channels", "num_steps", "normalize_every", "num_trajectories", "seed")
_TEXT = ("normalization", "distribution", "start", "dtype")


def _damage(manifest: Manifest) -> str:
    """What cannot be of a manifest whose format is right, such as one that was edited; empty if nothing is."""
    graph, arguments = manifest.graph, manifest.arguments
    sizes = {name: getattr(graph, name) for name in ("num_nodes", "num_entries", "num_edges")}
    for name, value in {**sizes, "panel": manifest.panel}.items():
        if not _is_count(value):
            return f"{name} is {value!r}"
    if not _is_count(abs(graph.key) if isinstance(graph.key, int) else None):
        return f"the graph's key is {graph.key!r}"
    for name in ("weighted", "symmetric"):
        if not isinstance(getattr(graph, name), bool):
            return f"{name} is {getattr(graph, name)!r}"
    cuts = graph.cuts
    ascending = all(_is_count(cut) for cut in cuts) and all(low < high for low, high in pairwise(cuts))
    if len(cuts) < 2 or not (ascending or graph.num_nodes == 0) or (cuts[0], cuts[-1]) != (0, graph.num_nodes):
        return f"its row blocks do not divide {graph.num_nodes} nodes"
    if not isinstance(graph.source, dict) or not isinstance(graph.source.get("options", {}), dict):
        return "it does not say what the graph was made from"
    if arguments is not None:
        wrong = _wrong_argument(arguments)
        if wrong or manifest.panel < 1:
            return wrong or f"panel is {manifest.panel!r}"
    finished, factors = manifest.finished, manifest.factors
    if not isinstance(finished, dict) or not all(isinstance(events, dict) for events in finished.values()):
        return "it does not say which steps are finished"
    if not isinstance(factors, dict) or not all(isinstance(factors.get(step), list) for step in finished):
        return "it does not name the factors of every finished step"
    inside = re.compile(r"(\w[\w-]*/)*\w[\w.-]*\.npy")
    for file in (file for files in factors.values() for file in files):
        if not isinstance(file, str) or not inside.fullmatch(file):
            return f"a factor is in {file!r}"
    return ""


def _wrong_argument(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return f"its arguments are {arguments!r}"
    for name in (*_WHOLE, *_TEXT):
        value = arguments.get(name)
        if not (isinstance(value, str) if name in _TEXT else isinstance(value, int) and not isinstance(value, bool)):
            return f"{name} is {value!r}"
    if not _is_count(arguments["num_steps"]) or arguments["num_channels"] < 1 or arguments["num_trajectories"] < 1:
        return "its arguments have fewer channels, steps or trajectories than there can be"
    operators = arguments.get("operators")
    if not isinstance(operators, list) or not operators or not all(isinstance(name, str) for name in operators):
        return f"operators is {operators!r}"
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def panels(num_channels: int, width: int) -> list[slice]:
    """The channels of each panel.

    >>> panels(20, 8)
    [slice(0, 8, None), slice(8, 16, None), slice(16, 20, None)]
    """
    bounds = [*range(0, num_channels, width), num_channels]
    return [slice(low, high) for low, high in pairwise(bounds)]


def step_name(operator: int, step: int) -> str:
    """``"start"`` for step 0, which is that of every operator."""
    return "start" if step == 0 else f"{operator}/{step}"


def chunks(blocks: Sequence[int], number: int) -> Iterator[Sequence[int]]:
    """Runs of blocks, at most ``number`` of them, of about equal length.

    >>> [list(run) for run in chunks(range(5), 2)]
    [[0, 1], [2, 3, 4]]
    """
    bounds = [len(blocks) * c // number for c in range(number + 1)]
    return (blocks[low:high] for low, high in pairwise(bounds) if high > low)
