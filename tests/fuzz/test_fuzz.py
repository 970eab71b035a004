"""A slice of the fuzzer; ``make fuzz`` runs thousands."""

from __future__ import annotations

import pytest

from tests.fuzz.harness import fuzz

COUNT = 300


def test_mutated_files_are_read_right_or_refused() -> None:
    said: list[str] = []
    outcome = fuzz(COUNT, seed=1, jobs=1, say=said.append)
    if outcome.failures:
        pytest.fail("\n".join(said))
    assert outcome.counts.total() == COUNT
    assert outcome.counts["refused"] > COUNT / 4  # the files are damaged indeed
    assert outcome.counts["accepted and compared"] > COUNT / 10  # and not only refused
