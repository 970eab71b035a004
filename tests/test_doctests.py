"""The examples in docstrings: each is run, and gives what it shows."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).resolve().parent.parent / "src"


def modules() -> list[str]:
    """Names of the modules that show something."""
    paths = sorted(path for path in (SOURCE / "rfp").rglob("*.py") if ">>> " in path.read_text())
    return [".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for path in paths]


@pytest.mark.parametrize("name", modules())
def test_examples_of(name: str) -> None:
    done = doctest.testmod(import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def test_most_of_the_library_has_examples() -> None:
    assert len(modules()) > 60
