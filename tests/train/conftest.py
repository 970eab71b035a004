"""What tests of training share."""

import pytest

from rfp.data import LoadedTask, load
from tests.train.club_replicas import CLUB


@pytest.fixture(scope="module")
def club() -> LoadedTask:
    """The karate club with three splits."""
    return load(CLUB)
