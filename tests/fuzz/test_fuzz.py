"""A slice of the fuzzer; ``make fuzz`` runs thousands."""

from __future__ import annotations

import pytest

from rfp.io.compression import PACKED
from rfp.io.readers import FORMATS
from tests.fuzz.corpus import seeds
from tests.fuzz.harness import fuzz

pytestmark = pytest.mark.slow
COUNT = 300


def test_every_suffix_of_every_format_has_a_good_file() -> None:
    names = [seed.name for seed in seeds()]
    suffixes = {suffix for format in FORMATS.values() for suffix in format.suffixes} | set(PACKED)
    assert {suffix for suffix in suffixes if not any(name.endswith(suffix) for name in names)} == set()


def test_mutated_files_are_read_right_or_refused() -> None:
    said: list[str] = []
    outcome = fuzz(COUNT, seed=1, jobs=1, say=said.append)
    if outcome.failures:
        pytest.fail("\n".join(said))
    assert outcome.counts.total() == COUNT
    assert outcome.counts["refused"] > COUNT / 4  # the files are damaged indeed
    assert outcome.counts["accepted and compared"] > COUNT / 10  # and not only refused
