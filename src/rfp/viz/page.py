"""A picture as one HTML file: a slider through the steps, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import html
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.conversion import as_graph
from rfp.trajectory import Trajectory
from rfp.viz.trajectory_plots import channel_values, diverging_map

# Larger graphs are shown by the still picture alone: every node and edge is an element of the page.
PAGE_MAX_NODES, PAGE_MAX_EDGES = 3_000, 10_000
_SIZE = 560

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 24px auto; max-width: 1100px; padding: 0 16px; color: #1b1f24; }}
h1 {{ font-size: 20px; }} img {{ width: 100%; height: auto; }} svg {{ width: 100%; max-height: 70vh; }}
input {{ width: 100%; }} pre {{ background: #f3f3f1; padding: 12px; border-radius: 8px; overflow: auto; }}
</style></head><body>
<h1>{title}</h1>
{slider}
<img alt="The graph at several steps, two channels, the angles to the eigenvectors" src="data:image/png;base64,{png}">
<pre>{command}</pre>
</body></html>
"""

_SLIDER = """<svg viewBox="-{half} -{half} {side} {side}" role="img" aria-label="The graph">
<g stroke="#39424c" stroke-opacity="{opacity}">{lines}</g>
<g stroke="#1b1f24" stroke-width="0.8" id="nodes">{dots}</g></svg>
<label><input type="range" id="step" min="0" max="{last}" value="{step}" aria-label="Step"></label>
<p id="told"></p>
<script>
const colors = {colors}, table = {table}, nodes = [...document.querySelectorAll("#nodes circle")];
const step = document.querySelector("#step"), told = document.querySelector("#told");
function draw() {{
  nodes.forEach((node, i) => node.setAttribute("fill", table[colors[step.value][i]]));
  told.textContent = `step ${{step.value}} of {last}, channel {channel}`;
}}
step.addEventListener("input", draw);
draw();
</script>"""


def as_html(
    trajectory: Trajectory,
    graph: Any,
    png: bytes,
    *,
    step: int,
    channel: int,
    operator: int,
    index: int,
    positions: NDArray[np.float32],
    title: str,
    command: str,
) -> str:
    """The page, as text.

    Args:
        trajectory: The trajectory of this graph.
        graph: Anything :func:`rfp.encode` takes.
        png: The still picture under the slider.
        step: Where the slider stands at first.
        channel: The channel that colours the nodes.
        operator: Number of the operator, from 0.
        index: Number of the trajectory, from 0.
        positions: ``[n, 2]``.
        title: The heading.
        command: What made it, shown at the end.
    """
    read = as_graph(graph)
    source, target = read.edge_index.cpu().numpy()
    pairs = np.unique(np.sort(np.stack([source, target], 1)[source != target], axis=1), axis=0)
    slider = ""
    if read.num_nodes <= PAGE_MAX_NODES and len(pairs) <= PAGE_MAX_EDGES:
        which = {"channel": channel, "operator": operator, "index": index}
        slider = _slider(trajectory, pairs, positions, step=step, **which)
    return _PAGE.format(
        title=html.escape(title), slider=slider, png=base64.b64encode(png).decode(), command=html.escape(command)
    )


def _slider(
    trajectory: Trajectory,
    pairs: NDArray[np.int64],
    positions: NDArray[np.float32],
    *,
    step: int,
    **which: int,
) -> str:
    last = trajectory.storage.size(3) - 1
    x, y = (0.46 * _SIZE * positions * np.array([1, -1])).round(2).T
    colors = []
    for p in range(last + 1):
        values = np.nan_to_num(channel_values(trajectory, step=p, **which), posinf=0, neginf=0)
        limit = np.abs(values).max(initial=0) or 1.0
        colors.append(np.rint(127.5 + 127.5 * values / limit).astype(int).tolist())
    rgb = (255 * diverging_map()(np.linspace(0, 1, 256))[:, :3]).round().astype(int)
    radius = float(np.clip(60 / np.sqrt(len(x)), 1.5, 8))
    return _SLIDER.format(
        half=_SIZE // 2,
        side=_SIZE,
        opacity=round(float(np.clip(9 / np.sqrt(len(pairs) + 1), 0.03, 0.34)), 3),
        lines="".join(f'<line x1="{x[i]}" y1="{y[i]}" x2="{x[j]}" y2="{y[j]}"/>' for i, j in pairs),
        dots="".join(f'<circle cx="{a}" cy="{b}" r="{radius:.1f}"/>' for a, b in zip(x, y, strict=True)),
        colors=json.dumps(colors),
        table=json.dumps([f"rgb({r},{g},{b})" for r, g, b in rgb]),
        last=last,
        step=step % (last + 1),
        channel=which["channel"],
    )
