r"""The nodes of highest degree counted exactly, so that only the rest of the graph is sampled.

A hub of degree d brings eigenvalues near :math:`\pm\sqrt d` into A. They cancel in :math:`\mathrm{trace}(A^3)` and not
in the variance of its estimate, which a few hubs make as large as they like. But what they take part in is cheap to
list, so

.. math:: c(G) = c(G \text{ without hubs}) + \#\{\text{occurrences that touch a hub}\},

where the first term is sampled and the second counted (:mod:`rfp.theory.ordered_counts`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rfp.graph import Graph
from rfp.settings import as_integer
from rfp.theory.ordered import OrderedGraph
from rfp.theory.ordered_counts import CYCLES4, TRIANGLES
from rfp.theory.sampling import SampleEstimate
from rfp.theory.simple import integer_matrix

# Terms an automatic choice may list, for each entry of A: the price of about 100 samples (benchmarks/count.py). A path
# of a 4-cycle takes some five times as long as a term of a product.
WORK_PER_ENTRY = {"triangle": 4, "cycle4": 1}
# And at most this part of the nodes.
LARGEST_SHARE = 0.25

_LISTED = {"triangle": TRIANGLES, "cycle4": CYCLES4}


@dataclass(frozen=True)
class HubSplit:
    """A graph taken apart.

    Args:
        rest: The graph without its hubs; their nodes are left out.
        nodes: Number in the whole graph of each node of the rest.
        count: Occurrences that touch a hub.
        per_node: The same for every node of the whole graph, ``[n]`` float64, if asked for.
    """

    rest: Graph
    nodes: Tensor
    count: int = 0
    per_node: Tensor | None = None

    def whole(self, estimate: SampleEstimate) -> SampleEstimate:
        """The estimate for the rest, which holds ``count`` as an offset already, with nodes of the whole graph."""
        if self.per_node is None or estimate.per_node is None or estimate.per_node_standard_error is None:
            return estimate
        value = self.per_node.clone()
        value[self.nodes] += estimate.per_node.cpu()
        error = torch.zeros_like(value)
        error[self.nodes] = estimate.per_node_standard_error.cpu()
        return replace(estimate, per_node=value, per_node_standard_error=error)


def split_hubs(graph: Graph, pattern: str, hubs: int | None, *, per_node: bool = False) -> HubSplit:
    """Count what touches the ``hubs`` nodes of highest degree, and cut them off.

    Args:
        graph: A simple graph.
        pattern: ``"triangle"`` or ``"cycle4"``.
        hubs: How many; ``None`` takes as many as :data:`WORK_PER_ENTRY` terms for each entry of A can list.
        per_node: Count for each node, too.
    """
    hubs = None if hubs is None else as_integer("hubs", hubs, 0)
    n = graph.num_nodes
    if hubs == 0 or n == 0:
        return HubSplit(graph, torch.arange(n), per_node=torch.zeros(n, dtype=torch.float64) if per_node else None)
    at_nodes, once, work = _LISTED[pattern]
    ordered = OrderedGraph(integer_matrix(graph))
    if hubs is None:
        from_the_top = np.cumsum(work(ordered)[::-1])
        affordable = int(np.searchsorted(from_the_top, WORK_PER_ENTRY[pattern] * ordered.matrix.nnz, side="right"))
        hubs = min(affordable, int(LARGEST_SHARE * n))
    first = max(n - hubs, 1)  # one node without edges stays, so that there is a graph to sample
    inside = ordered.both[:first, :first].tocoo()
    edge_index = torch.from_numpy(np.stack([inside.row, inside.col]).astype(np.int64)).to(graph.device)
    counts = torch.from_numpy(at_nodes(ordered, first)).double() if per_node else None
    return HubSplit(
        rest=Graph.unchecked(edge_index, first),
        nodes=torch.from_numpy(ordered.order[:first]),
        count=int(once(ordered, first).sum()),
        per_node=counts,
    )
