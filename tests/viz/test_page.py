"""The picture as one HTML file."""

from __future__ import annotations

import json
import re

import networkx as nx
import numpy as np

import rfp
from rfp.viz.node_positions import positions
from rfp.viz.page import as_html

PATH = nx.path_graph(5)


def page(graph: nx.Graph, **changes: object) -> str:
    t = rfp.encode(graph, num_channels=2, num_steps=3)
    arguments = {"step": -1, "channel": 1, "operator": 0, "index": 0, "title": "<b>", "command": "rfp plot 'a & b'"}
    return as_html(t, graph, b"png", positions=positions(graph), **{**arguments, **changes})  # type: ignore[arg-type]


def test_it_holds_every_step_and_loads_nothing() -> None:
    text = page(PATH)
    assert text.count("<circle") == 5
    assert text.count("<line ") == 4
    assert 'value="3"' in text
    colors = np.array(json.loads(re.search(r"const colors = (\[\[.*?\]\])", text)[1]))  # type: ignore[index]
    values = rfp.encode(PATH, num_channels=2, num_steps=3).states[0, :, :, 1].T.numpy()
    expected = 127.5 + 127.5 * values / abs(values).max(axis=1, keepdims=True)
    np.testing.assert_allclose(colors, expected, atol=0.5001)
    assert "http" not in text
    assert "<title>&lt;b&gt;</title>" in text
    assert "rfp plot &#x27;a &amp; b&#x27;" in text


def test_a_large_graph_is_the_still_picture_alone() -> None:
    large = nx.path_graph(4000)
    assert "<circle" not in page(large)
