"""Pictures in a notebook without widgets, extensions or a running server: what is shown stays when it is closed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rfp.atomic import atomic_files
from rfp.encode import encode
from rfp.settings import Settings
from rfp.viz.overview import overview

# What a picture can be saved as.
PICTURE_SUFFIXES = (".png", ".svg", ".pdf", ".html")


@dataclass(frozen=True)
class Picture:
    """A matplotlib ``Figure`` that notebooks show by themselves, and that can be saved."""

    figure: Any

    def _repr_png_(self) -> bytes:
        return self.to_bytes("png")

    def to_bytes(self, kind: str) -> bytes:
        """The picture as ``"png"``, ``"svg"`` or ``"pdf"``."""
        file = io.BytesIO()
        # No date in the file: the same picture is the same bytes.
        metadata = {"Software": None} if kind == "png" else {"Date": None} if kind == "svg" else {"CreationDate": None}
        self.figure.savefig(file, format=kind, dpi=150, metadata=metadata)
        return file.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the picture; the suffix says what as."""
        with atomic_files([Path(path)]) as files:
            files[0].write(self.to_bytes(Path(path).suffix.lower().removeprefix(".")))


def show(graph: Any, settings: Settings | None = None, *, channel: int = 0, **drawing: Any) -> Picture:
    """Encode a graph and see it: the last line of a notebook's cell is enough.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        settings: The arguments of the encoding.
        channel: The channel that colours the nodes.
        drawing: ``steps``, ``second``, ``operator``, ``index``, ``positions``, ``title`` of :func:`~rfp.viz.overview`.

    Example:
        >>> import networkx as nx
        >>> picture = show(nx.karate_club_graph(), Settings(num_channels=4, num_steps=16), channel=1)
        >>> picture.to_bytes("png")[:4]
        b'\\x89PNG'
    """
    figure = overview(encode(graph, settings), channel=channel, **drawing)
    # A constrained layout moves a little with every drawing, and with the kind of file: it is settled, and then stays.
    for _ in range(2):
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return Picture(figure)
