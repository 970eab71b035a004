"""Row blocks of a graph: from memory, and from files by DuckDB within a limit on memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import rfp
from rfp.errors import FileError, GraphError
from rfp.partitioned.checked_files import load_array
from rfp.partitioned.duckdb_edges import prepare_table
from rfp.partitioned.edge_numbers import EdgeScan
from rfp.partitioned.layout import Layout, StoredGraph
from rfp.partitioned.row_blocks import BlockLimit, merge
from rfp.partitioned.sorted_blocks import prepare_graph

TINY = BlockLimit(bytes_in_all=600, bytes_per_row=16)
LARGE = BlockLimit(bytes_in_all=1 << 30, bytes_per_row=16)


def random_graph(seed: int, n: int, m: int, *, weighted: bool, directed: bool) -> rfp.Graph:
    rng = np.random.default_rng(seed)
    matrix = sp.coo_array((np.ones(m), (rng.integers(0, n, m), rng.integers(0, n, m))), shape=(n, n)).tocsr()
    matrix.sum_duplicates()
    matrix.data[:] = rng.choice([0.5, 2.0, 3.0], matrix.nnz) if weighted else 1.0
    graph = rfp.as_graph(matrix)
    return graph if directed else graph.to_undirected()


def assembled(layout: Layout, stored: StoredGraph, side: str = "") -> sp.csr_array:
    """The matrix that the blocks hold, put together with NumPy alone."""
    indptr, col, value = [np.zeros(1, np.int64)], [], []
    for block in range(stored.num_blocks):
        crow, columns, values = (np.load(layout.graph_file(block, part, side)) for part in ("crow", "col", "value"))
        rows = stored.rows(block)
        assert len(crow) == rows.stop - rows.start + 1
        indptr.append(crow[1:] + indptr[-1][-1])
        col.append(columns)
        value.append(values.astype(np.float64))
    n = stored.num_nodes
    return sp.csr_array((np.concatenate(value), np.concatenate(col), np.concatenate(indptr)), shape=(n, n))


def check(layout: Layout, stored: StoredGraph, graph: rfp.Graph) -> None:
    matrix, expected = assembled(layout, stored), graph.to_scipy()
    assert abs(matrix - expected).max() == 0
    assert matrix.has_canonical_format  # rows sorted, each place once
    on_diagonal = np.repeat(np.arange(graph.num_nodes), np.diff(matrix.indptr)) == matrix.indices
    assert on_diagonal.sum() == graph.num_nodes
    assert stored.key == int(graph.keys[0])
    assert (stored.num_nodes, stored.num_edges) == (graph.num_nodes, expected.nnz)
    assert stored.num_entries == matrix.nnz
    assert stored.weighted == bool((expected.data != 1).any())
    assert stored.cuts[0] == 0
    assert stored.cuts[-1] == graph.num_nodes
    assert all(low < high for low, high in zip(stored.cuts, stored.cuts[1:], strict=False))
    np.testing.assert_allclose(load_array(layout.sums_file("row")), abs(expected).sum(1), rtol=1e-15)
    if not stored.symmetric:
        np.testing.assert_allclose(load_array(layout.sums_file("col")), abs(expected).sum(0), rtol=1e-15)
    np.testing.assert_array_equal(load_array(layout.loops_file()), expected.diagonal() != 0)


@pytest.mark.parametrize("limit", [TINY, LARGE])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_a_graph_in_memory(
    tmp_path: Path, seed: int, weighted: bool, directed: bool, limit: BlockLimit
) -> None:
    graph = random_graph(seed, 7 + 30 * seed, 60 * seed, weighted=weighted, directed=directed)
    stored = prepare_graph(graph, Layout(tmp_path), limit=limit)
    check(Layout(tmp_path), stored, graph)
    if limit is TINY and seed:
        assert stored.num_blocks > 1
        for block in range(stored.num_blocks):
            rows = stored.rows(block)
            edges = graph.to_scipy()[rows.start : rows.stop].nnz
            assert rows.stop - rows.start == 1 or limit.cost(rows.stop - rows.start, edges) <= limit.bytes_in_all


def test_many_isolated_nodes_fill_blocks_too(tmp_path: Path) -> None:
    graph = rfp.Graph(torch.tensor([[0, 1, 900, 901], [1, 0, 901, 900]]), 2000)
    stored = prepare_graph(graph, Layout(tmp_path), limit=TINY)
    check(Layout(tmp_path), stored, graph)
    assert max(np.diff(stored.cuts)) <= 600 // 16


def test_a_row_stays_whole(tmp_path: Path) -> None:
    star = torch.stack([torch.zeros(99, dtype=torch.long), torch.arange(1, 100)])
    graph = rfp.Graph(torch.cat([star, star.flip(0)], dim=1), 100)
    stored = prepare_graph(graph, Layout(tmp_path), limit=TINY)
    check(Layout(tmp_path), stored, graph)
    assert stored.cuts[:2] == (0, 1)


def table_of(path: Path, columns: dict[str, Any]) -> EdgeScan:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    weight = "w" if "w" in columns else None
    return EdgeScan(f"read_parquet('{path}')", "s", "t", weight, (path,))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("ids", ["numbers", "holes", "gaps", "texts"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_table_is_numbered_doubled_and_sorted_as_the_reader_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weighted: bool, ids: str, packed: bool, directed: bool
) -> None:
    if not packed:  # as above 2^31 nodes
        monkeypatch.setattr("rfp.partitioned.duckdb_edges.KEY_BOUND", 0)
    rng = np.random.default_rng(3)
    pairs = np.unique(np.sort(rng.integers(0, 40, (150, 2)), axis=1), axis=0)
    pairs = rng.permutation(pairs)
    if ids == "numbers":
        pairs = np.concatenate([pairs, np.stack([np.arange(40), np.arange(40)[::-1]], 1)])
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    elif ids in ("gaps", "holes"):  # few enough for a table of all ids, or too many for the memory
        pairs = pairs * (3 if ids == "holes" else 1_000_003) + 7
    names: Any = pairs if ids != "texts" else np.array([[f"n{x:03d}" for x in pair] for pair in pairs], dtype=object)
    columns: dict[str, Any] = {"s": names[:, 0], "t": names[:, 1]}
    if weighted:
        columns["w"] = rng.choice([0.5, 2.0, 3.0], len(pairs))
    table = table_of(tmp_path / "edges.parquet", columns)
    layout = Layout(tmp_path / "store")
    stored = prepare_table(table, layout, directed=directed, duplicates=None, memory=200_000_000, limit=TINY)

    if ids == "texts":
        order = list(dict.fromkeys(names.ravel().tolist()))  # first appearance, source before target
        number = {name: i for i, name in enumerate(order)}
    else:
        order = sorted(set(names.ravel().tolist()))
        number = {name: i for i, name in enumerate(order)}
    ends = torch.tensor([[number[x] for x in names[:, c].tolist()] for c in (0, 1)])
    weight = torch.from_numpy(columns["w"]) if weighted else None
    graph = rfp.Graph(ends, len(order), weight)
    check(layout, stored, graph if directed else graph.to_undirected())
    assert layout.node_ids_file.exists() == (ids != "numbers")
    if ids != "numbers":
        import pyarrow.parquet as pq

        assert pq.read_table(layout.node_ids_file)["id"].to_pylist() == order
    assert not (tmp_path / "store" / "preparing").exists()


@pytest.mark.parametrize(
    ("duplicates", "expected"), [("sum", 7.0), ("first", 5.0), ("max", 5.0), (None, "different weights")]
)
def test_edges_with_the_same_ends(tmp_path: Path, duplicates: str | None, expected: Any) -> None:
    columns = {"s": np.array([0, 1, 1]), "t": np.array([1, 0, 2]), "w": np.array([5.0, 2.0, 1.0])}
    table = table_of(tmp_path / "edges.parquet", columns)
    layout = Layout(tmp_path / "store")
    arguments: Any = {"directed": False, "duplicates": duplicates, "memory": 200_000_000, "limit": LARGE}
    if isinstance(expected, str):
        with pytest.raises(GraphError, match=expected):
            prepare_table(table, layout, **arguments)
        return
    matrix = assembled(layout, prepare_table(table, layout, **arguments))
    assert matrix[0, 1] == matrix[1, 0] == expected


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_further_matrices_of_a_directed_table_are_those_of_memory(tmp_path: Path, signed: bool, holes: bool) -> None:
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {"s": rng.integers(0, 30, 200), "t": rng.integers(0, 30, 200)}
    columns["w"] = rng.choice([-3.0, -0.5, 0.5, 3.0] if signed else [0.5, 2.0], 200)
    ends = {name: 3 * columns[name] if holes else columns[name] for name in ("s", "t")}
    table = table_of(tmp_path / "edges.parquet", {**columns, **ends})
    arguments: Any = {"directed": True, "duplicates": "first", "memory": 200_000_000, "limit": TINY}
    stored = prepare_table(
        table,
        Layout(tmp_path / "files"),
        num_nodes=None if holes else 30,
        sides=lambda symmetric: ["T", "sym"],
        **arguments,
    )
    first: dict[tuple[int, int], float] = {}
    for s, t, w in zip(columns["s"].tolist(), columns["t"].tolist(), columns["w"].tolist(), strict=True):
        first.setdefault((s, t), w)
    places, weight = torch.tensor(list(first)).T, torch.tensor(list(first.values()), dtype=torch.float64)
    graph = rfp.Graph(places, 30, weight)
    check(Layout(tmp_path / "files"), stored, graph)
    again = prepare_graph(graph, Layout(tmp_path / "memory"), limit=TINY, sides=["T", "sym"])
    assert again.num_entries == stored.num_entries
    for side, matrix in (("T", graph.to_scipy().T.tocsr()), ("sym", graph.to_undirected().to_scipy())):
        for name, cuts in (("files", stored), ("memory", again)):
            layout = Layout(tmp_path / name)
            found = assembled(layout, cuts, side)
            assert abs(found - matrix).max() == 0
            if side == "sym":
                np.testing.assert_allclose(load_array(layout.sums_file("row", "sym")), abs(matrix).sum(1), rtol=1e-15)


def test_merging_in_pieces_is_merging_at_once() -> None:
    row, col = np.array([0, 0, 0, 2]), np.array([1, 1, 3, 0])
    merged = merge(row, col, np.array([1.0, 4.0, 2.0, 9.0]), "sum")
    assert merged.row.tolist() == [0, 0, 2]
    assert merged.col.tolist() == [1, 3, 0]
    assert merged.value.tolist() == [5.0, 2.0, 9.0]
    with pytest.raises(GraphError, match="nodes 0 and 1 is listed more than once"):
        merge(row, col, np.ones(4), "error")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"s": np.array([0, -1]), "t": np.array([1, 2])}, "node id -1 is negative"),
        ({"s": [0, None], "t": [1, 2]}, "1 edges have no source or no target"),
        ({"s": [0, 1], "t": [1, 2], "w": [1.0, float("nan")]}, "1 weights are missing or not finite"),
        ({"s": np.zeros(0, np.int64), "t": np.zeros(0, np.int64)}, "no nodes"),
    ],
)
def test_wrong_tables_are_one_clear_line(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    table = table_of(tmp_path / "edges.parquet", columns)
    with pytest.raises(GraphError, match=message):
        prepare_table(
            table, Layout(tmp_path / "store"), directed=False, duplicates=None, memory=200_000_000, limit=LARGE
        )


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "edges.parquet").write_bytes(b"what")
    table = EdgeScan(f"read_parquet('{tmp_path / 'edges.parquet'}')", "s", "t", None, (tmp_path / "edges.parquet",))
    with pytest.raises(FileError):
        prepare_table(
            table, Layout(tmp_path / "store"), directed=False, duplicates=None, memory=200_000_000, limit=LARGE
        )
