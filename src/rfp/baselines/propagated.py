"""RNF, NFP, SGC, SIGN and PowerEmbed: the one loop with other features, normalisations and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.encode import encode
from rfp.errors import ArgumentError
from rfp.features import Distribution
from rfp.normalization import NormalizationChoice, l2
from rfp.one_loop import states
from rfp.operators import as_operator
from rfp.precision import full_precision
from rfp.propagate import propagate


def rnf(
    graph: Any,
    *,
    num_channels: int = 16,
    num_trajectories: int = 1,
    distribution: Distribution = "normal",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Random node features: RFP with ``num_steps=0``.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        num_channels: k.
        num_trajectories: B.
        distribution: ``"normal"``, ``"rademacher"``, ``"uniform"`` or a callable.
        seed: The draw is that of an RFP encoding with this seed.
        dtype: float32 or float64.

    Returns:
        ``[B, n, k]``.

    References:
        R. Sato, M. Yamada, H. Kashima. Random features strengthen graph neural networks. SDM 2021.
    """
    return encode(
        graph,
        num_channels=num_channels,
        num_steps=0,
        num_trajectories=num_trajectories,
        distribution=distribution,
        seed=seed,
        dtype=dtype,
    ).flat()


def nfp(
    graph: Any,
    *,
    x: Tensor | None = None,
    num_steps: int = 16,
    operators: Sequence[Any] = ("normalized_adjacency",),
    normalization: NormalizationChoice = "qr",
    normalize_every: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""Node feature propagation, the paper's own ablation: RFP started from :math:`f^{in}` instead of r.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        x: ``[n, d]``; the graph's own ``x`` by default.
        num_steps: P.
        operators: As in :func:`rfp.encode`.
        normalization: N. QR sets features that depend on earlier ones to zero, so at most n of the d columns survive.
        normalize_every: w.
        dtype: float32 or float64.

    Returns:
        ``[n, O (P + 1) d]``, in the order of :meth:`rfp.trajectory.Trajectory.flat`.
    """
    return encode(
        graph,
        features=node_features(graph, x, dtype),
        num_steps=num_steps,
        operators=list(operators),
        normalization=normalization,
        normalize_every=normalize_every,
        dtype=dtype,
    ).flat()[0]


def sign(
    graph: Any,
    *,
    x: Tensor | None = None,
    num_steps: int = 3,
    operators: Sequence[Any] = ("normalized_adjacency",),
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""SIGN: :math:`X \oplus S X \oplus \dots \oplus S^P X` for each operator. Arguments as in :func:`nfp`.

    Returns:
        ``[n, O (P + 1) d]``.

    References:
        F. Frasca et al. SIGN: scalable inception graph neural networks. 2020.
    """
    return nfp(graph, x=x, num_steps=num_steps, operators=operators, normalization="none", dtype=dtype)


@full_precision
def sgc(
    graph: Any,
    *,
    x: Tensor | None = None,
    num_steps: int = 2,
    operator: Any = "normalized_adjacency",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""SGC: :math:`S^P X`, the last step alone; one step is held in memory. Arguments as in :func:`nfp`.

    Returns:
        ``[n, d]``.

    Example:
        >>> from rfp.graph import Graph
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> sgc(path, x=torch.tensor([[1.0], [0.0], [0.0]]), operator="adjacency", num_steps=2).T
        tensor([[1., 0., 1.]])

    References:
        F. Wu et al. Simplifying graph convolutional networks. ICML 2019.
    """
    read = as_graph(graph)
    S = as_operator(operator, read, dtype)
    features = node_features(graph, x, dtype)
    for a in states(S, features, num_steps=num_steps, normalization="none", ptr=read.offsets):
        last = a
    return last[0]


def power_embed(
    graph: Any,
    *,
    x: Tensor | None = None,
    num_steps: int = 10,
    operator: Any = "normalized_adjacency",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""PowerEmbed: :math:`\tilde U = S U,\; U = \tilde U (\tilde U^\top \tilde U)^{+}`, started from the node features.

    What is kept of each step is a copy with columns of norm 1; the iteration goes on with the columns as they are, as
    in the published code. Step 0 is kept unchanged. Arguments as in :func:`nfp`.

    Returns:
        ``[n, (P + 1) d]``.

    References:
        N. Huang, S. Villar, C. Priebe, D. Zheng, C. Huang, L. Yang, V. Braverman. From local to global:
        spectral-inspired graph neural networks. 2022.
    """
    read = as_graph(graph)
    features = node_features(graph, x, dtype)
    trajectory = propagate(
        as_operator(operator, read, dtype),
        features,
        num_steps=num_steps,
        normalization="inverse_gram",
        ptr=read.offsets,
        record=lambda a, ptr: l2(a, ptr)[0],
    )
    steps = trajectory.storage[:, 0, 0, 1:].flatten(1)
    return torch.cat([features, steps], dim=1)


def node_features(graph: Any, x: Tensor | None, dtype: torch.dtype) -> Tensor:
    """``x``, or the graph's own, as a floating-point ``[n, d]``."""
    if x is None:
        x = getattr(graph, "x", None)
    if x is None:
        raise ArgumentError("this encoding propagates node features: give x, or a graph that has x")
    if x.dim() == 1:
        x = x[:, None]
    if x.dim() != 2:
        raise ArgumentError(f"x must have shape [n, d], got {list(x.shape)}")
    return x.to(dtype)
