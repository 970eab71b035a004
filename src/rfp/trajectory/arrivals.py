"""Rows of nodes that arrive later; all others stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.backends.problem import fold
from rfp.conversion import edge_weights
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph, refuse_masked
from rfp.operators import OPERATORS, Degrees, EntryTable, FunctionOperator, as_operator, parse_name
from rfp.trajectory.replay import features_of_new, grown, operators_of, walk
from rfp.trajectory.stored_states import States, StoredStates

# New nodes without an edge that numbers may leave between those with one: beyond, a number is taken for a mistake.
_MOST_APART = 1_000_000


def extend(
    trajectory: States,
    new_edges: Any,
    *,
    num_nodes: int | None = None,
    edge_weight: Any = None,
    directed: bool | None = None,
    features: Tensor | None = None,
) -> States:
    r"""Add nodes: their rows by the stored factors, all other rows as they are, bit for bit.

    With :math:`S'` the operator of the enlarged graph, o the old nodes and v the new ones,

    .. math:: a_v^{(p)} = \left(S'_{vo} a_o^{(p-1)} + S'_{vv} a_v^{(p-1)}\right) W_p, \qquad a_v^{(0)} = r_v W_0 ,

    which is :func:`replay` with the operator :math:`\begin{pmatrix} S & 0 \\ S'_{vo} & S'_{vv} \end{pmatrix}`: new
    nodes learn from old ones and from each other, old ones do not move. Degrees are those of the enlarged graph. Of a
    named operator with a power (``"random_walk^2"``) it is that power of this block matrix, which knows no walk from an
    old node to a new one. The features :math:`r_v` continue the draw at index n, n + 1, ...

    A row can grow without bound where it feeds itself more than its column is divided by: :math:`S'_{vv}` (a self-loop
    of :math:`\hat A`, 1/2 for a node with one neighbour, 1 for one with none) against the smallest
    :math:`|\lambda|` of the k columns. ``random_walk`` and ``adjacency`` have no such loops.

    Args:
        trajectory: From :func:`rfp.encode`, :func:`extend` or :func:`load`; of one graph, with named operators.
        new_edges: ``[2, e]`` integers; nodes from n on are new, and each edge has at least one of them.
        num_nodes: n'; by default the largest number in ``new_edges`` plus one.
        edge_weight: ``[e]``, ones by default.
        directed: ``False`` lets each edge count both ways, whether it is listed once or twice. By default as the
            encoded graph is: ``False`` if its matrix is symmetric.
        features: ``[n' - n, k]`` or ``[B, n' - n, k]``: rows of :math:`a^{(0)}`, where the trajectory started from
            given features.

    Returns:
        The trajectory of all n' nodes, which can be extended again: its last n' - n rows are new. Computed in float64,
        kept in the precision it had.

    Raises:
        GraphError: An edge between old nodes, a number or a weight that makes no edge.

    Costs O(e k B + (n' - n) k² B) a step for each operator once the factors are known, one pass over the graph for its
    degrees, and a copy of the storage; with a power ``^q`` of an operator, products with the whole graph.

    Example:
        >>> import rfp
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> t = rfp.encode((path, 3), num_channels=2, num_steps=4)
        >>> larger = t.extend(torch.tensor([[3], [2]]))  # node 3 joins node 2
        >>> larger.states.shape, bool((larger.storage[:3] == t.storage).all())
        (torch.Size([1, 4, 5, 2]), True)
    """
    settings, old = trajectory.origin()
    added = _new_edges(old, new_edges, num_nodes, edge_weight, directed)
    start = features_of_new(trajectory, added.num_nodes, features)
    kept = []
    for i, name in enumerate(operators_of(settings, None)):
        rows = FunctionOperator(_NewRows(trajectory, i, name, added), start.size(1))
        kept.append(walk(rows, start, settings, trajectory.factors[i]))
    new_rows = torch.stack(kept, dim=2).to(trajectory.storage.dtype)
    storage = torch.cat([trajectory.storage, new_rows])
    return grown(trajectory, storage, _joined(old, added), f"{start.size(1)} rows added with the stored factors")


class _NewRows:
    r"""The map :math:`a_v \mapsto S'_{vo} a_o^{(p-1)} + S'_{vv} a_v`, the p-th time it is called."""

    def __init__(self, trajectory: StoredStates, index: int, name: str, added: Graph) -> None:
        parts = parse_name(name)
        self.n, self.exponent = trajectory.storage.size(0), int(parts["power"] or 1)
        row, col, value = _entries(trajectory.graph, added, parts)
        size, old = added.num_nodes - self.n, col < self.n
        # Only old nodes that have a new neighbour are read.
        self.neighbors, place = torch.unique(col[old], return_inverse=True)
        self.from_old = _matrix(row[old], place, value[old], size, len(self.neighbors))
        self.from_new = _matrix(row[~old], col[~old] - self.n, value[~old], size, size)
        self.old_states = self._old_states(trajectory, index, name.partition("^")[0])

    def _old_states(self, trajectory: StoredStates, index: int, base: str) -> Iterator[Tensor]:
        """What new nodes read of the old ones, product by product: q of them a step for the power q."""
        if self.exponent == 1:
            states = trajectory.storage[self.neighbors, :, index].double()  # [c, B, P + 1, k]
            for p in range(states.size(2)):
                yield states[:, :, p].flatten(1)
            return
        assert trajectory.graph is not None
        operator = as_operator(base, trajectory.graph, torch.float64)
        for p in range(trajectory.storage.size(3)):
            a = fold(trajectory.storage[:, :, index, p].transpose(0, 1).double()).contiguous()
            for power in range(self.exponent):
                a = operator @ a if power else a
                yield a[self.neighbors]

    def __call__(self, a: Tensor) -> Tensor:  # [m, B k] -> [m, B k]
        for _ in range(self.exponent):
            a = self.from_old @ next(self.old_states) + self.from_new @ a
        return a


def _entries(graph: Graph | None, added: Graph, parts: re.Match[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Row (counted from the first new node), column and value of the rows of S' that belong to new nodes."""
    assert graph is not None
    n = graph.num_nodes
    if parts["sym"]:
        graph, added = graph.to_undirected(), added.to_undirected()
    pattern = added.pattern  # of the new edges, with a diagonal for all nodes; that of old ones is not new
    fresh = (pattern.row != pattern.col) | (pattern.row >= n)
    row, col, value = pattern.row[fresh], pattern.col[fresh].long(), pattern.value[fresh]
    before, more = EntryTable.of(graph.pattern), EntryTable.of(pattern)

    def degree(axis: str, looped: bool) -> Tensor:
        total = more.degree(axis, looped).clone()
        total[:n] += before.degree(axis, looped) - int(looped)  # the loop that both would add to an old node
        return total

    of_new = (col if parts["transposed"] else row) >= n
    table = EntryTable(row[of_new], col[of_new], value[of_new], Degrees(degree))
    values = OPERATORS[parts["base"]](table)
    ends = (table.col, table.row) if parts["transposed"] else (table.row, table.col)
    return ends[0] - n, ends[1], values


def _matrix(row: Tensor, col: Tensor, value: Tensor, num_rows: int, num_columns: int) -> Tensor:
    return torch.sparse_coo_tensor(
        torch.stack([row, col]), value, (num_rows, num_columns), check_invariants=False
    ).coalesce()


def _new_edges(old: Graph, edges: Any, num_nodes: int | None, weight: Any, directed: bool | None) -> Graph:
    """The new edges as a graph of n' nodes without the old edges."""
    if not isinstance(edges, Tensor):
        refuse_masked(edges, "edges")
    index = edges if isinstance(edges, Tensor) else torch.from_numpy(np.asarray(edges))
    if index.numel() == 0:
        index = torch.zeros(2, 0, dtype=torch.long)
    n = old.num_nodes
    size = max(n, int(index.max()) + 1 if index.numel() else 0) if num_nodes is None else num_nodes
    if size < n:
        raise ArgumentError(f"num_nodes must be at least {n}, the nodes that are there, got {size}")
    if num_nodes is None and size - n > _MOST_APART + index.numel():
        raise ArgumentError(
            f"node {size - 1} would mean {size - n:,} new nodes, most of them without an edge; number new nodes from "
            f"{n} on, or say num_nodes"
        )
    values = edge_weights(weight)
    values = None if values is None else values.to(old.device, torch.float64)
    added = Graph(index.to(old.device), size, values)
    among_old = (added.edge_index < n).all(0)
    if bool(among_old.any()):
        edge = int(among_old.nonzero()[0])
        raise GraphError(
            f"edge {edge} joins the old nodes {added.edge_index[:, edge].tolist()} (of {n}), whose rows would change; "
            "use replay with the whole graph, or encode it anew"
        )
    if directed is None:
        directed = not old.memo.of(Graph.is_undirected, old)
    return added if directed else added.to_undirected()


def _joined(old: Graph, added: Graph) -> Graph:
    weight = None
    if old.edge_weight is not None or added.edge_weight is not None:
        parts = [
            torch.ones(g.num_edges, dtype=torch.float64, device=g.device) if g.edge_weight is None else g.edge_weight
            for g in (old, added)
        ]
        weight = torch.cat([part.double() for part in parts])
    edges = torch.cat([old.edge_index.long(), added.edge_index.long()], dim=1)
    return Graph.unchecked(edges, added.num_nodes, weight, known_keys=old.keys)
