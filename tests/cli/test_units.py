"""Numbers for people."""

import pytest

from rfp.cli.units import human_bytes, human_count


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (736_980_736, "737.0 MB"), (5e12, "5.0 TB"), (2e15, "2.0 PB")],
)
def test_bytes(count: float, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (12, "12"), (12_345, "12.3 k"), (7.5e9, "7.5 G")])
def test_counts(count: float, text: str) -> None:
    assert human_count(count) == text
