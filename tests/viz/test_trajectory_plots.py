"""A trajectory as pictures: what is drawn is what was computed."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

import rfp
from rfp.errors import ArgumentError
from rfp.viz import draw_angles, draw_dependent, draw_graph, draw_ritz_values, draw_scatter
from rfp.viz.trajectory_plots import channel_values

CLUB = nx.karate_club_graph()
OPERATORS = ["normalized_adjacency", "normalized_laplacian"]


@pytest.fixture(scope="module")
def t() -> rfp.Trajectory:
    return rfp.encode(CLUB, num_channels=3, num_steps=8, num_trajectories=2, operators=OPERATORS)


def test_graph_has_the_values_as_colours(t: rfp.Trajectory) -> None:
    ax = draw_graph(t, step=5, channel=2, operator=1, index=1)
    lines, points = ax.collections
    assert len(lines.get_segments()) == 78
    np.testing.assert_allclose(points.get_array(), t.states[1, :, 5, 3 + 2])
    low, high = points.get_clim()
    assert low == -high  # zero is in the middle
    assert high == pytest.approx(float(t.states[1, :, 5, 5].abs().max()))
    placed = np.random.default_rng(0).random((34, 2))
    again = draw_graph(t, positions=placed, ax=Figure().subplots())
    np.testing.assert_allclose(again.collections[1].get_offsets(), placed)
    assert again.get_title() == "step 8, channel 0"


def test_scatter_has_two_channels(t: rfp.Trajectory) -> None:
    ax = draw_scatter(t, step=4, channels=(2, 0), index=1)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), t.states[1, :, 4][:, [2, 0]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("channel 2", "channel 0")


def test_angles_are_those_of_this_trajectory(t: rfp.Trajectory) -> None:
    ax = draw_angles(t, operator=1, index=1)
    S = rfp.operators.from_name("normalized_laplacian", rfp.as_graph(CLUB), torch.float64).to_dense().numpy()
    values, vectors = np.linalg.eigh(S)
    dominant = vectors[:, np.argsort(-abs(values))[:3]]
    q = np.linalg.qr(t.states[1, :, 8, 3:].double().numpy())[0]
    largest = np.arccos(np.linalg.svd(dominant.T @ q, compute_uv=False).min())
    assert ax.get_lines()[2].get_ydata()[8] == pytest.approx(largest, rel=1e-4)
    ritz = draw_ritz_values(t, operator=1, index=1)
    drawn = sorted(line.get_ydata()[4] for line in ritz.get_lines() if line.get_marker() == "o")
    q = np.linalg.qr(t.states[1, :, 4, 3:].double().numpy())[0]
    np.testing.assert_allclose(drawn, np.linalg.eigvalsh(q.T @ S @ q), rtol=1e-5)


def test_dependent_columns_are_counted() -> None:
    star = rfp.encode(nx.star_graph(7), num_channels=4, num_steps=3, operators=["adjacency"])
    ax = draw_dependent(star)
    assert ax.get_title() == "dependent columns: 6 of 16"  # rank two: two columns at each of three steps
    assert ax.images[0].get_array().shape == (4, 4)


@pytest.mark.parametrize("graph", [nx.empty_graph(1), nx.empty_graph(4), nx.path_graph(2)])
def test_small_graphs(graph: nx.Graph) -> None:
    t = rfp.encode(graph, num_channels=2, num_steps=1)
    for ax in (draw_graph(t), draw_scatter(t)):
        ax.figure.savefig("/dev/null", format="png")
        points = [one for one in ax.collections if isinstance(one, PathCollection)]
        assert [len(one.get_offsets()) for one in points] == [len(graph)]  # a point for every node


@pytest.mark.parametrize("wrong", [{"step": 9}, {"step": -10}, {"channel": 3}, {"operator": 2}, {"index": 2}])
def test_what_is_not_there_is_refused(t: rfp.Trajectory, wrong: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be"):
        channel_values(t, **{"step": 0, **wrong})


def test_a_trajectory_that_does_not_know_its_graph() -> None:
    S = rfp.operators.from_name("adjacency", rfp.as_graph(CLUB))
    loose = rfp.propagate(S, torch.randn(34, 2), num_steps=2)
    with pytest.raises(ArgumentError, match="does not know its graph"):
        draw_graph(loose)
    assert draw_graph(loose, graph=CLUB).get_title() == "step 2, channel 0"
    with pytest.raises(ArgumentError, match="does not know its operators"):
        draw_angles(loose)
