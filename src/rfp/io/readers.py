"""Reading a graph from a file: one function for every format, found by the suffix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rfp.errors import ArgumentError, FileError, GraphError, RFPError, unknown_choice
from rfp.io.edge_list import read_edge_list
from rfp.io.graphml import read_graphml
from rfp.io.matrices import read_matrix_market, read_npz
from rfp.io.options import LoadedGraph, ReadOptions
from rfp.io.parquet import read_parquet
from rfp.io.pyg import read_pyg

Reader = Callable[[Path, ReadOptions], LoadedGraph]

# Name -> (reader, suffixes). A new format is one function and one line here.
FORMATS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "edges": (read_edge_list, (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".el", ".dat")),
    "parquet": (read_parquet, (".parquet", ".pq")),
    "npz": (read_npz, (".npz",)),
    "mtx": (read_matrix_market, (".mtx",)),
    "graphml": (read_graphml, (".graphml",)),
    "pyg": (read_pyg, (".pt", ".pth")),
}
# Options that only some formats know; asking for one elsewhere is an error, not silence.
_TABLES = ("edges", "parquet")
_ONLY_FOR = {
    "header": ("edges",),
    "delimiter": ("edges",),
    "source_column": _TABLES,
    "target_column": _TABLES,
    "weight_column": (*_TABLES, "graphml"),
}
# Formats whose readers unpack gzip themselves.
_GZIP = ("edges", "mtx", "graphml")


def find_format(path: Path) -> str:
    """The format that the suffix stands for; ``.gz`` is looked through.

    >>> find_format(Path("web.txt.gz")), find_format(Path("-"))
    ('edges', 'edges')
    """
    if str(path) == "-":
        return "edges"
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    zipped = suffixes[-1:] == [".gz"]
    last = (suffixes[:-1] if zipped else suffixes)[-1:]
    for name, (_, known) in FORMATS.items():
        if last and last[0] in known and (not zipped or name in _GZIP):
            return name
    known_suffixes = " ".join(suffix for _, known in FORMATS.values() for suffix in known)
    raise FileError(
        f"{path}: the suffix says nothing known about the format ({known_suffixes}, some also with .gz); "
        f"name it with --format {'|'.join(FORMATS)}"
    )


def read_graph(path: str | Path, options: ReadOptions | None = None) -> LoadedGraph:
    """Read a graph from a file.

    Edge lists (text and Parquet) are undirected unless ``options.directed``: each edge counts both ways, whether it is
    listed once or twice. Matrices, GraphML and PyG files are read as stored unless ``options.directed`` is ``False``.

    Args:
        path: The file; ``-`` is an edge list on standard input.
        options: How to read it.

    Raises:
        FileError: The file cannot be read, or is of another format.
        GraphError: A line, row or entry is not a valid edge; the message names it.
    """
    path, options = Path(path), options or ReadOptions()
    if options.format is not None and options.format not in FORMATS:
        raise unknown_choice("format", options.format, FORMATS)
    if options.num_nodes is not None and options.num_nodes < 1:
        raise GraphError(f"--num-nodes must be at least 1, got {options.num_nodes}")
    try:
        name = options.format or find_format(path)
        _check_applicable(name, options)
        loaded = FORMATS[name][0](path, replace(options, format=name))
    except RFPError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{path}: no such file; the current folder is {Path.cwd()}") from error
    except IsADirectoryError as error:
        raise FileError(f"{path} is a folder; give a file in it") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not loaded.graph.num_nodes:
        raise GraphError(f"{path}: the graph has no nodes, so there is nothing to encode")
    return loaded


def _check_applicable(name: str, options: ReadOptions) -> None:
    for option, formats in _ONLY_FOR.items():
        if getattr(options, option) is not None and name not in formats:
            flag = "--" + option.replace("_", "-")
            raise ArgumentError(f"{flag} has no meaning for the format {name!r}, only for {' and '.join(formats)}")
