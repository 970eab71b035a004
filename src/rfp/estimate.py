"""What an encoding will cost, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import torch

from rfp.conversion import as_graph
from rfp.settings import Arguments, Settings, shows_settings

# Float64 matrices [k, k] that QR holds at a time for each trajectory: Gram, factors, inverses, and what the library
# that factorises them asks for. Peaks of 10 to 14 were measured at k = 1000 and 2000.
_FACTORS = 14
# Up to this many channels the graphs of a batch are taken one by one, with more all factors are held at once.
_ONE_BY_ONE = 128


@dataclass(frozen=True)
class Estimate:
    """Bytes and floating-point operations of an encoding.

    Args:
        trajectory_bytes: The result, ``n B O (P + 1) k`` numbers.
        working_bytes: What is held beside the result: about three steps' states, the operators, and the k x k matrices
            of QR.
        operations: Multiplications and additions of the products and the normalisations.
        width: C, the length of a node's encoding in one trajectory.
    """

    trajectory_bytes: int
    working_bytes: int
    operations: int
    width: int

    @property
    def total_bytes(self) -> int:
        return self.trajectory_bytes + self.working_bytes


@shows_settings(Arguments)
def estimate(
    graph: Any = None,
    settings: Settings | None = None,
    *,
    num_nodes: int = 0,
    num_edges: int = 0,
    **arguments: Unpack[Arguments],
) -> Estimate:
    r"""Bytes and operations of ``encode(graph, ...)``.

    Per step and operator the product costs :math:`2 (m + n) k B` operations (m counts both directions), QR
    :math:`(4 n + k) k^2 B` (a Gram matrix, its factor and the application), :math:`\ell_2` :math:`3 n k B`.

    Args:
        graph: Anything :func:`rfp.encode` takes; or ``None`` with the two counts.
        settings: All arguments of the encoding in one :class:`~rfp.settings.Settings`, or as keywords, or both.
        num_nodes: n, if no graph is given.
        num_edges: Directed edges, if no graph is given.

    Example:
        >>> estimate(num_channels=64, num_nodes=169_343, num_edges=2_332_486).trajectory_bytes
        736980736
    """
    settings = Settings.of(settings, arguments)
    num_graphs = 1
    if graph is not None:
        read = as_graph(graph)
        num_nodes, num_edges, num_graphs = read.num_nodes, read.num_edges, read.num_graphs
    return estimate_sizes(settings, num_nodes, num_edges, num_graphs)


def estimate_sizes(settings: Settings, num_nodes: int, num_edges: int, num_graphs: int = 1) -> Estimate:
    """:func:`estimate` of a graph, or batch, of these sizes."""
    k, columns = settings.num_channels, settings.num_channels * settings.num_trajectories
    num_operators = len(settings.operators)
    entries = num_edges + num_nodes  # the diagonal is always stored
    kept = settings.kept_dtype.itemsize
    word = settings.dtype.itemsize
    index = 4 if max(entries, num_nodes) < 2**31 else 8
    # edge_index (int64) and the shared float64 pattern, then one array of values an operator.
    graph_bytes = num_edges * 16 + entries * (index + 8 + word * num_operators) + num_nodes * index
    normalizations = settings.num_steps // settings.normalize_every if settings.normalization != "none" else 0
    squares = settings.start == "orthonormal" or (normalizations > 0 and settings.normalization != "l2")
    factor_bytes = _FACTORS * 8 * k * columns * (num_graphs if k > _ONE_BY_ONE else 1) if squares else 0
    qr = columns * (4 * k * num_nodes + k * k)
    one = 3 * columns * num_nodes if settings.normalization == "l2" else qr
    operations = num_operators * (2 * entries * columns * settings.num_steps + one * normalizations)
    operations += {"drawn": 0, "unit": 3 * columns * num_nodes, "orthonormal": qr}[settings.start]
    return Estimate(
        trajectory_bytes=num_nodes * settings.num_trajectories * settings.num_columns * kept,
        working_bytes=3 * num_nodes * columns * word + graph_bytes + factor_bytes,
        operations=operations,
        width=settings.num_columns,
    )


def available_memory(device: torch.device | str = "cpu") -> int | None:
    """Bytes that can still be allocated on the device, or ``None`` if that cannot be known.

    On a CPU the least of what the machine has left and what the control groups of a container or a batch job leave.
    """
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    known = [free for free in (_machine_free(), _cgroup_free()) if free is not None]
    return min(known, default=None)


def _machine_free() -> int | None:
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


class _ControlGroups(NamedTuple):
    """Where a version of Linux' control groups says what a group may use, uses, and could give back."""

    mount: str
    limit: str
    used: str
    cached: str


_VERSION_1 = _ControlGroups("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _ControlGroups("", "memory.max", "memory.current", "inactive_file")


def _cgroup_free(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> int | None:
    """What the control groups of this process leave; cached files count as free, they yield on demand."""
    try:
        lines = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return None
    left = []
    for _, controllers, own in (line for line in lines if len(line) == 3):
        if "memory" in controllers.split(","):
            left += _left_by_groups(root, own, _VERSION_1)
        elif not controllers:
            left += _left_by_groups(root, own, _VERSION_2)
    return max(min(left), 0) if left else None


def _left_by_groups(root: Path, own: str, names: _ControlGroups) -> list[int]:
    """Bytes left by a group and by those it is in, where they have a limit; a container sees the last of them alone."""
    mount = root / names.mount
    left = []
    for folder in (mount / own.strip("/"), *(mount / own.strip("/")).parents):
        if not folder.is_relative_to(mount):
            break
        try:
            limit, used = (folder / names.limit).read_text(), int((folder / names.used).read_text())
            facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            left.append(int(limit) - used + int(facts[names.cached]))  # "max", no limit, is not an integer
        except (OSError, KeyError, ValueError):
            continue
    return left
