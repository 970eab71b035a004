"""How a graph is read from files: the arguments of :func:`rfp.read_graph`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from rfp.cli.options.panels import one_of, panel
from rfp.edge_table.table_options import DUPLICATES, IDS
from rfp.io import FORMATS, ReadOptions

_reading = panel("Reading the graph")
_COLUMN = "NAME|NUMBER"

GraphFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="GRAPH",
        help="Edge list (.csv .tsv .txt), .mtx, .graphml, .gexf, .gml, .net (Pajek), .json (node-link), each also .gz "
        ".bz2 .xz .zst; .parquet, .npz (SciPy), .pt (PyG). Several edge lists or Parquet files, or a folder of them, "
        "make one graph. **-** is an edge list on standard input.",
    ),
]


@dataclass(frozen=True)
class Reading(ReadOptions):
    """The fields of :class:`rfp.io.ReadOptions`, with their defaults, as options."""

    format: Annotated[str | None, _reading(help="Format of the file, if the suffix does not tell.", **one_of(FORMATS))]
    directed: Annotated[
        bool | None,
        _reading(
            "--directed/--undirected",
            help="Whether edges have a direction. Default: undirected for edge lists and Parquet (each edge counts "
            "both ways, listed once or twice); as stored in other formats.",
            show_default=False,
        ),
    ]
    num_nodes: Annotated[
        int | None,
        _reading(
            min=1,
            help="The ids are 0 to N-1, and those that do not appear are isolated nodes. Default: the nodes are the "
            "ids that appear, with numbers in ascending order and text in order of appearance.",
        ),
    ]
    source: Annotated[
        str | None, _reading("--source", "--source-column", metavar=_COLUMN, help="Column of source ids.")
    ]
    target: Annotated[
        str | None, _reading("--target", "--target-column", metavar=_COLUMN, help="Column of target ids.")
    ]
    weight: Annotated[
        str | None,
        _reading(
            "--weight",
            "--weight-column",
            metavar=_COLUMN,
            help="Column of weights (in GraphML and similar formats: attribute).",
        ),
    ]
    unweighted: Annotated[bool, _reading("--unweighted", help="Ignore weights.")]
    header: Annotated[
        bool | None,
        _reading(
            "--header/--no-header",
            help="Whether the first line names the columns. Default: found from the first two lines.",
            show_default=False,
        ),
    ]
    delimiter: Annotated[str | None, _reading(metavar="CHAR", help="What separates the columns, if it is not found.")]
    ids: Annotated[
        str | None,
        _reading(
            help="How to read ids. Default: as integers if all are written as such, otherwise as text, where 007 "
            "and 7 are two nodes.",
            **one_of(IDS),
        ),
    ]
    duplicates: Annotated[
        str | None,
        _reading(
            help="Weight of an edge that is listed several times (undirected: in either direction). Default: equal "
            "weights count once, and different ones are an error.",
            **one_of(DUPLICATES),
        ),
    ]
    comment: Annotated[
        str | None,
        _reading(
            metavar="MARK",
            help='Only lines that begin with MARK are comments; "" for none. Default: # and %, if no edge begins '
            "with them.",
        ),
    ]
    quotes: Annotated[bool, _reading("--quotes/--no-quotes", help="Whether double quotes enclose fields.")]
