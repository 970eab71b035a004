"""What the page may ask for: sizes are checked before anything is read or computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rfp.errors import ArgumentError, GraphError
from rfp.operators import parse_name
from rfp.settings import Settings


@dataclass(frozen=True)
class Limits:
    """The largest of everything that a page can ask for.

    Args:
        upload_bytes: Size of a dropped file, unpacked size included.
        nodes: Nodes of a dropped graph.
        edges: Edges of a dropped graph.
        width: k·P, with the power of an operator counted in P: what a node and a step cost; and w.
        trajectories: B.
        operators: Operators side by side.
        trajectory_bytes: Size of one encoding in memory.
        cache_bytes: Encodings kept in memory together.
        drawn_edges: Edges sent to be drawn; of more, an even sample.
    """

    upload_bytes: int = 64_000_000
    nodes: int = 300_000
    edges: int = 3_000_000
    width: int = 8192
    trajectories: int = 32
    operators: int = 4
    trajectory_bytes: int = 1_000_000_000
    cache_bytes: int = 2_000_000_000
    drawn_edges: int = 300_000

    def check_settings(self, settings: Settings, num_nodes: int) -> None:
        """Refuse an encoding that is too large for a page, with what to lower."""
        if len(settings.operators) > self.operators:
            raise ArgumentError(
                f"at most {self.operators} operators are explored at a time, got {len(settings.operators)}"
            )
        if settings.num_trajectories > self.trajectories:
            raise ArgumentError(f"B is at most {self.trajectories} on this page, got {settings.num_trajectories}")
        steps = settings.num_steps * max(power_of(name) for name in settings.operators)
        if settings.num_channels * max(1, steps) > self.width:
            raise ArgumentError(
                f"k·P is at most {self.width} on this page, got {settings.num_channels} · {steps} = "
                f"{settings.num_channels * steps}; lower k or P, or use rfp encode"
            )
        if settings.normalize_every > self.width:  # as much as P can be: beyond it nothing changes
            raise ArgumentError(f"w is at most {self.width} on this page, got {settings.normalize_every}")
        size = num_nodes * settings.num_trajectories * settings.num_columns * settings.dtype.itemsize
        if size > self.trajectory_bytes:
            raise ArgumentError(
                f"the trajectory would take {size / 1e6:,.0f} MB, at most {self.trajectory_bytes / 1e6:,.0f} MB are "
                "explored; lower k, P, B or the number of operators, or use rfp encode"
            )

    def check_graph(self, num_nodes: int, num_edges: int) -> None:
        """Refuse a dropped graph that is too large."""
        if num_nodes > self.nodes:
            raise GraphError(_too_many("nodes", num_nodes, self.nodes))
        if num_edges > self.edges:
            raise GraphError(_too_many("edges", num_edges, self.edges))


def _too_many(what: str, got: int, most: int) -> str:
    return (
        f"the graph has {got:,} {what}; a dropped file may have at most {most:,}. "
        "Give it on the command line instead: rfp explore FILE"
    )


def power_of(operator: str) -> int:
    """The power that an operator's name ends in.

    >>> power_of("adjacency"), power_of("normalized_adjacency.sym^3")
    (1, 3)
    """
    return int(parse_name(operator)["power"] or 1)


def check_operator_names(names: Sequence[object]) -> tuple[str, ...]:
    """Operators as the page may name them: text, nothing else."""
    if not names or not all(isinstance(name, str) and len(name) <= 64 for name in names):
        raise ArgumentError(f'operators must be names such as "adjacency", got {list(names)!r:.80}')
    return tuple(str(name) for name in names)
