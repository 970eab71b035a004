"""Pages and parts of pages that are made when the site is built."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
PARTS = DOCS / "_generated"  # included by pages; not pages themselves


def write(path: Path, text: str) -> None:
    """Write a file, unless it is there and the same: Sphinx reads again what is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
