"""Pictures that notebooks show by themselves."""

from __future__ import annotations

from pathlib import Path

import networkx as nx

from rfp.settings import Settings
from rfp.viz import show


def test_a_picture_shows_itself_and_is_saved(tmp_path: Path) -> None:
    settings = Settings(num_channels=3, num_steps=4, operators=["adjacency", "normalized_laplacian"])
    picture = show(nx.path_graph(6), settings, channel=2, operator=1, steps=[4])
    assert picture._repr_png_().startswith(b"\x89PNG")
    for name, begin in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        picture.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().lstrip().startswith(begin)
    drawn = {kind: picture.to_bytes(kind) for kind in ("pdf", "svg", "png")}
    # The same, whatever was drawn between. As a set: to compare two pictures byte by byte takes pytest minutes.
    assert len({(tmp_path / "a.png").read_bytes(), drawn["png"], picture.to_bytes("png")}) == 1
