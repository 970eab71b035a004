"""Random features on a CPU: the words of :mod:`rfp.features` and the keys of :attr:`rfp.Graph.keys`, one pass each."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor

from rfp.backends.compiled.pieces import equal_rows, run_pieces
from rfp.backends.problem import Draw
from rfp.compiled.cached import kernel
from rfp.features import DISTRIBUTIONS, fill_features, rows_at_a_time
from rfp.graph import Graph
from rfp.hashing import GOLDEN, LOOP_AT_ZERO, SOURCE, mix, mixed_keys, stream_keys
from rfp.pages import empty

_WORD = 2**64 - 1
_GOLDEN, _SOURCE, _LOOP_AT_ZERO = np.uint64(GOLDEN & _WORD), np.uint64(SOURCE & _WORD), np.uint64(LOOP_AT_ZERO & _WORD)


@njit(inline="always")
def _mixed(z):
    """:func:`rfp.hashing.mix` of a uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _add_edges_kernel(source, target, batch, offsets, keys):
    """Add the word of each edge to the key of its graph."""
    for e in range(len(source)):
        graph = batch[source[e]]
        first = offsets[graph]
        word = _mixed(np.uint64(source[e] - first) * _SOURCE + np.uint64(target[e] - first) * _GOLDEN)
        keys[graph] += word if word != np.uint64(0) else _LOOP_AT_ZERO


@kernel
def _words_kernel(streams, keys, batch, offsets, lo, high, low, piece, first, last):
    for r in range(first, last):
        graph = batch[lo + r]
        node = np.uint64(lo + r + 1 - offsets[graph]) * _GOLDEN + keys[graph]
        for b in range(len(streams)):
            stream = _mixed(streams[b] + node)
            for pair in range(high.shape[2]):
                word = _mixed(stream + np.uint64(pair + 1) * _GOLDEN)
                high[r, b, pair] = np.int32(word >> np.uint64(40))
                low[r, b, pair] = np.int32((word >> np.uint64(8)) & np.uint64(0xFFFFFF))


def graph_keys_of(graph: Graph) -> Tensor:
    """:attr:`rfp.Graph.keys`, which the graph then knows. O(m)."""
    if graph.known_keys is None and "keys" not in graph.__dict__:
        keys = mix(graph.sizes * GOLDEN + 1)
        source, target = graph.edge_index.numpy()
        _add_edges_kernel(source, target, graph.batch.numpy(), graph.offsets.numpy(), keys.numpy().view(np.uint64))
        graph.learn_keys(mix(keys))
    return graph.keys


def compiled_features(draw: Draw) -> Tensor:
    """The features of :func:`rfp.features.random_features`, ``[n, B, k]``, bit for bit."""
    graph, settings = draw.graph, draw.settings
    distribution = settings.distribution
    if not isinstance(distribution, str):
        return draw.features().transpose(0, 1)
    keys = graph_keys_of(graph) if draw.graph_keys is None else mixed_keys(draw.graph_keys, "cpu")
    streams = stream_keys(settings.seed, range(settings.num_trajectories)).numpy().view(np.uint64)
    arrays = streams, keys.numpy().view(np.uint64), graph.batch.numpy(), graph.offsets.numpy()
    pairs = (settings.num_channels + 1) // 2

    out = empty(graph.num_nodes, settings.num_trajectories, 2 * pairs, dtype=settings.dtype)
    # One place for all chunks: fresh memory costs more than the words that are written into it.
    rows = min(len(out), rows_at_a_time(out))
    halves = torch.empty(2, rows, settings.num_trajectories, pairs, dtype=torch.int32)

    def words(lo: int, hi: int) -> tuple[Tensor, Tensor]:
        high, low = halves[:, : hi - lo]
        run_pieces(_words_kernel, equal_rows(hi - lo, 1 << 12), *arrays, lo, high.numpy(), low.numpy())
        return high, low

    return fill_features(out, words, 0, DISTRIBUTIONS[distribution])[:, :, : settings.num_channels]
