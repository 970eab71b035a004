"""Reading a graph from files: one function for every format, found by the suffix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rfp.available import is_frame
from rfp.edge_table.table import EdgeTable, join_tables, load_table
from rfp.errors import ArgumentError, FileError, GraphError, RFPError, unknown_choice
from rfp.io.compression import PACKED
from rfp.io.edge_list import read_edge_list
from rfp.io.graph_files import read_gexf, read_gml, read_graphml, read_node_link, read_pajek
from rfp.io.matrices import read_matrix_market, read_npz
from rfp.io.options import LoadedGraph, ReadOptions
from rfp.io.parquet import read_parquet
from rfp.io.pyg import read_pyg

Files = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Format:
    """A format of files.

    Args:
        suffixes: By which it is known.
        table: Reads a table of edges, of which several make one graph; or ``None``.
        graph: Otherwise reads a graph.
        packed: Whether such files may be compressed.
    """

    suffixes: tuple[str, ...]
    table: Callable[[Path, ReadOptions], EdgeTable] | None = None
    graph: Callable[[Path, ReadOptions], LoadedGraph] | None = None
    packed: bool = True


# A new format is one function and one line here.
FORMATS: dict[str, Format] = {
    "edges": Format((".csv", ".tsv", ".txt", ".edges", ".edgelist", ".el", ".ncol", ".dat"), table=read_edge_list),
    "parquet": Format((".parquet", ".pq"), table=read_parquet, packed=False),
    "npz": Format((".npz",), graph=read_npz, packed=False),
    "mtx": Format((".mtx",), graph=read_matrix_market),
    "graphml": Format((".graphml",), graph=read_graphml),
    "gexf": Format((".gexf",), graph=read_gexf),
    "gml": Format((".gml",), graph=read_gml),
    "pajek": Format((".net", ".paj", ".pajek"), graph=read_pajek),
    "json": Format((".json",), graph=read_node_link),
    "pyg": Format((".pt", ".pth"), graph=read_pyg, packed=False),
}
# How the text begins that Git LFS keeps in the place of a large file.
_POINTER = b"version https://git-lfs.github.com/spec/"
_TABLES = tuple(name for name, format in FORMATS.items() if format.table is not None)
_NAMED = ("graphml", "gexf", "gml", "json")  # edges with named attributes
# Options that only some formats know; asking for one elsewhere is an error, not silence.
_ONLY_FOR = {
    "header": ("edges",),
    "delimiter": ("edges",),
    "comment": ("edges",),
    "quotes": ("edges",),
    "ids": _TABLES,
    "source": _TABLES,
    "target": _TABLES,
    "weight": (*_TABLES, *_NAMED),
    "duplicates": (*_TABLES, *_NAMED, "pajek"),
}


def find_format(path: Path) -> str:
    """The format that the suffix stands for, looking through that of a compression.

    >>> find_format(Path("web.txt.zst")), find_format(Path("-"))
    ('edges', 'edges')
    """
    if str(path) == "-":
        return "edges"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] if suffixes[-1:] and suffixes[-1] in PACKED else []
    last = (suffixes[:-1] if packed else suffixes)[-1:]
    for name, format in FORMATS.items():
        if last and last[0] in format.suffixes:
            if packed and not format.packed:
                raise FileError(f"{path}: files of the format {name!r} are not read from {packed[0]}; unpack it first")
            return name
    from rfp.io.unsupported import UNSUPPORTED

    choices = f"--format {'|'.join(FORMATS)}"
    if last and last[0] in UNSUPPORTED:
        kind, advice = UNSUPPORTED[last[0]]
        raise FileError(
            f"{path}: {kind}, a format that is not read; {advice} (if it is another format, name it: {choices})"
        )
    known = " ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
    raise FileError(
        f"{path}: the suffix says nothing known about the format ({known}; text and XML also with {' '.join(PACKED)}); "
        f"name it with {choices}"
    )


def read_graph(
    path: Any,
    *,
    format: str | None = None,
    directed: bool | None = None,
    num_nodes: int | None = None,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | None = None,
    unweighted: bool = False,
    ids: str | None = None,
    duplicates: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    comment: str | None = None,
    quotes: bool = True,
) -> LoadedGraph:
    """Read a graph from a file, from several files, from a folder of them, or from a data frame.

    The rules are those of ``docs/guides/reading.md``, the same for the command ``rfp encode``. Tables of edges (text,
    Parquet, frames) are undirected unless ``directed``, or unless they say so themselves: each edge counts both ways,
    whether it is listed once or twice. Other formats are read as stored unless ``directed`` is ``False``.

    Args:
        path: A file; several files or a folder with tables of edges, joined to one graph; ``"-"`` for an edge list on
            standard input; or a frame of pandas or Polars with a row for each edge.
        format: A key of :data:`rfp.io.FORMATS`; ``None`` goes by the suffix.
        directed: Keep the direction of the edges.
        num_nodes: The ids are the node numbers 0 to ``num_nodes - 1``, and those that do not appear are isolated nodes.
            ``None``: the nodes are the distinct ids that appear.
        source: Name, or position from 1, of the column of source ids.
        target: The same for target ids.
        weight: The same for weights (in files of graphs: the name of the edge attribute).
        unweighted: Ignore the weights: every edge counts 1.
        ids: ``"int"`` or ``"text"``. ``None``: integers if all ids are.
        duplicates: What becomes of edges with the same ends: ``"sum"``, ``"first"`` or ``"max"`` of their weights, or
            an ``"error"``. ``None``: one edge if the weights are equal, else an error (files of graphs: the sum).
        header: Whether the first line of text names the columns.
        delimiter: What separates the columns of text; ``" "`` means any white space.
        comment: Lines of text that begin with this are comments and no others are; ``""`` means that there are none.
        quotes: Whether double quotes enclose fields of text; otherwise they are characters like others.

    Returns:
        The graph, the names of its nodes and how it was read: ``rfp.encode`` takes it as it is.

    Raises:
        FileError: A file cannot be read, or is of another format.
        GraphError: A line, row or entry is not a valid edge, or may be read in two ways; the message names it.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "friends.csv"
        >>> _ = path.write_text("source,target\\nann,bob\\nbob,cy\\n")
        >>> read_graph(path).node_ids.tolist()
        ['ann', 'bob', 'cy']
    """
    options = ReadOptions(
        directed=directed,
        num_nodes=num_nodes,
        source=source,  # type: ignore[arg-type]  # numbers become text there
        target=target,  # type: ignore[arg-type]
        weight=weight,  # type: ignore[arg-type]
        unweighted=unweighted,
        ids=ids,
        duplicates=duplicates,
        format=format,
        header=header,
        delimiter=delimiter,
        comment=comment,
        quotes=quotes,
    )
    if is_frame(path):
        from rfp.edge_table.frames import load_frame

        _check_applicable("parquet", options, "a data frame")
        return replace(load_frame(path, options), format="frame")
    return read_files(path, options)


def read_files(files: Files, options: ReadOptions) -> LoadedGraph:
    """:func:`read_graph` of files, with its arguments in one object."""
    name, parts, told = find_parts(files, options)
    format = FORMATS[name]
    options = replace(options, format=name)
    if format.table is not None:
        tables = [read_explained(path, options, format.table) for path in parts]
        loaded = load_table(join_tables(tables), options, told)
    else:
        assert format.graph is not None
        if len(parts) > 1:
            raise ArgumentError(
                f"several files make one graph only if they are tables of edges ({', '.join(_TABLES)}), got {name}"
            )
        loaded = read_explained(parts[0], options, format.graph)
    if not loaded.graph.num_nodes:
        raise GraphError(f"{told}: the graph has no nodes, so there is nothing to encode")
    return replace(loaded, file=told, format=name)


def find_parts(files: Files, options: ReadOptions) -> tuple[str, list[Path], str]:
    """The format of the files, the files that make the graph, and how to speak of them all."""
    if options.format is not None and options.format not in FORMATS:
        raise unknown_choice("format", options.format, FORMATS)
    given = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    if not given:
        raise ArgumentError("no file was given to read a graph from")
    parts = [part for path in given for part in _parts(path, options)]
    names = {options.format or find_format(path) for path in parts}
    if len(names) > 1:
        raise ArgumentError(f"files of several formats were given: {', '.join(sorted(names))}; convert them to one")
    name = names.pop()
    _check_applicable(name, options, f"the format {name!r}")
    told = ", ".join(map(str, given)) if len(given) < 4 else f"{given[0]} and {len(given) - 1} more files"
    return name, parts, told


def _parts(path: Path, options: ReadOptions) -> list[Path]:
    """A file is itself; a folder is the tables in it, in the order of their names."""
    if str(path) == "-" or not path.is_dir():
        return [path]
    inside = sorted(part for part in path.iterdir() if not part.name.startswith((".", "_")))  # _SUCCESS, .part.crc
    folders = [part.name for part in inside if part.is_dir()]
    if folders or not inside:
        held = f"the folder {folders[0]}" if folders else "nothing"
        raise FileError(f"{path} is a folder that holds {held}; give a folder of Parquet or text files, or the files")
    for part in inside:
        name = options.format or find_format(part)
        if FORMATS[name].table is None:
            raise FileError(f"{path} is a folder with {part.name} in it; give the one file to read")
    return inside


def read_explained(path: Path, options: ReadOptions, read: Callable[[Path, ReadOptions], Any]) -> Any:
    """Read, with what the system says as an error that names the file."""
    try:
        _refuse_pointer(path)
        return read(path, options)
    except RFPError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{path}: no such file; the current folder is {Path.cwd()}") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from error


def _refuse_pointer(path: Path) -> None:
    """Raise for what a clone without Git LFS has in the place of a large file: three lines that look like edges."""
    if str(path) != "-" and path.is_file():
        with open(path, "rb") as file:
            if file.read(len(_POINTER)) == _POINTER:
                raise FileError(f"{path}: a pointer of Git LFS in the place of the file; fetch that with git lfs pull")


def _check_applicable(name: str, options: ReadOptions, told: str) -> None:
    default = ReadOptions()
    for option, formats in _ONLY_FOR.items():
        if getattr(options, option) != getattr(default, option) and name not in formats:
            flag = "--no-quotes" if option == "quotes" else f"--{option}"
            raise ArgumentError(f"{flag} has no meaning for {told}, only for {' and '.join(formats)}")
