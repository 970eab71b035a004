"""A table of edges that DuckDB scans, its ids checked and turned into node numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.edge_table.node_ids import doubtful_texts, shown
from rfp.errors import GraphError
from rfp.partitioned.checked_files import save_sum
from rfp.partitioned.layout import Layout

# Ids below this fit beside one another in one 64-bit key.
KEY_BOUND = 2**31
# Bytes that an id takes, there or not, where nodes are numbered by a table of all ids up to the largest.
_BYTES_PER_ID = 20


def parquet_relation(files: Sequence[Path]) -> str:
    """Parquet files as a relation in SQL: these and their own columns, whatever they or their folders are called.

    To DuckDB ``a[1].parquet`` is a pattern that means ``a1.parquet``, and a folder ``w=4`` a column w of fours.

    >>> parquet_relation([Path("w=4/a[1].parquet"), Path("it's.parquet")])
    "read_parquet(['w=4/a[[]1].parquet', 'it''s.parquet'], hive_partitioning = false)"
    """
    listed = ", ".join("'" + re.sub(r"([*?[])", r"[\1]", str(file)).replace("'", "''") + "'" for file in files)
    return f"read_parquet([{listed}], hive_partitioning = false)"


@dataclass(frozen=True)
class EdgeScan:
    """A table of edges that DuckDB can scan.

    Args:
        relation: In SQL, with the columns below, e.g. :func:`parquet_relation`.
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


@dataclass(frozen=True)
class NumberedEdges:
    """Edges with integer ends.

    Args:
        relation: In SQL, with columns s and t, w where there are weights, r (the place in the file) where it matters.
        bound: Every end is below it.
        more: Further columns: ``""``, ``", w"``, ``", r"`` or ``", w, r"``.
        gaps: Whether numbers below the bound may be missing: nodes are those that are there, in ascending order.
    """

    relation: str
    bound: int
    more: str = ""
    gaps: bool = False

    @property
    def order(self) -> str:
        """What decides between edges of the same ends."""
        return ", r" if self.more.endswith("r") else ""

    def swapped(self, where: str = "") -> str:
        """The edges the other way round."""
        return f"SELECT t AS s, s AS t{self.more} FROM ({self.relation}){where}"


def number_edges(
    database: Any, table: EdgeScan, num_nodes: int | None, layout: Layout, *, in_order: bool, memory: int
) -> NumberedEdges:
    """Number the nodes of a table as :func:`rfp.read_graph` does it; ids that are not numbers are stored.

    Args:
        database: Session of DuckDB.
        table: What to scan.
        num_nodes: The ids are 0 to ``num_nodes - 1``.
        layout: The folder.
        in_order: Whether the place of an edge in the file matters.
        memory: Bytes that may be used.
    """
    weight = f", CAST({table.weight} AS DOUBLE) AS w" if table.weight else ""
    place = ", row_number() OVER () AS r" if in_order else ""
    base = f"SELECT {table.source} AS s, {table.target} AS t{weight}{place} FROM {table.relation}"
    more = (", w" if weight else "") + (", r" if place else "")
    kinds = [str(row[1]) for row in database.execute(f"DESCRIBE {base}").fetchall()]
    _check_columns(database, base, table)
    if all(_is_integer(kind) for kind in kinds[:2]):
        return _number_integers(database, base, more, num_nodes, layout, memory)
    if num_nodes is not None:
        raise GraphError("--num-nodes is for integer ids, and these are text")
    return _number_texts(database, base, more, table, layout)


def _is_integer(kind: str) -> bool:
    return kind.upper() in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def _check_columns(database: Any, base: str, table: EdgeScan) -> None:
    """Raise for missing ids and weights that are no numbers."""
    if table.checked:
        return
    wrong = "count(*) FILTER (w IS NULL OR NOT isfinite(w))" if table.weight else "0"
    missing, bad = database.execute(
        f"SELECT count(*) FILTER (s IS NULL OR t IS NULL), {wrong} FROM ({base})"
    ).fetchall()[0]
    if missing:
        raise GraphError(f"{table.told}: {missing} edges have no source or no target; remove them")
    if bad:
        raise GraphError(f"{table.told}: {bad} weights are missing or not finite; correct them, or use --unweighted")


def _check_texts(database: Any, table: EdgeScan) -> None:
    """Raise for text ids in which a mistake would not be seen."""
    for pattern, advice in [] if table.checked else doubtful_texts(blanks_separate=False, any_text=True):
        query = f"SELECT id FROM ids WHERE regexp_matches(id, '{pattern}') LIMIT 1"
        for (name,) in database.execute(query).fetchall():
            raise GraphError(f"{table.told}: {advice.format(shown(name))}")


def _number_integers(
    database: Any, base: str, more: str, num_nodes: int | None, layout: Layout, memory: int
) -> NumberedEdges:
    low, high = database.execute(f"SELECT min(least(s, t)), max(greatest(s, t)) FROM ({base})").fetchall()[0]
    if low is None:
        return NumberedEdges(base, num_nodes or 0, more)
    if low < 0:
        raise GraphError(f"node id {low} is negative; expected integers from 0 on, or --ids text")
    if high >= 2**63:
        raise GraphError(f"node id {high} is larger than 2^63 - 1; read the ids with --ids text")
    if num_nodes is not None:
        if high >= num_nodes:
            raise GraphError(
                f"node id {high} is out of range for --num-nodes {num_nodes}, expected 0 to {num_nodes - 1}"
            )
        return NumberedEdges(base, num_nodes, more)
    if high < KEY_BOUND and _BYTES_PER_ID * (high + 1) <= memory // 2:
        # Numbers ascend with the ids, so edges are sorted by their ids and numbered afterwards, without a join.
        return NumberedEdges(base, high + 1, more, gaps=True)
    database.execute(
        f"CREATE TABLE ids AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS number "
        f"FROM (SELECT s AS id FROM ({base}) UNION SELECT t FROM ({base}))"
    )
    count = _count_ids(database)
    if high == count - 1:
        return NumberedEdges(base, count, more)  # 0 to n - 1 already
    _save_ids(database, layout)
    return _joined(base, more, count)


def _number_texts(database: Any, base: str, more: str, table: EdgeScan, layout: Layout) -> NumberedEdges:
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
    return _joined(base, more, _count_ids(database))


def _count_ids(database: Any) -> int:
    return int(database.execute("SELECT count(*) FROM ids").fetchall()[0][0])


def _joined(base: str, more: str, count: int) -> NumberedEdges:
    relation = (
        f"SELECT a.number AS s, b.number AS t{more} FROM ({base}) e JOIN ids a ON a.id = e.s JOIN ids b ON b.id = e.t"
    )
    return NumberedEdges(relation, count, more)


def _save_ids(database: Any, layout: Layout) -> None:
    layout.node_ids_file.parent.mkdir(parents=True, exist_ok=True)
    file = str(layout.node_ids_file).replace("'", "''")
    database.execute(f"COPY (SELECT id FROM ids ORDER BY number) TO '{file}' (FORMAT parquet)")
    save_sum(layout.node_ids_file)


def number_of_ids(there: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The number of each id, counted among those that are there.

    >>> number_of_ids(np.array([True, False, True, True])).tolist()
    [0, 0, 1, 2]
    """
    return np.cumsum(there, dtype=np.int32) - np.int32(1)
