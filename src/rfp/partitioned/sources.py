"""What a partitioned graph is made from: a graph in memory, or files that may be larger than memory.

A source knows how to write its row blocks, and whether a folder was made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from rfp.edge_table.columns import choose_columns
from rfp.errors import ArgumentError, FileError, GraphError, MissingExtraError
from rfp.graph import Graph
from rfp.io.options import ReadOptions
from rfp.io.readers import find_parts, read_explained, read_files
from rfp.partitioned.duckdb_edges import prepare_table
from rfp.partitioned.edge_numbers import EdgeScan, parquet_relation
from rfp.partitioned.layout import Layout, StoredGraph
from rfp.partitioned.row_blocks import BlockLimit, Entries, hash_of_weights
from rfp.partitioned.sorted_blocks import prepare_graph, write_ids
from rfp.partitioned.text_parts import TextParts

# A piece of text is read with some twenty copies of it around.
_PIECE_PART, _SMALLEST_PIECE, _LARGEST_PIECE = 1 / 40, 1 << 20, 1 << 26

Say = Callable[[str, int, int], None]


class Source(Protocol):
    """Where a graph comes from."""

    def prepare(self, layout: Layout, limit: BlockLimit, memory: int, sides: Sides, say: Say) -> StoredGraph:
        """Write the row blocks."""
        ...

    def differences(self, stored: StoredGraph) -> list[str]:
        """What of the stored graph is not what this source would make, in words."""
        ...


# The matrices beside A that are needed of a symmetric graph or another.
Sides = Callable[[bool], Sequence[str]]


@dataclass(frozen=True)
class GraphSource:
    """A graph in memory."""

    graph: Graph

    def prepare(self, layout: Layout, limit: BlockLimit, memory: int, sides: Sides, say: Say) -> StoredGraph:
        if self.graph.num_graphs != 1:
            raise ArgumentError(
                f"a partitioned encoding is of one graph, got {self.graph.num_graphs}; rfp.encode takes batches"
            )
        graph = self.graph.to("cpu")
        return prepare_graph(graph, layout, limit=limit, sides=sides(graph.is_undirected()))

    def differences(self, stored: StoredGraph) -> list[str]:
        if int(self.graph.keys[0]) != stored.key or self.graph.num_nodes != stored.num_nodes:
            return [f"the graph there has {stored.num_nodes} nodes and other edges"]
        matrix = self.graph.to("cpu").to_scipy().tocoo()
        known = stored.weights in (None, hash_of_weights(Entries(matrix.row, matrix.col, matrix.data)))
        return [] if known else ["the edges of the graph there have other weights"]


@dataclass(frozen=True)
class FileSource:
    """Files of a graph, as :func:`rfp.read_graph` takes them.

    Args:
        files: The files.
        options: How to read them.
    """

    files: tuple[str, ...]
    options: ReadOptions = field(default_factory=ReadOptions)

    def prepare(self, layout: Layout, limit: BlockLimit, memory: int, sides: Sides, say: Say) -> StoredGraph:
        """Text and Parquet are sorted by DuckDB within the memory; other formats are read into memory first."""
        name, parts, told = find_parts(self.files, self.options)
        self._refuse_pipes()
        for part in parts:
            if not part.exists():
                raise FileError(f"{part}: no such file; the current folder is {Path.cwd()}")
        about = self._describe(parts)
        if name not in ("edges", "parquet"):
            loaded = read_files(list(self.files), self.options)
            if loaded.graph.num_graphs != 1:
                raise ArgumentError(f"{told} holds {loaded.graph.num_graphs} graphs; a partitioned encoding is of one")
            graph = loaded.graph
            stored = prepare_graph(graph, layout, limit=limit, sides=sides(graph.is_undirected()), source=about)
            if loaded.node_ids is not None:
                write_ids(layout, loaded.node_ids)
            return stored
        texts = TextParts(layout.folder / "preparing" / "text")
        if name == "parquet":
            scan, directed = scan_parquet(parts, self.options), self.options.directed
        else:
            piece = min(max(int(memory * _PIECE_PART), _SMALLEST_PIECE), _LARGEST_PIECE)
            for part in parts:
                read_explained(part, self.options, lambda path, options: texts.add(path, options, piece, say))
            if not texts.num_rows and not self.options.num_nodes:
                raise GraphError(f"{told} holds no edges; expected lines such as 0,1")
            scan, directed = texts.scan(), texts.directed if self.options.directed is None else self.options.directed
        return prepare_table(
            scan,
            layout,
            directed=directed,
            duplicates=self.options.duplicates,
            memory=memory,
            limit=limit,
            num_nodes=self.options.num_nodes,
            sides=sides,
            source=about,
            say=say,
        )

    def differences(self, stored: StoredGraph) -> list[str]:
        self._refuse_pipes()
        _, parts, _ = find_parts(self.files, self.options)
        there, here = stored.source, self._describe(parts)
        if "files" not in there:
            return ["the graph there was made from memory, not from files"]
        wrong = [
            f"{name} is {there['options'].get(name)!r} there and {value!r} here"
            for name, value in here["options"].items()
            if there["options"].get(name) != value
        ]
        old, new = there["files"], here["files"]
        if [one["name"] for one in old] != [one["name"] for one in new]:
            return [*wrong, f"the files there are {_names(old)}, here {_names(new)}"]
        for before, now in zip(old, new, strict=True):
            if before != now:
                wrong.append(f"{now['name']} had {_state(before)} then and has {_state(now)} now")
        return wrong

    def _refuse_pipes(self) -> None:
        if "-" in self.files:
            raise ArgumentError(
                "standard input cannot be read again when the command goes on after an interruption; save it to a file"
            )

    def _describe(self, parts: Sequence[Path]) -> dict[str, Any]:
        """The files by name, length and time of their last change, and how they are read: JSON values."""
        try:
            stats = [(path.name, path.stat()) for path in parts]
        except FileNotFoundError as error:
            raise FileError(f"{error.filename}: no such file; the current folder is {Path.cwd()}") from error
        files = [{"name": name, "bytes": stat.st_size, "changed_ns": stat.st_mtime_ns} for name, stat in stats]
        return {"files": files, "options": asdict(self.options)}


def _names(files: Sequence[dict[str, Any]]) -> str:
    names = [str(one["name"]) for one in files]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _state(file: dict[str, Any]) -> str:
    changed = datetime.fromtimestamp(file["changed_ns"] / 1e9, UTC)
    return f"{file['bytes']:,} bytes (changed {changed:%Y-%m-%d %H:%M:%S} UTC)"


def scan_parquet(parts: Sequence[Path], options: ReadOptions) -> EdgeScan:
    """How DuckDB is to read Parquet files, columns chosen and checked as :mod:`rfp.edge_table.arrow` does it.

    Raises:
        GraphError: The files have different columns, or ids or weights of types that are none.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "large", "reading Parquet") from error
    schemas = []
    for part in parts:
        try:
            schemas.append(pq.read_schema(part))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FileError(f"{part}: not a readable Parquet file ({error})") from error
    names, first = schemas[0].names, str(parts[0])
    columns = choose_columns(names, len(names), options, first)
    for part, schema in zip(parts, schemas, strict=True):
        if schema.names != names or any(schema.field(i).type != schemas[0].field(i).type for i in columns.used):
            raise GraphError(f"{part} has other columns than {first}; write all parts alike")
    kinds = [_plain(schemas[0].field(i).type) for i in (columns.source, columns.target)]
    if any(not (pa.types.is_integer(k) or pa.types.is_string(k) or pa.types.is_large_string(k)) for k in kinds):
        raise GraphError(
            f"{first}: node ids must be integers or text, got {kinds[0]} and {kinds[1]}; cast the columns, or choose "
            "others with --source and --target"
        )
    integers = all(map(pa.types.is_integer, kinds)) and options.ids != "text"
    if not integers and options.ids == "int":
        raise GraphError(f"{first}: the columns of ids are text; cast them to integers first, or leave --ids out")
    if not integers and options.num_nodes is not None:
        raise GraphError(f"{first}: with --num-nodes node ids must be integers, got {kinds[0]} and {kinds[1]}")
    if columns.weight is not None:
        kind = _plain(schemas[0].field(columns.weight).type)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise GraphError(
                f"{first}: the weights in column {names[columns.weight]!r} must be numbers, got {kind}; choose "
                "another with --weight, or ignore weights with --unweighted"
            )
    direction = None
    if columns.direction is not None:
        kind = _plain(schemas[0].field(columns.direction).type)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            direction = _quoted_name(names[columns.direction])
    ends = [_quoted_name(names[i]) for i in (columns.source, columns.target)]
    source, target = ends if integers else [f"CAST({end} AS VARCHAR)" for end in ends]
    weight = None if columns.weight is None else _quoted_name(names[columns.weight])
    return EdgeScan(parquet_relation(parts), source, target, weight, tuple(parts), direction)


def _plain(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
