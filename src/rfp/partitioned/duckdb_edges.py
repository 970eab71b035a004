"""Edges in files, numbered, doubled and sorted by DuckDB within a limit on memory (extra ``large``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.edge_table.node_ids import doubtful_texts, shown
from rfp.errors import FileError, GraphError, MissingExtraError, WriteError
from rfp.partitioned.layout import Layout, StoredGraph
from rfp.partitioned.prepare import write_sorted
from rfp.partitioned.row_blocks import BlockLimit, BlockWriter

# Rows of a batch that DuckDB hands over.
_BATCH = 1 << 20
# What DuckDB asks for to sort without trouble.
_BYTES_PER_THREAD = 125_000_000
# With less it gives up on graphs of a million edges.
_LEAST_FOR_SORTING = 256_000_000
# DuckDB's part of the memory; the rest is for the blocks that are written meanwhile.
_SORTING_PART = 0.5


@dataclass(frozen=True)
class EdgeScan:
    """A table of edges that DuckDB can scan.

    Args:
        relation: In SQL, with the columns below, e.g. ``read_parquet('edges.parquet')``.
        source: SQL expression of the source id.
        target: Column of the target id.
        weight: Column of the weight, or ``None``.
        files: What is scanned.
        direction: Gephi's column of types, or ``None``.
        checked: Whether ids and weights have been looked at: missing ones, text in which a mistake is not seen.
    """

    relation: str
    source: str
    target: str
    weight: str | None
    files: tuple[Path, ...]
    direction: str | None = None
    checked: bool = False

    @property
    def told(self) -> str:
        """The files, for errors."""
        return ", ".join(path.name for path in self.files[:2]) + (", ..." if len(self.files) > 2 else "")


@contextmanager
def connected(folder: Path, memory: int) -> Iterator[Any]:
    """A DuckDB session that spills to ``folder`` beyond ``memory`` bytes; what it spilled is gone afterwards."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("duckdb", "large", "preparing files larger than memory") from error
    folder.mkdir(parents=True, exist_ok=True)
    database = duckdb.connect(str(folder / "prepare.duckdb"))
    try:
        database.execute(f"SET memory_limit = '{memory // 1_000_000}MB'")
        database.execute(f"SET temp_directory = '{_quoted(folder / 'spill')}'")
        # Each thread wants memory of its own, and would rather fail than do with less.
        allowed = max(1, memory // _BYTES_PER_THREAD)
        if allowed < (os.cpu_count() or 1):
            database.execute(f"SET threads = {allowed}")
        yield database
    except duckdb.OutOfMemoryException as error:
        raise FileError(
            f"sorting the edges needs more than {memory / 1e6:.0f} MB of memory; allow more with --memory"
        ) from error
    except duckdb.IOException as error:
        if "no space" in str(error).lower() or "disk" in str(error).lower():
            raise WriteError(
                f"{_first_line(error)}; free some space, or choose another folder: what is sorted beyond the memory "
                f"goes to {folder}"
            ) from error
        raise FileError(f"{_first_line(error)}; the folder for what does not fit in memory is {folder}") from error
    except duckdb.Error as error:
        raise FileError(_first_line(error)) from error
    finally:
        database.close()
        shutil.rmtree(folder, ignore_errors=True)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def prepare_table(
    table: EdgeScan,
    layout: Layout,
    *,
    directed: bool | None,
    duplicates: str | None,
    memory: int,
    limit: BlockLimit,
    num_nodes: int | None = None,
    sides: Callable[[bool], Sequence[str]] = lambda symmetric: (),
    source: dict[str, Any] | None = None,
    say: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> StoredGraph:
    """Number, double, sort and merge the edges of a table into row blocks.

    The nodes are numbered as :func:`rfp.read_graph` does it: integer ids in ascending order (or as they are, with
    ``num_nodes``), text ids in order of first appearance, source before target. So the encoding is that of memory.

    Args:
        table: What to read.
        layout: The folder to write to.
        directed: Keep the direction of the edges. ``None``: as the column of types says, if there is one.
        duplicates: How edges with the same ends become one; see :func:`~rfp.partitioned.row_blocks.merge`.
        memory: Bytes that may be used, about.
        limit: How large a block may become.
        num_nodes: The ids are 0 to ``num_nodes - 1``.
        sides: Further matrices to write, of :data:`rfp.partitioned.layout.SIDES`, of a symmetric matrix or another.
        source: For the manifest.
        say: Told ``(what, done, total)``.
    """
    with connected(layout.folder / "preparing", max(int(memory * _SORTING_PART), _LEAST_FOR_SORTING)) as database:
        if directed is None:
            directed = _direction(database, table)
        more = sides(not directed)
        say("numbering nodes", 0, 1)
        ids = _number(database, table, num_nodes, layout, in_order=duplicates == "first")
        if not ids.num_nodes:
            raise GraphError("the graph has no nodes, so there is nothing to encode")
        arcs = _arcs(ids, directed=directed)
        say("counting edges", 0, 1)
        entries = _entries_of_rows(database, arcs, ids.num_nodes)
        total, cuts = int(entries.sum()), limit.cuts(_largest_rows(database, arcs, entries, more))
        writer = BlockWriter(layout, cuts, symmetric=not directed)
        del entries

        def sort(relation: str, writer: BlockWriter, total: int, both: bool = False) -> None:
            done = 0

            def count(entries: int) -> None:
                nonlocal done
                done += entries
                say("sorting edges", done, total)

            say("sorting edges", 0, total)
            write_sorted(_sorted(database, relation), writer, duplicates=duplicates, both_directions=both, say=count)

        sort(arcs, writer, total)
        stored = writer.finish(source or {})
        for side in more:
            other = BlockWriter(layout, cuts, symmetric=side == "sym", side=side)
            sort(_side(arcs, side), other, total * (1 if side == "T" else 2), both=side == "sym")
            other.finish({})
        return stored


def _entries_of_rows(database: Any, arcs: str, num_nodes: int, end: str = "s") -> NDArray[np.int64]:
    """How many entries each row has, ``[n]``, those of the same place counted one by one."""
    counts = np.zeros(num_nodes, dtype=np.int64)
    reader = database.sql(f"SELECT {end}, count(*) FROM ({arcs}) GROUP BY {end}").to_arrow_reader(_BATCH)
    for batch in reader:
        row, count = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        counts[row] = count
    return counts


def _largest_rows(database: Any, arcs: str, entries: NDArray[np.int64], sides: Sequence[str]) -> NDArray[np.int64]:
    """The entries of each row, in that of the matrices which has most."""
    if not sides:
        return entries
    columns = _entries_of_rows(database, arcs, len(entries), "t")
    return entries + columns if "sym" in sides else np.maximum(entries, columns)


def _side(arcs: str, side: str) -> str:
    """The entries of another matrix of a directed graph; both directions of a place are told apart by the last bit."""
    if side == "T":
        return f"SELECT t AS s, s AS t, w, r FROM ({arcs})"
    return f"SELECT s, 2 * t AS t, w, r FROM ({arcs}) UNION ALL SELECT t, 2 * s + 1, w, r FROM ({arcs}) WHERE s <> t"


@dataclass(frozen=True)
class _Numbered:
    """A relation with integer columns s, t, w and r, the place in the file where that matters."""

    relation: str
    num_nodes: int


def _number(database: Any, table: EdgeScan, num_nodes: int | None, layout: Layout, *, in_order: bool) -> _Numbered:
    weight = f"CAST({table.weight} AS DOUBLE)" if table.weight else "CAST(1 AS DOUBLE)"
    place = "row_number() OVER ()" if in_order else "0"
    base = f"SELECT {table.source} AS s, {table.target} AS t, {weight} AS w, {place} AS r FROM {table.relation}"
    kinds = [str(row[1]) for row in database.execute(f"DESCRIBE {base}").fetchall()]
    _check(database, base, table)
    if all(_is_integer(kind) for kind in kinds[:2]):
        return _number_integers(database, base, num_nodes, layout)
    if num_nodes is not None:
        raise GraphError("--num-nodes is for integer ids, and these are text")
    return _number_texts(database, base, table, layout)


def _is_integer(kind: str) -> bool:
    return kind.upper() in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def _check(database: Any, base: str, table: EdgeScan) -> None:
    """Raise for missing ids and weights that are no numbers."""
    if table.checked:
        return
    missing, wrong = database.execute(
        f"SELECT count(*) FILTER (s IS NULL OR t IS NULL), count(*) FILTER (w IS NULL OR NOT isfinite(w)) FROM ({base})"
    ).fetchall()[0]
    if missing:
        raise GraphError(f"{table.told}: {missing} edges have no source or no target; remove them")
    if wrong:
        raise GraphError(f"{table.told}: {wrong} weights are missing or not finite; correct them, or use --unweighted")


def _check_texts(database: Any, table: EdgeScan) -> None:
    """Raise for text ids in which a mistake would not be seen."""
    for pattern, advice in [] if table.checked else doubtful_texts(blanks_separate=False, any_text=True):
        query = f"SELECT id FROM ids WHERE regexp_matches(id, '{pattern}') LIMIT 1"
        for (name,) in database.execute(query).fetchall():
            raise GraphError(f"{table.told}: {advice.format(shown(name))}")


def _direction(database: Any, table: EdgeScan) -> bool:
    """What the column of types says, by the rule of :func:`rfp.edge_table.table.direction_of`."""
    if table.direction is None:
        return False
    query = f"SELECT DISTINCT lower({table.direction}) FROM {table.relation} LIMIT 3"
    kinds = {row[0] for row in database.execute(query).fetchall()}
    if not kinds or not kinds <= {"directed", "undirected"}:
        return False
    if len(kinds) > 1:
        raise GraphError(
            f"{table.told}: some edges are of the type directed, others undirected; a graph is one or the other: say "
            "--directed or --undirected"
        )
    return kinds == {"directed"}


def _number_integers(database: Any, base: str, num_nodes: int | None, layout: Layout) -> _Numbered:
    low, high = database.execute(f"SELECT min(least(s, t)), max(greatest(s, t)) FROM ({base})").fetchall()[0]
    if low is None:
        return _Numbered(base, num_nodes or 0)
    if low < 0:
        raise GraphError(f"node id {low} is negative; expected integers from 0 on, or --ids text")
    if high >= 2**63:
        raise GraphError(f"node id {high} is larger than 2^63 - 1; read the ids with --ids text")
    if num_nodes is not None:
        if high >= num_nodes:
            raise GraphError(
                f"node id {high} is out of range for --num-nodes {num_nodes}, expected 0 to {num_nodes - 1}"
            )
        return _Numbered(base, num_nodes)
    database.execute(
        f"CREATE TABLE ids AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS number "
        f"FROM (SELECT s AS id FROM ({base}) UNION SELECT t FROM ({base}))"
    )
    count = int(database.execute("SELECT count(*) FROM ids").fetchall()[0][0])
    if high == count - 1:
        return _Numbered(base, count)  # 0 to n - 1 already
    _save_ids(database, layout)
    return _joined(base, count)


def _number_texts(database: Any, base: str, table: EdgeScan, layout: Layout) -> _Numbered:
    database.execute(
        f"CREATE TABLE ids AS SELECT id, row_number() OVER (ORDER BY first) - 1 AS number FROM ("
        f"  SELECT id, min(place) AS first FROM ("
        f"    WITH edges AS (SELECT s, t, row_number() OVER () AS line FROM ({base}))"
        f"    SELECT CAST(s AS VARCHAR) AS id, 2 * line AS place FROM edges"
        f"    UNION ALL SELECT CAST(t AS VARCHAR), 2 * line + 1 FROM edges"
        f"  ) GROUP BY id)"
    )
    _check_texts(database, table)
    _save_ids(database, layout)
    return _joined(base, int(database.execute("SELECT count(*) FROM ids").fetchall()[0][0]))


def _joined(base: str, count: int) -> _Numbered:
    relation = (
        f"SELECT a.number AS s, b.number AS t, w, r FROM ({base}) e JOIN ids a ON a.id = e.s JOIN ids b ON b.id = e.t"
    )
    return _Numbered(relation, count)


def _save_ids(database: Any, layout: Layout) -> None:
    layout.node_ids_file.parent.mkdir(parents=True, exist_ok=True)
    database.execute(f"COPY (SELECT id FROM ids ORDER BY number) TO '{_quoted(layout.node_ids_file)}' (FORMAT parquet)")


def _arcs(ids: _Numbered, *, directed: bool) -> str:
    """Every edge, and in an undirected graph every edge the other way round too, but for self-loops."""
    edges = f"SELECT s, t, w, r FROM ({ids.relation})"
    if directed:
        return edges
    return f"{edges} UNION ALL SELECT t, s, w, r FROM ({edges}) WHERE s <> t"


def _sorted(database: Any, arcs: str) -> Iterator[dict[str, Any]]:
    reader = database.sql(f"SELECT s, t, w FROM ({arcs}) ORDER BY s, t, r").to_arrow_reader(_BATCH)
    for batch in reader:
        row, col, value = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        yield {"row": row.astype(np.int64, copy=False), "col": col.astype(np.int64, copy=False), "value": value}
