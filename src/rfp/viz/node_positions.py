r"""Where to draw the nodes: springs for small graphs, coordinates of the propagation itself for large ones.

Both begin with *RFP coordinates*: random features propagated by :math:`(I + \hat A) / 2` until they span the slowest
directions of the graph, the second and third of which are drawn (what a spectral layout computes exactly, here in a
fixed number of sparse products).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import fft
from scipy.sparse.csgraph import connected_components

from rfp.conversion import as_graph
from rfp.features import random_features
from rfp.graph import Graph
from rfp.one_loop import states
from rfp.operators import FunctionOperator, from_name

Positions = NDArray[np.float32]  # [n, 2]
# All pairs repel each other up to this size: 8 MB an array, some 10 ms a round.
SPRING_MAX_NODES = 1000
_SPRING_ROUNDS = 120
_MESH_ROUNDS = 100
# Cells of the mesh on which larger graphs repel, in each direction.
_MESH = 256
_COORDINATE_STEPS = 192


def method(num_nodes: int) -> str:
    """How a graph of this size is laid out: ``"spring"`` or ``"rfp"``."""
    return "spring" if num_nodes <= SPRING_MAX_NODES else "rfp"


def positions(graph: Any, *, seed: int = 0, progress: Callable[[int, int], None] | None = None) -> Positions:
    """Lay out a graph in the plane.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        seed: Same seed and same graph, same picture.
        progress: Called with (rounds done, rounds in all).

    Returns:
        ``[n, 2]`` float32, centred, the farthest node at distance 1.

    Example:
        >>> import networkx as nx
        >>> positions(nx.path_graph(4)).shape
        (4, 2)
    """
    last = np.zeros((0, 2), np.float32)
    for done, total, placed in rounds(graph, seed=seed):
        last = placed
        if progress is not None:
            progress(done, total)
    return last


def rounds(graph: Any, *, seed: int = 0) -> Iterator[tuple[int, int, Positions]]:
    """The layout as it forms: (rounds done, rounds in all, positions so far), for those who want to watch or stop.

    Costs O(n²) a round up to :data:`SPRING_MAX_NODES` nodes and O(n + m) beyond.
    """
    read = as_graph(graph).to("cpu")
    n = read.num_nodes
    ends = _undirected_pairs(read)
    rng = np.random.default_rng(seed)
    x = _start(read, ends, rng)
    small = method(n) == "spring"
    total = _SPRING_ROUNDS if small else _MESH_ROUNDS
    yield 0, total, _fitted(x)
    if n < 2:
        yield total, total, _fitted(x)
        return
    for i in range(total):
        x = _round(x, ends, 1 - i / total, _all_pairs if small else _by_mesh)
        yield i + 1, total, _fitted(x)


def _undirected_pairs(graph: Graph) -> NDArray[np.int64]:
    """Each pair of joined nodes once, without self-loops, ``[2, m]``."""
    source, target = np.sort(graph.edge_index.numpy().astype(np.int64), axis=0)
    keys = np.unique(source[source != target] * graph.num_nodes + target[source != target])
    return np.stack([keys // max(1, graph.num_nodes), keys % max(1, graph.num_nodes)])


def _start(graph: Graph, ends: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """RFP coordinates of each connected component, components side by side on a spiral by size; spacing about 1."""
    n = graph.num_nodes
    plain = Graph.unchecked(torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1)), n)
    count, label = connected_components(plain.to_scipy(np.float32), directed=False)
    local = rfp_coordinates(plain, seed=0) if n > 3 else np.zeros((n, 2))
    sizes = np.bincount(label, minlength=count)
    for axis in range(2):
        mean = np.bincount(label, local[:, axis], count) / sizes
        local[:, axis] -= mean[label]
        spread = np.sqrt(np.bincount(label, local[:, axis] ** 2, count) / sizes)
        # Where the coordinates say nothing about a component, it starts as a small cloud.
        silent = spread <= 1e-6
        local[:, axis] /= np.where(silent, 1, spread)[label]
    local += 0.05 * rng.standard_normal((n, 2)) + rng.standard_normal((n, 2)) * silent[label][:, None]
    local *= np.sqrt(sizes)[label][:, None] / 2
    if count == 1:
        return local
    order = np.argsort(-sizes, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order] / 2
    radius = np.where(np.arange(count) == 0, 0.0, 1.1 * np.sqrt(before))
    turn = np.arange(count) * np.pi * (3 - np.sqrt(5))  # the golden angle: no two on one ray
    centre = np.empty((count, 2))
    centre[order] = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    placed: NDArray[np.float64] = local * 0.7 + centre[label]
    return placed


def rfp_coordinates(graph: Graph, *, seed: int = 0) -> NDArray[np.float64]:
    r"""The second and third slowest directions of the graph, found by propagation: ``[n, 2]``.

    :math:`a \leftarrow QR((I + \hat A)^{8} a)` from four random channels, a Rayleigh-Ritz step at the end, and
    :math:`D^{-1/2}` as in a spectral layout. O(m) a step.
    """
    n, channels = graph.num_nodes, min(4, graph.num_nodes)
    S = from_name("normalized_adjacency", graph)
    lazy = FunctionOperator(lambda a: (a + S @ a) / 2, n, symmetric=True)
    features = random_features(graph, num_channels=channels, seed=seed)
    for a in states(lazy, features, num_steps=_COORDINATE_STEPS, normalize_every=8):
        last = a[0]
    basis = torch.linalg.qr(last.double()).Q
    _, rotation = torch.linalg.eigh(basis.T @ (S @ basis.float()).double())
    slowest = (basis @ rotation).flip(1)[:, 1:3].numpy()
    degree = np.bincount(graph.edge_index[0].numpy(), minlength=n) + 1.0
    padded = np.zeros((n, 2))
    padded[:, : slowest.shape[1]] = slowest / np.sqrt(degree)[:, None]
    return padded


def _round(
    x: NDArray[np.float64], ends: NDArray[np.int64], heat: float, repulsion: Callable[[NDArray[np.float64]], Any]
) -> NDArray[np.float64]:
    """Fruchterman and Reingold: all nodes repel as 1/d, edges attract as d², none moves farther than the heat."""
    along = x[ends[0]] - x[ends[1]]
    pull = along * np.sqrt((along**2).sum(-1, keepdims=True))
    force = repulsion(x) - _sums(ends, pull, len(x))
    force -= 0.02 * x  # a weak pull to the centre keeps components together
    size = np.maximum(np.sqrt((force**2).sum(-1, keepdims=True)), 1e-9)
    reach = 0.1 * np.sqrt(len(x)) * heat**1.5
    moved: NDArray[np.float64] = x + force / size * np.minimum(size, reach)
    return moved


def _all_pairs(x: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""The repulsion :math:`\sum_j (x_i - x_j) / |x_i - x_j|^2` exactly, ``[n, 2]``; O(n²)."""
    norm = (x**2).sum(1)
    inverse = 1 / np.maximum(norm[:, None] + norm[None] - 2 * x @ x.T, 1e-2)
    force: NDArray[np.float64] = x * inverse.sum(1, keepdims=True) - inverse @ x
    return force


def _by_mesh(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same repulsion from densities on a mesh: one convolution instead of all pairs, O(n + G² log G)."""
    low, high = x.min(0), x.max(0)
    cell = float((high - low).max()) * 1.0001 / (_MESH - 1) + 1e-12
    place = (x - low) / cell
    corner = np.minimum(place.astype(np.int64), _MESH - 2)
    part = place - corner
    # Each node is shared by the four corners of its cell, and feels what they feel.
    shares = [
        ((corner[:, 0] + i) * _MESH + corner[:, 1] + j, np.abs(1 - i - part[:, 0]) * np.abs(1 - j - part[:, 1]))
        for i in (0, 1)
        for j in (0, 1)
    ]
    density = sum(np.bincount(index, share, _MESH * _MESH) for index, share in shares)
    spectrum = fft.rfft2(np.asarray(density).reshape(_MESH, _MESH), (2 * _MESH, 2 * _MESH))
    force = np.empty_like(x)
    for axis, kernel in enumerate(_mesh_kernel()):
        field = fft.irfft2(spectrum * kernel)[:_MESH, :_MESH].ravel() / cell
        force[:, axis] = sum(field[index] * share for index, share in shares)
    return force


@cache
def _mesh_kernel() -> tuple[Any, Any]:
    """Transforms of d / |d|², for offsets of a whole mesh in each direction (which the padding wraps)."""
    offset = np.fft.fftfreq(2 * _MESH, 1 / (2 * _MESH))
    dx, dy = np.meshgrid(offset, offset, indexing="ij")
    square = np.maximum(dx**2 + dy**2, 1)
    return fft.rfft2(dx / square), fft.rfft2(dy / square)


def _sums(ends: NDArray[np.int64], pull: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    total = np.empty((n, 2))
    for axis in range(2):
        total[:, axis] = np.bincount(ends[0], pull[:, axis], n) - np.bincount(ends[1], pull[:, axis], n)
    return total


def _fitted(x: NDArray[np.float64]) -> Positions:
    centred = x - (x.min(0) + x.max(0)) / 2 if len(x) else x
    reach = float(np.sqrt((centred**2).sum(-1)).max()) if len(x) else 0.0
    return (centred / reach if reach > 0 else centred).astype(np.float32)
