"""Encode a graph into a folder: prepared once, made step by step, taken up again after any interruption."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from rfp.atomic import make_folder
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, FileError
from rfp.io.metadata import versions
from rfp.io.options import ReadOptions
from rfp.operators import NORMS, parse_name
from rfp.partitioned.driver import Driver
from rfp.partitioned.executors import Executor, Serial
from rfp.partitioned.layout import Layout, Manifest, StoredGraph
from rfp.partitioned.lock import locked
from rfp.partitioned.plan import Plan, stored_operator
from rfp.partitioned.reader import PartitionedEncoding, open_encoding
from rfp.partitioned.rounds_of_tasks import PREPARING, Rounds, Tick, no_tick
from rfp.partitioned.row_blocks import BlockLimit
from rfp.partitioned.sources import FileSource, GraphSource, Source
from rfp.partitioned.step_plan import plan_steps
from rfp.settings import STARTS, Arguments, Settings, fields_among, shows_settings

STORED_NORMALIZATIONS = ("qr", "l2", "none")
# The parts of the memory allowed: one panel of all nodes, and one block of rows.
_PANEL_PART, _BLOCK_PART = 0.65, 0.2
# What lies in a folder of ours before there is a manifest.
OWN_NAMES = ("lock", "graph", "graph-T", "graph-sym", "preparing", "states", "manifest.json")
# Copies of a block's states that are there at a time: all channels, multiplied in their place, and a panel of them.
_STATE_COPIES = 2


@dataclass(frozen=True)
class Execution:
    """Where, and within what, an encoding by row blocks is computed, and who is told of it.

    Args:
        memory: Bytes of numbers that each worker may hold, about, beside what Python and PyTorch take for themselves.
            It decides the blocks and panels, when the folder is new.
        executor: Runs the tasks: :class:`~rfp.partitioned.executors.Serial` by default.
        device: ``"cuda"``: workers that have a GPU multiply on it, those without on their CPU. The bits of a result
            are those of the device it was computed on.
        tick: Told ``(step, what, tasks done, tasks in all)``; while the graph is prepared the step is ``"graph"``.
        say: Gets a line for what is out of the ordinary.
    """

    memory: int = 2_000_000_000
    executor: Executor | None = None
    device: str = "cpu"
    tick: Tick = no_tick
    say: Callable[[str], None] = lambda line: None


class FolderArguments(Arguments, total=False):
    """The fields of :class:`~rfp.settings.Settings` and of :class:`rfp.partitioned.Execution` as keywords."""

    memory: int
    executor: Executor | None
    device: str
    tick: Tick
    say: Callable[[str], None]


@shows_settings(FolderArguments, Settings, Execution)
def encode(
    graph: Any,
    folder: str | Path,
    settings: Settings | None = None,
    **arguments: Unpack[FolderArguments],
) -> PartitionedEncoding:
    """:func:`rfp.encode` by row blocks and panels of channels in files: memory for a part of the states at a time.

    The result equals that of memory up to rounding, whatever the blocks, and is the same bit for bit with every
    executor. The folder is result and checkpoint: the same call goes on where one was cut; other arguments or another
    graph are refused.

    Args:
        graph: Anything :func:`rfp.as_graph` reads, one graph.
        folder: Made if it is not there. Its format: :mod:`rfp.partitioned.layout`.
        settings: The arguments; operators by name, distributions by name.
        arguments: The fields of :class:`~rfp.settings.Settings` and of :class:`rfp.partitioned.Execution`:
            ``memory``, ``executor``, ``device``, ``tick``, ``say``.

    Example:
        >>> import networkx, tempfile, rfp
        >>> club = networkx.karate_club_graph()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     states = encode(club, folder, num_channels=4, num_steps=8).trajectory().states
        >>> bool((states - rfp.encode(club, num_channels=4, num_steps=8).states).abs().max() < 1e-5)
        True
    """
    return encode_source(GraphSource(as_graph(graph)), folder, settings, **arguments)


@shows_settings(FolderArguments, Settings, Execution)
def encode_files(
    files: str | Path | Sequence[str | Path],
    folder: str | Path,
    settings: Settings | None = None,
    *,
    options: ReadOptions | None = None,
    **arguments: Unpack[FolderArguments],
) -> PartitionedEncoding:
    """:func:`encode` of files that may be larger than memory: text and Parquet are sorted by DuckDB within the memory.

    Args:
        files: As :func:`rfp.read_graph` takes them: a file, several, or a folder of parts.
        folder: See :func:`encode`, as for the other arguments.
        options: How to read them.

    Example:
        >>> import pathlib, tempfile
        >>> here = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (here / "friends.csv").write_text("ann,bob\\nbob,cy\\ncy,ann\\n")
        >>> encoded = encode_files(here / "friends.csv", here / "store", num_channels=2, num_steps=1)
        >>> encoded.node_ids().tolist(), tuple(encoded.step(1).shape)
        (['ann', 'bob', 'cy'], (1, 3, 2))
    """
    given = [files] if isinstance(files, str | Path) else files
    source = FileSource(tuple(map(str, given)), options or ReadOptions())
    return encode_source(source, folder, settings, **arguments)


def encode_source(
    source: Source,
    folder: str | Path,
    settings: Settings | None = None,
    **arguments: Unpack[FolderArguments],
) -> PartitionedEncoding:
    """What :func:`encode` and :func:`encode_files` are: prepare the graph, then make every step that is not there."""
    of_execution, others = fields_among(Execution, arguments)
    execution, settings = Execution(**of_execution), Settings.of(settings, others)
    plain = plain_arguments(settings)
    layout = Layout(Path(folder))
    with _made_folder(layout), locked(layout.folder):
        manifest = _manifest(source, layout, settings, plain, execution)
        powers = [int(parse_name(name)["power"] or 1) for name in settings.operators]
        operators = tuple(stored_operator(name, manifest.graph.symmetric) for name in settings.operators)
        plan = Plan(
            str(layout.folder.absolute()),
            manifest.graph,
            settings.num_channels,
            settings.num_trajectories,
            manifest.panel,
            str(settings.distribution),
            settings.seed,
            plain["dtype"],
            operators,
            execution.device,
        )
        steps = plan_steps(
            settings.num_steps,
            str(settings.normalization),
            settings.normalize_every,
            STARTS[settings.start],
            powers,
        )
        norms = [NORMS.get(operator.base) for operator in operators]
        executor = execution.executor or Serial()
        Driver(Rounds(plan, executor, norms, execution.tick), manifest, steps, execution.say).run()
    encoding = open_encoding(layout.folder)
    if settings.strict:
        encoding.report.check_strict()
    return encoding


def finished_steps(source: Source, folder: str | Path, settings: Settings) -> int | None:
    """How many steps of this very encoding a folder holds; ``None`` if no encoding was begun there.

    Raises:
        FileError: It holds another one; the message says what is different.
    """
    layout = Layout(Path(folder))
    if not layout.manifest_file.exists():
        return None
    manifest = layout.read_manifest()
    _refuse_others(layout, manifest, plain_arguments(settings), source)
    return len(manifest.finished)


@contextmanager
def _made_folder(layout: Layout) -> Iterator[None]:
    """The folder, unless it holds what is not ours; gone again where nothing could be put into it."""
    new = not layout.folder.exists()
    make_folder(layout.folder)
    there = {path.name for path in layout.folder.iterdir()}
    # Every encoding begins with its lock: without one even "graph" may be somebody's own, and would be removed.
    ours = OWN_NAMES if "lock" in there else ()
    strange = sorted(name for name in there if name not in ours and not name.startswith(".manifest"))
    if strange and not layout.manifest_file.exists():
        raise FileError(f"{layout.folder} holds {strange[0]!r}, which is no part of an encoding; give a new folder")
    try:
        yield
    except BaseException:
        if new and [path.name for path in layout.folder.iterdir()] == ["lock"]:
            shutil.rmtree(layout.folder, ignore_errors=True)
        raise


def _manifest(
    source: Source, layout: Layout, settings: Settings, plain: dict[str, Any], execution: Execution
) -> Manifest:
    """The manifest of the folder, made if there is none; refuses another encoding."""
    if layout.manifest_file.exists():
        manifest = layout.read_manifest()
        _refuse_others(layout, manifest, plain, source)
        layout.named()
        return manifest
    memory, tick = execution.memory, execution.tick
    item = settings.dtype.itemsize * settings.num_trajectories
    limit = BlockLimit(int(memory * _BLOCK_PART), _STATE_COPIES * item * settings.num_channels)

    def sides(symmetric: bool) -> list[str]:
        return sorted({stored_operator(name, symmetric).side for name in settings.operators} - {""})

    remove_all(layout)  # what a run has left that was killed, or told that the edges were wrong
    preparing = layout.folder / "preparing"
    try:
        stored = source.prepare(layout, limit, memory, sides, lambda what, d, total: tick(PREPARING, what, d, total))
    finally:
        shutil.rmtree(preparing, ignore_errors=True)
    panel = panel_width(stored, item, settings.num_channels, int(memory * _PANEL_PART))
    if stored.num_nodes * item * panel > memory * _PANEL_PART:
        execution.say(
            f"one channel of {stored.num_nodes:,} nodes takes {stored.num_nodes * item / 1e6:,.0f} MB, more than the "
            f"{memory * _PANEL_PART / 1e6:,.0f} MB for it: more memory than was allowed will be used"
        )
    manifest = Manifest(stored, plain, panel, versions=dict(versions()))
    layout.write_manifest(manifest, layout.folder)
    return manifest


def remove_all(layout: Layout) -> None:
    """Remove what a folder holds, the manifest first; but for the lock, which is ours."""
    layout.manifest_file.unlink(missing_ok=True)
    for name in OWN_NAMES:
        if (layout.folder / name).is_dir():
            shutil.rmtree(layout.folder / name)


def panel_width(graph: StoredGraph, item: int, num_channels: int, memory: int) -> int:
    """Channels whose states of all nodes fit in the memory: all of them, or a power of two.

    >>> panel_width(StoredGraph(1000, 0, 0, 0, False, True, (0, 1000)), 4, 64, 100_000)
    16
    """
    if graph.num_nodes * item * num_channels <= memory:
        return num_channels
    width = 1
    while 2 * width * item * graph.num_nodes <= memory:
        width *= 2
    return min(width, num_channels)


def plain_arguments(settings: Settings) -> dict[str, Any]:
    """The arguments that define the result, as plain values; those that cannot be stored are refused."""
    if not all(isinstance(name, str) for name in settings.operators):
        raise ArgumentError("operators of a partitioned encoding are given by name: workers build their own blocks")
    if not isinstance(settings.distribution, str) or settings.normalization not in STORED_NORMALIZATIONS:
        raise ArgumentError(
            f"a partitioned encoding has the normalizations {', '.join(STORED_NORMALIZATIONS)} and distributions by "
            f"name, got {settings.normalization!r} and {settings.distribution!r}"
        )
    if settings.storage_dtype not in (None, settings.dtype):
        raise ArgumentError(
            f"a partitioned encoding is stored as it is computed, got storage_dtype={settings.storage_dtype}; "
            "export it in another type"
        )
    return {
        "num_channels": settings.num_channels,
        "num_steps": settings.num_steps,
        "operators": list(settings.operators),
        "normalization": settings.normalization,
        "normalize_every": settings.normalize_every,
        "num_trajectories": settings.num_trajectories,
        "distribution": settings.distribution,
        "start": settings.start,
        "seed": settings.seed,
        "dtype": str(settings.dtype).removeprefix("torch."),
    }


def _refuse_others(layout: Layout, manifest: Manifest, arguments: dict[str, Any], source: Source) -> None:
    there = manifest.arguments or {}
    other = [
        f"{name} is {there.get(name)!r} there and {value!r} here"
        for name, value in arguments.items()
        if there.get(name) != value
    ]
    other += source.differences(manifest.graph)
    if other:
        raise FileError(
            f"{layout.folder} holds another encoding: {'; '.join(other)}. Choose another folder, or remove it"
        )
