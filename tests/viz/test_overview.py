"""All figures in one."""

from __future__ import annotations

import networkx as nx
import pytest

import rfp
from rfp.errors import ArgumentError
from rfp.viz import overview
from rfp.viz.overview import chosen_steps


def titles(figure: object) -> list[str]:
    return [ax.get_title() for ax in figure.axes]  # type: ignore[attr-defined]


def test_chosen_steps_are_drawn() -> None:
    t = rfp.encode(nx.path_graph(8), num_channels=2, num_steps=9)
    assert titles(overview(t, steps=[0, 4, -1], channel=1))[:4] == [
        "step 0, channel 1",
        "step 4, channel 1",
        "step 9, channel 1",
        "step 9",
    ]
    assert chosen_steps(100) == [0, 1, 10, 100]
    with pytest.raises(ArgumentError, match="from 0 to 9"):
        overview(t, steps=[10])
    with pytest.raises(ArgumentError, match="between 1 and 8"):
        overview(t, steps=[])


def test_where_there_are_no_angles_it_says_so_and_shows_columns() -> None:
    t = rfp.encode(nx.path_graph(8), num_channels=2, num_steps=4, operators=["random_walk"])
    figure = overview(t)
    assert "must be symmetric" in " ".join(figure.axes[-2].texts[0].get_text().split())
    assert "dependent columns" in titles(figure)[-1]
