"""Tests of the partitioned encoding write thousands of small files: they do not wait for the disk at each."""

import pytest


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.partitioned.checked_files.os.fsync", lambda handle: None)
