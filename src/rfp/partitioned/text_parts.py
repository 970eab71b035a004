"""Text edge lists as Parquet on the way to DuckDB: read in pieces by our own reader, so that they mean what they say.

DuckDB's reader of CSV has its own ideas of comments, headers, quotes and leading zeros. Here a piece of the text is
parsed as :func:`rfp.read_graph` parses the whole, and kept as columns ``s``, ``t`` and ``w`` of a Parquet file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rfp.atomic import explained
from rfp.edge_table.table import EdgeTable
from rfp.errors import GraphError
from rfp.io.edge_list_pieces import read_pieces
from rfp.io.options import ReadOptions
from rfp.partitioned.edge_numbers import EdgeScan, parquet_relation


@dataclass
class TextParts:
    """Parquet files of edges, in the order of the text.

    Args:
        folder: Where they are written; gone when the graph is prepared.
    """

    folder: Path
    files: list[Path] = field(default_factory=list)
    texts: list[bool] = field(default_factory=list)
    num_rows: int = 0
    weighted: bool | None = None
    said: set[bool | None] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def directed(self) -> bool:
        """What the column of types says; undirected where there is none."""
        return self.said == {True}

    def add(self, path: Path, options: ReadOptions, piece: int, say: Callable[[str, int, int], None]) -> None:
        """Take the edges of another file."""
        import pyarrow.parquet as pq

        total, done = path.stat().st_size, 0
        writer: Any = None
        text = False
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            for table in read_pieces(path, options, piece):
                self._check_alike(table)
                self.facts = self.facts or dict(table.facts)
                columns = _arrow(table)
                try:
                    if writer is None or text != (table.texts is not None):
                        if writer is not None:
                            writer.close()
                        text = table.texts is not None
                        self.files.append(self.folder / f"part-{len(self.files):05d}.parquet")
                        self.texts.append(text)
                        # Numbers hardly repeat within a piece: a dictionary of them costs time and saves nothing.
                        writer = pq.ParquetWriter(self.files[-1], columns.schema, use_dictionary=text)
                    writer.write_table(columns)
                except OSError as error:
                    raise explained(error, self.files[-1]) from error
                self.num_rows += table.num_rows
                done = min(done + piece, total)
                say(f"reading {path.name}", done, total)
        finally:
            if writer is not None:
                writer.close()
        say(f"reading {path.name}", total, total)

    def _check_alike(self, table: EdgeTable) -> None:
        weighted = table.weight is not None
        if self.weighted is not None and weighted != self.weighted:
            raise GraphError(
                f"{table.where(0)} has {'a weight' if weighted else 'no weight'} and files before it "
                f"{'none' if weighted else 'have one'}; all files need the same columns, or --unweighted"
            )
        self.weighted = weighted
        self.said.add(table.directed)
        if {True, False} <= self.said:
            raise GraphError(
                f"{table.where(0)}: some edges are of the type directed, others undirected; say --directed or "
                "--undirected"
            )

    def scan(self) -> EdgeScan:
        """All parts for DuckDB; one that has text ids makes text of all."""
        if any(self.texts):
            self.files = [part if text else _as_text(part) for part, text in zip(self.files, self.texts, strict=True)]
        if not self.files:
            nothing = "(SELECT CAST(0 AS BIGINT) AS s, CAST(0 AS BIGINT) AS t WHERE false)"
            return EdgeScan(nothing, "s", "t", None, (), checked=True)
        weight = "w" if self.weighted else None
        return EdgeScan(parquet_relation(self.files), "s", "t", weight, tuple(self.files), checked=True)


def _arrow(table: EdgeTable) -> Any:
    import pyarrow as pa

    if table.texts is not None:
        columns = {"s": table.texts[0], "t": table.texts[1]}
    else:
        assert table.integers is not None
        columns = {"s": pa.array(table.integers[0]), "t": pa.array(table.integers[1])}
    if table.weight is not None:
        columns["w"] = pa.array(table.weight)
    return pa.table(columns)


def _as_text(part: Path) -> Path:
    """The same part with its integer ids as text, which is how they were written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, writer = part.with_suffix(".text.parquet"), None
    with pq.ParquetFile(part) as file:
        for batch in file.iter_batches(batch_size=1 << 20):
            table = pa.table(
                {
                    name: batch.column(name).cast(pa.string()) if name in ("s", "t") else batch.column(name)
                    for name in batch.schema.names
                }
            )
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    if writer is not None:
        writer.close()
    part.unlink()
    return path
