"""What documents point at is there. The site's own links are followed when it is built; these are read on a forge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *(path for path in (ROOT / "docs").rglob("*.md") if not path.relative_to(ROOT).parts[1].startswith("_")),
]
# Written by the project itself, or the form of a name.
NOT_FILES = ("docs/_build/", "src/rfp/x/", "tests/x/")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_lead_to_files(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    dead = [link for link in links if link and "://" not in link and not (document.parent / link).exists()]
    assert dead == []
    named = re.findall(r"`((?:examples|benchmarks|docs|src|tests|results)/[^`\s]*)`", text)
    here = (ROOT, document.parent)  # benchmarks/README.md names its own results/
    missing = [
        name
        for name in named
        if not name.startswith(NOT_FILES) and not any(any(place.glob(name.rstrip("/"))) for place in here)
    ]
    assert missing == []


def test_enough_was_looked_at() -> None:
    assert len(DOCUMENTS) > 35
