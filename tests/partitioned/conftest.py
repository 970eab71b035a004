"""What all tests of partitioned encodings share."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files of a few bytes: these tests end processes by exceptions, which lose nothing that is written.

    Processes that are killed for good (test_faults.py) run on their own, with the real call.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
