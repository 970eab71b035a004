"""The code in docs/theory.md runs and prints what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_theory_page() -> None:
    result = doctest.testfile(str(DOCS / "theory.md"), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r"\]\((images/[^)]+)\)", (DOCS / "theory.md").read_text())
    assert len(pictures) == 3
    assert all((DOCS / picture).stat().st_size > 10_000 for picture in pictures)
