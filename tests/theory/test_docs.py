"""The pictures of docs/concepts/theory.md are there; tests/run_documents.py runs its code."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "concepts"


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r"\]\((../images/[^)]+)\)", (DOCS / "theory.md").read_text())
    assert len(pictures) == 3
    assert all((DOCS / picture).stat().st_size > 10_000 for picture in pictures)
