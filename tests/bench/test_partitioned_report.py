"""What is said of measured rows: slopes, tables and forecasts, by hand."""

from pathlib import Path

import pytest

from rfp.bench.partitioned import Measured
from rfp.bench.partitioned_report import forecast, forecast_table, growth_slope, growth_table, pair_table, plot_growth


def row(decade: int, seconds: float, phase: str = "all") -> Measured:
    return Measured("growth", f"10^{decade}", 10**decade // 20, 10**decade, 16, 4, phase, seconds, seconds, 100.0)


def pair(case: str, name: str, seconds: float, cpu: float, limit: str = "") -> Measured:
    return Measured(case, name, 10**6, 2 * 10**7, 64, 8, "steps", seconds, cpu, 300.0, limit)


def test_the_slope_and_the_picture(tmp_path: Path) -> None:
    rows = [row(d, 3e-7 * 10**d, phase) for d in (6, 7, 8) for phase in ("prepare", "steps", "all")]
    assert growth_slope(rows) == pytest.approx(1.0)
    assert growth_slope(rows[:3]) is None
    plot_growth(rows, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_graph_that_was_measured_again_counts_once() -> None:
    rows = [row(6, 99.0), row(7, 10.0), row(6, 1.0)]
    assert growth_slope(rows) == pytest.approx(1.0)


def test_the_forecast_by_hand() -> None:
    # 40 s for 4 steps of 1e8 + 5e6 rows and entries of 16 channels.
    found = forecast([row(8, 40.0, "steps")], num_nodes=1e9, num_entries=2e10, channels=32, machines=10)
    work = 10 * (2e10 + 1e9) * 32 / ((1e8 + 5e6) * 16) / 10
    assert found.work_seconds == pytest.approx(work)
    assert found.machine_bytes == pytest.approx(128e9)
    assert found.network_bytes == pytest.approx(1280e9)
    assert found.seconds == pytest.approx(work + 128e9 / 1.25e9)


def test_the_tables_by_hand() -> None:
    rows = [row(8, seconds, phase) for phase, seconds in (("prepare", 120.0), ("steps", 40.0), ("all", 160.0))]
    assert growth_table(rows).splitlines()[2:] == [
        "| 5,000,000 | 100,000,000 | 2.0 min | 100 MiB | 40.0 s | 100 MiB | 2.7 min |"
    ]
    lines = forecast_table(rows).splitlines()
    # 28.43 GB a machine in 22.7 s; 10 s a step times 3.3424e9 * 64 / (1.05e8 * 16) / 10 = 127.3 s of work.
    assert lines[2] == "| ogbn-papers100M | 10 | 2.1 min | 22.7 s | 2.5 min | 28 GB | 284 GB |"
    assert lines[3] == "| ogbn-papers100M | 100 | 12.7 s | 22.7 s | 35.5 s | 28 GB | 2.84 TB |"
    assert lines[4].startswith("| 10¹¹ edges | 10 | 2.2 h | 17.1 min | 2.5 h | 1.28 TB | 12.8 TB |")
    assert "At the 1200 ns a non-zero" in lines[-1]
    assert "64.6 min (ogbn-papers100M) and 2.8 days (10¹¹ edges)" in lines[-1]


def test_pairs_are_compared_with_their_first_row() -> None:
    rows = [pair("limit", "unlimited", 10.0, 16.0), pair("limit", "330 MB", 15.0, 24.0, "by RLIMIT_DATA")]
    assert pair_table([*rows, pair("workers", "plain loop", 1.0, 1.0)], "limit").splitlines()[2:] == [
        "| unlimited | 10.0 s | 1.00× | 16.0 s | 1.00× | 300 MiB |",
        "| 330 MB (by RLIMIT_DATA) | 15.0 s | 1.50× | 24.0 s | 1.50× | 300 MiB |",
    ]
