"""A batch of small graphs in a training step: from its edges to its trajectory in two launches, and nothing looked at.

What is computed is what :func:`rfp.backends.fused.kernel_launches.fused_trajectory` computes, by the same kernels. A
step of one's own training loop meets every batch once, so that objects made for later use would be most of its cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rfp.backends.fused import FUSED, FUSED_MAX_CHANNELS
from rfp.backends.problem import NORMALIZATION_CODES
from rfp.features import DISTRIBUTIONS
from rfp.graph import Graph
from rfp.operators import OPERATORS
from rfp.report import Report
from rfp.settings import Settings


def new_batch_trajectory(settings: Settings, graph: Graph) -> tuple[Tensor, Report] | None:
    """The trajectory of drawn features, ``[n, B, O, P + 1, k]``, and its report; nobody waits for a GPU.

    ``None`` for anything but predefined operators of a known batch of small graphs on a GPU, and where the kernel that
    builds them is not as the plain rules are (:mod:`rfp.operators.small_graphs_agree`).
    """
    normalization, names = settings.normalization, settings.operators
    if not (graph.sorts_on_gpu and graph.is_small_batch and _by_kernels(settings)) or not isinstance(names, tuple):
        return None
    assert isinstance(normalization, str)
    from rfp.backends.fused.kernel_launches import KernelLaunches, OperatorRun, Start, kernel_dtype
    from rfp.operators.small_graphs_agree import small_graphs_agree
    from rfp.operators.triton_small_graphs import launch_small_graphs

    if not small_graphs_agree(names, graph):
        return None
    found = launch_small_graphs(names, graph)
    shape = (graph.num_nodes, settings.num_trajectories, len(names), settings.num_steps + 1, settings.num_channels)
    out = torch.empty(shape, dtype=kernel_dtype(normalization, settings.kept_dtype), device=graph.device)
    launches = KernelLaunches(out, graph.offsets, graph.largest, normalization, settings.normalize_every)
    launches.launch([OperatorRun(found.crow, found.col, found.values, found.norms)], Start.drawn(settings, graph.keys))
    return out.to(settings.kept_dtype), Report(FUSED.name, FUSED.serves, [launches.events])


def _by_kernels(settings: Settings) -> bool:
    """Whether the two kernels can do all that the settings ask for: the backend that would be chosen is theirs."""
    return (
        settings.backend in ("auto", "fused")
        and settings.start == "drawn"
        and not settings.strict
        and settings.dtype == torch.float32
        and settings.num_channels <= FUSED_MAX_CHANNELS
        and isinstance(settings.normalization, str)
        and settings.normalization in NORMALIZATION_CODES
        and isinstance(settings.distribution, str)
        and settings.distribution in DISTRIBUTIONS
        and all(isinstance(name, str) and name in OPERATORS for name in settings.operators)
        and len(set(settings.operators)) == len(settings.operators)
    )
