"""What an encoding of a graph that outgrows memory may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rfp.cli.options.panels import panel
from rfp.encode_folder import Resources, parse_size

_large = panel("Graphs that outgrow memory")


@dataclass(frozen=True)
class LargeOptions:
    """The fields of :class:`rfp.encode_folder.Resources` as options."""

    memory: Annotated[
        str | None,
        _large(
            metavar="SIZE",
            help="Memory of each process, e.g. 2GB. The graph is cut into row blocks in files, and only the part being "
            "worked on is in memory. After an interruption the same command continues. Default: row blocks only when "
            "memory is too small.",
        ),
    ] = None
    workers: Annotated[
        int | None, _large(min=1, metavar="N", help="Compute row blocks by N processes on this machine, under Dask.")
    ] = None
    scheduler: Annotated[
        str | None,
        _large(
            metavar="ADDRESS", help="Compute row blocks by the workers of this Dask scheduler, e.g. tcp://host:8786."
        ),
    ] = None
    resume: Annotated[
        bool,
        _large("--resume/--no-resume", help="Continue with what the folder of row blocks has, or begin anew."),
    ] = True

    @property
    def resources(self) -> Resources:
        """Checked."""
        memory = None if self.memory is None else parse_size(self.memory)
        return Resources(memory, self.workers, self.scheduler, self.resume)
