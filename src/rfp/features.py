r"""Random node features :math:`r \sim \mathcal D` as a pure function of (seed, graph, trajectory, node, channel).

There is no generator and no state: every value is a hash of its own coordinates. So the features are the same on every
device, in any batch, for any row block asked alone, and the first ``k`` channels or ``B`` trajectories do not change
when more are drawn. *Graph* means its content (:attr:`rfp.graph.Graph.keys`), never its place in a batch.

The word of a pair of channels ``(2q, 2q + 1)`` of node ``i``, trajectory ``b``, is

.. math:: h = mix(mix(mix(seed + (b + 1) G) + key + (i + 1) G) + (q + 1) G)

with :math:`G` the golden-ratio constant; its upper 32 bits serve channel ``2q``, its lower 32 bits ``2q + 1``, of
which 24 each are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rfp.available import triton_available
from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.hashing import GOLDEN, mix, mixed_keys, stream_keys
from rfp.pages import empty

Distribution = str | Callable[[Tensor], Tensor]
Words = Callable[[int, int], tuple[Tensor, Tensor]]
DrawnPair = Callable[[Tensor, Tensor, torch.dtype], tuple[Tensor, Tensor]]

# Words drawn at a time on a CPU: large enough for threads to share, small enough for the cache (best of 2^12..2^22).
_CHUNK_WORDS = 1 << 18


def _rademacher(high: Tensor, low: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    # The top bit of each is the sign.
    return 1 - 2 * (high >> 23).to(dtype), 1 - 2 * (low >> 23).to(dtype)


def _uniform(high: Tensor, low: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    # Odd integers in (-2^24, 2^24) scaled by a power of two: exact in float32, symmetric, never 0 or ±1.
    scale = 2.0**-24
    return (high * 2 + (1 - 2**24)).to(dtype) * scale, (low * 2 + (1 - 2**24)).to(dtype) * scale


def _normal(high: Tensor, low: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    # Box-Muller. The radius uses (m + 1/2) 2^-24 in (0, 1), so the logarithm is finite.
    radius = (high.to(dtype).add_(0.5).mul_(2.0**-24)).log_().mul_(-2).sqrt_()
    angle = low.to(dtype).mul_(2 * math.pi * 2.0**-24)
    return angle.cos().mul_(radius), angle.sin_().mul_(radius)


# Each makes a pair of numbers of the 24 upper bits of the two halves of a word.
DISTRIBUTIONS: dict[str, DrawnPair] = {"normal": _normal, "rademacher": _rademacher, "uniform": _uniform}


def random_features(
    graph: Graph,
    *,
    num_channels: int,
    num_trajectories: int = 1,
    first_trajectory: int = 0,
    distribution: Distribution = "normal",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    rows: slice | None = None,
    graph_keys: Tensor | None = None,
) -> Tensor:
    r"""Draw :math:`r_1, \dots, r_B`, each :math:`n \times k` with independent entries of :math:`\mathcal D`.

    Args:
        graph: The graph, or batch, whose nodes are drawn for.
        num_channels: k.
        num_trajectories: B.
        first_trajectory: Leave out this many trajectories, so that blocks of them can be drawn one after another.
        distribution: ``"normal"`` (standard), ``"rademacher"`` (±1), ``"uniform"`` on (-1, 1), or a callable that
            maps uniform values on (-1, 1) to the distribution wanted, element by element.
        seed: Any integer.
        dtype: ``float32`` or ``float64``: the same words, turned into numbers in that precision. Rademacher and uniform
            values are equal in both. Normal ones differ by 1e-7 on average and by at most 2.5e-4, where the logarithm
            of a number close to 1 is taken.
        rows: Only these nodes; the values equal the same rows of the whole.
        graph_keys: ``[num_graphs]`` integers that name the graphs instead of their content, for instance row numbers
            in a data set, or a constant to give a subgraph the draw of the graph it was cut from.

    Returns:
        ``[B, n, k]``, or ``[B, len(rows), k]``. A view: memory is node-first, as the propagation wants it.

    Rademacher and uniform values are equal bit for bit on every device, normal ones but for the rounding of a
    logarithm, a root and a cosine in float32. Costs O(n k B).

    Example:
        >>> import torch
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> random_features(path, num_channels=4, distribution="rademacher", seed=7)[0, 0]
        tensor([-1.,  1., -1., -1.])
    """
    if not isinstance(graph, Graph):
        raise ArgumentError(f"graph must be an rfp.Graph, got {type(graph).__name__}; rfp.as_graph(graph) makes one")
    if num_channels < 1 or num_trajectories < 1:
        raise ArgumentError(
            f"num_channels and num_trajectories must be at least 1, got {num_channels} and {num_trajectories}"
        )
    if dtype not in (torch.float32, torch.float64):  # 24 bits are more than half precision holds
        raise ArgumentError(f"dtype must be torch.float32 or torch.float64, got {dtype!r}")
    if rows is not None and (not isinstance(rows, slice) or rows.step not in (None, 1)):
        raise ArgumentError(f"rows must be a slice of nodes in a row, such as slice(0, 100), got {rows!r}")
    if graph_keys is not None:
        check_keys(graph_keys, graph)
    if isinstance(distribution, str) and distribution not in DISTRIBUTIONS:
        raise unknown_choice("distribution", distribution, DISTRIBUTIONS)
    draw = DISTRIBUTIONS[distribution] if isinstance(distribution, str) else _uniform

    device = graph.device
    start, stop, _ = (rows or slice(None)).indices(graph.num_nodes)
    num_rows, pairs = max(stop - start, 0), (num_channels + 1) // 2
    trajectories = range(first_trajectory, first_trajectory + num_trajectories)
    keys = graph.keys if graph_keys is None else mixed_keys(graph_keys, device)
    if device.type == "cuda" and dtype == torch.float32 and isinstance(distribution, str) and triton_available():
        from rfp.triton_features import launch

        batch = None if graph.num_graphs == 1 else graph.batch
        drawn: Tensor = launch(  # type: ignore[no-untyped-call]
            seed, trajectories, keys, batch, graph.offsets, start, num_rows, num_channels, distribution
        )
        return drawn.transpose(0, 1)
    streams = stream_keys(seed, trajectories, device)  # [B]
    channel = torch.arange(1, pairs + 1, device=device) * GOLDEN  # [pairs]

    def words(lo: int, hi: int) -> tuple[Tensor, Tensor]:
        node = torch.arange(lo + 1, hi + 1, device=device)
        which = None if graph.num_graphs == 1 else graph.batch[lo:hi]
        node = node * GOLDEN + keys if which is None else (node - graph.offsets[which]) * GOLDEN + keys[which]
        word = mix(mix(streams[None, :] + node[:, None])[:, :, None] + channel)  # [rows, B, pairs]
        return (word >> 40) & 0xFFFFFF, (word >> 8) & 0xFFFFFF

    out = empty(num_rows, num_trajectories, 2 * pairs, dtype=dtype, device=device)
    out = fill_features(out, words, start, draw)[:, :, :num_channels]
    if not isinstance(distribution, str):
        out = _check_callable(distribution(out), out)
    return out.transpose(0, 1)


def check_keys(graph_keys: Tensor, graph: Graph) -> None:
    """Raise where these are not one integer for each graph: kernels look up what they are given and check no index."""
    found = graph_keys.dtype if isinstance(graph_keys, Tensor) else type(graph_keys).__name__
    shape = list(graph_keys.shape) if isinstance(graph_keys, Tensor) else None
    if shape != [graph.num_graphs] or graph_keys.is_floating_point() or graph_keys.is_complex():
        of_shape = "" if shape is None else f" of shape {shape}"
        raise ArgumentError(
            f"graph_keys must be a tensor with one integer for each of the {graph.num_graphs} graphs, "
            f"got {found}{of_shape}"
        )


def rows_at_a_time(out: Tensor) -> int:
    """How many rows of ``[rows, B, 2 pairs]`` :func:`fill_features` asks for at most."""
    return max(1, (_CHUNK_WORDS if out.device.type == "cpu" else 1 << 24) // (out.size(1) * out.size(2) // 2))


def fill_features(out: Tensor, words: Words, start: int, draw: DrawnPair) -> Tensor:
    """Fill ``[rows, B, 2 pairs]`` with the numbers drawn for the nodes from ``start`` on, and return it.

    Args:
        out: Where to.
        words: ``(lo, hi) -> ([hi - lo, B, pairs], [hi - lo, B, pairs])``, the 24 upper bits of both halves of the words
            of nodes lo to hi - 1, int32 or int64.
        start: The first node.
        draw: One of :data:`DISTRIBUTIONS`.
    """
    chunk = rows_at_a_time(out)
    for lo in range(0, len(out), chunk):
        block = out[lo : lo + chunk]
        pairs = block.view(len(block), out.size(1), out.size(2) // 2, 2)
        pairs[..., 0], pairs[..., 1] = draw(*words(start + lo, start + lo + len(block)), out.dtype)
    return out


def _check_callable(values: Tensor, uniform: Tensor) -> Tensor:
    if not isinstance(values, Tensor) or values.shape != uniform.shape or values.dtype != uniform.dtype:
        got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ArgumentError(
            f"a callable distribution must return a {uniform.dtype} tensor of its input's shape "
            f"{tuple(uniform.shape)}, got {got}"
        )
    return values
