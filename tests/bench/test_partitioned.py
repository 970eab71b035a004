"""The bench of graphs larger than memory, on one that is not."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rfp.bench.partitioned import Measured, Run, draw_edges, measure_partitioned, read_measured, runs, write_measured


def test_edges_have_a_heavy_tail_and_the_same_numbers_again(tmp_path: Path) -> None:
    draw_edges(tmp_path / "a.parquet", 1000, 20_000, batch=7_000)
    draw_edges(tmp_path / "b.parquet", 1000, 20_000, batch=7_000)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.equals(pq.read_table(tmp_path / "b.parquet"))
    degree = np.bincount(np.concatenate([c.to_numpy() for c in table.columns]), minlength=1000)
    assert table.num_rows == 20_000
    assert len(degree) == 1000
    assert degree.max() > 20 * np.median(degree)


def test_rows_are_kept_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Run("limit", "small", 200, 600, 4, 2, memory=330_000_000, limited=True)
    monkeypatch.setattr("rfp.bench.partitioned.runs", lambda largest: [small])
    monkeypatch.setattr("rfp.partitioned.checked_files.os.fsync", lambda handle: None)
    said: list[str] = []
    rows = measure_partitioned(10**5, tmp_path / "work", tmp_path / "out", said.append)
    assert [one.phase for one in rows] == ["prepare", "steps", "all"]
    limit = "anonymous memory within 330 MB by RLIMIT_DATA"
    assert [one.limit for one in rows] == ["", limit, limit]
    assert all(one.seconds > 0 and one.peak_mib > 50 and one.num_nodes <= 200 for one in rows)
    assert rows[2].seconds == pytest.approx(rows[0].seconds + rows[1].seconds)
    assert list((tmp_path / "work").iterdir()) == []
    path = next((tmp_path / "out").glob("partitioned-*.csv"))
    assert read_measured(path) == rows
    again: list[str] = []
    assert measure_partitioned(10**5, tmp_path / "work", tmp_path / "out", again.append) == rows
    assert again == ["limit, small: measured before"]


def test_what_is_measured_grows_by_decades() -> None:
    assert [run.edges for run in runs(10**7) if run.case == "growth"] == [50_000, 500_000, 5_000_000]
    assert {run.nodes for run in runs(10**9) if run.case != "growth"} == {1_000_000}


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [Measured("growth", "10^6", 49_990, 10**6, 16, 4, phase, 0.3, 0.5, 100.0) for phase in ("prepare", "steps")]
    write_measured(rows, tmp_path / "a.csv")
    assert read_measured(tmp_path / "a.csv") == rows
    assert read_measured(tmp_path / "none.csv") == []
