"""The files of a table: Markdown and CSV."""

from __future__ import annotations

from pathlib import Path

from rfp.atomic import atomic_files
from rfp.reproduce.compare import Comparison
from rfp.reproduce.render import as_csv, as_markdown


def write_table(table: Comparison, folder: Path, *, below: str = "") -> list[Path]:
    """Write ``table-N.md`` and ``table-N.csv``, or ``table-N-quick`` or ``table-N-part`` of both.

    Args:
        table: What to write.
        folder: Made if it is not there.
        below: Further Markdown.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = table.spec.name
    texts = {folder / f"{name}.md": as_markdown(table) + below, folder / f"{name}.csv": as_csv(table)}
    with atomic_files(list(texts)) as open_files:
        for file, text in zip(open_files, texts.values(), strict=True):
            file.write(text.encode())
    return list(texts)
