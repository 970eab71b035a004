"""How a file is to be read."""

from __future__ import annotations

from dataclasses import dataclass

from rfp.edge_table.table_options import LoadedGraph, NodeIds, TableOptions

__all__ = ["LoadedGraph", "NodeIds", "ReadOptions", "TableOptions"]


@dataclass(frozen=True)
class ReadOptions(TableOptions):
    """How a file is to be read; ``None`` leaves it to the file.

    Args:
        format: A key of :data:`rfp.io.FORMATS`; ``None`` goes by the suffix.
        header: Whether the first line of an edge list names the columns.
        delimiter: What separates the columns of an edge list; ``" "`` means any white space.
        comment: Lines that begin with this are comments and no others are; ``""`` means that there are none. ``None``:
            ``#`` and ``%``, refused where they may begin an edge.
        quotes: Whether double quotes enclose fields; otherwise they are characters like others.
    """

    format: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    comment: str | None = None
    quotes: bool = True
