r"""Eigenvectors of a graph operator, graph by graph, with fixed signs and a fixed width."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.hashing import GOLDEN, mix, signed
from rfp.one_loop import states
from rfp.operators import MatrixOperator, from_matrix, from_name
from rfp.precision import full_precision
from rfp.settings import as_integer

ENDS = ("smallest", "largest_magnitude")

# Graphs up to this size are decomposed densely: at n = 1,000 one dense decomposition takes about 0.2 s.
DENSE_MAX_NODES = 1000
# Where Lanczos does not converge in this many restarts: a dense decomposition (3 GB) up to this size, else subspace
# iteration for so many steps.
_RESTARTS = 300
DENSE_FALLBACK_MAX_NODES = 20_000
_SUBSPACE_STEPS = 400
# Relative error of an eigenvalue at which Lanczos stops.
_TOLERANCE = 1e-10
# Float64 words of the dense matrices held at a time.
_CHUNK_WORDS = 1 << 24


@full_precision
def eigenvectors(
    graph: Any,
    *,
    num_eigenvectors: int | None = 8,
    operator: str = "normalized_laplacian",
    which: str = "smallest",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Eigenvectors of each graph of a batch; arguments as in :func:`eigenpairs`, of which this is the second part.

    Returns:
        ``[n, k]``.

    Example:
        >>> edge = Graph(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
        >>> eigenvectors(edge, num_eigenvectors=3)
        tensor([[ 0.7071,  0.7071,  0.0000],
                [ 0.7071, -0.7071,  0.0000]])
    """
    return eigenpairs(graph, num_eigenvectors=num_eigenvectors, operator=operator, which=which, dtype=dtype)[1]


@full_precision
def eigenpairs(
    graph: Any,
    *,
    num_eigenvectors: int | None = 8,
    operator: str = "normalized_laplacian",
    which: str = "smallest",
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    r"""Solve :math:`S u = \lambda u` for each graph: k eigenvectors of norm 1 from one end of the spectrum, or all.

    A graph with fewer than k nodes has zeros in the remaining columns: the width is the same for every graph. The
    sign of a vector is fixed by its first entry of largest magnitude being positive; vectors of one eigenvalue are
    defined up to a rotation, as everywhere. Computed in float64.

    Args:
        graph: Anything :func:`rfp.encode` takes; the operator must be symmetric.
        num_eigenvectors: k; ``None`` for all (the width is then the size of the largest graph).
        operator: A name of :mod:`rfp.operators`; ``"normalized_adjacency.sym"`` reads a directed graph as undirected.
        which: ``"smallest"`` eigenvalues first, or ``"largest_magnitude"`` first (of :math:`\pm\lambda`, the positive
            first).
        dtype: Type of the result.

    Returns:
        Eigenvalues ``[num_graphs, k]`` and eigenvectors ``[n, k]``.

    Raises:
        ArgumentError: If the operator is not symmetric.

    Dense, batched over graphs of equal size, O(n³) each, up to :data:`DENSE_MAX_NODES` nodes or where k is a large
    part of n; Lanczos (ARPACK) on each connected component beyond, O(m k) an iteration; if that does not converge,
    dense again, or subspace iteration on very large graphs.
    """
    if which not in ENDS:
        raise unknown_choice("which", which, ENDS)
    if num_eigenvectors is not None:  # else all
        num_eigenvectors = as_integer("num_eigenvectors", num_eigenvectors, 1)
    given = as_graph(graph)
    read = given.to("cpu")
    S = from_name(operator, read, torch.float64)
    if not isinstance(S, MatrixOperator):
        raise ArgumentError(
            f"eigenvectors of a power are those of the operator itself: drop the power from {operator!r}"
        )
    if not S.symmetric:
        raise ArgumentError(
            f"operator={operator!r} is not symmetric on this graph, so its eigenvectors may be complex; "
            f"try {operator + '.sym'!r}, or normalized_adjacency instead of random_walk"
        )
    width = read.largest if num_eigenvectors is None else num_eigenvectors
    values = torch.zeros(read.num_graphs, width, dtype=torch.float64)
    vectors = torch.zeros(read.num_nodes, width, dtype=torch.float64)
    sizes = read.sizes
    for size in sorted(set(sizes.tolist()) - {0}):
        graphs = (sizes == size).nonzero()[:, 0]
        kept = min(size, width)
        if size > DENSE_MAX_NODES and kept < size // 4:
            matrix = S.csr.to_scipy()
            rows = [slice(int(read.offsets[g]), int(read.offsets[g + 1])) for g in graphs]
            found = [_sparse(matrix[block, block], kept, which) for block in rows]
            some_values = torch.stack([v for v, _ in found])
            some_vectors = torch.stack([u for _, u in found])
        else:
            some_values, some_vectors = _dense(S, read, graphs, size, kept, which)
        nodes = read.offsets[graphs, None] + torch.arange(size)
        values[graphs, :kept] = some_values
        vectors[nodes, :kept] = fix_signs(some_vectors)
    return values.to(given.device, dtype), vectors.to(given.device, dtype)


def _order(values: Tensor, kept: int, which: str) -> Tensor:
    """Places of the wanted eigenvalues, given in ascending order: ``[..., n] -> [..., kept]``."""
    if which == "smallest":
        return torch.arange(kept).expand(*values.shape[:-1], kept)
    # Stable on magnitudes that are equal up to rounding, with the positive one first.
    magnitude = torch.where(values < 0, values.abs() * (1 - 1e-9), values.abs())
    return magnitude.sort(dim=-1, descending=True, stable=True).indices[..., :kept]


def _dense(S: MatrixOperator, read: Graph, graphs: Tensor, size: int, kept: int, which: str) -> tuple[Tensor, Tensor]:
    """Graphs of one size together: ``[g, kept]`` and ``[g, size, kept]``."""
    row, col, value = S.csr.row, S.csr.col.long(), S.csr.value
    number = torch.full((read.num_graphs,), -1)
    parts_values, parts_vectors = [], []
    step = max(1, _CHUNK_WORDS // size**2)
    for start in range(0, len(graphs), step):
        some = graphs[start : start + step]
        number.fill_(-1)
        number[some] = torch.arange(len(some))
        graph = read.batch[row]
        mine = number[graph] >= 0
        first = read.offsets[graph[mine]]
        dense = torch.zeros(len(some), size, size, dtype=torch.float64)
        dense[number[graph[mine]], row[mine] - first, col[mine] - first] = value[mine]
        values, vectors = torch.linalg.eigh(dense)
        order = _order(values, kept, which)
        parts_values.append(values.gather(1, order))
        parts_vectors.append(vectors.gather(2, order[:, None].expand(-1, size, -1)))
    return torch.cat(parts_values), torch.cat(parts_vectors)


def _sparse(matrix: Any, kept: int, which: str) -> tuple[Tensor, Tensor]:
    """One large graph, component by component.

    Every component adds an eigenvalue 1 to Â and 0 to L̂; hundreds of equal ones are what Lanczos does worst, and
    apart they are simple.
    """
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(matrix, directed=False)
    if count == 1:
        return _lanczos(matrix, kept, which)
    found, place = [], []
    order = np.argsort(label, kind="stable")
    for nodes in np.split(order, np.cumsum(np.bincount(label))[:-1]):
        found.append(_lanczos(matrix[nodes][:, nodes], min(kept, len(nodes)), which))
        place.append(nodes)
    values = torch.cat([v for v, _ in found])
    best = _order_of(values, kept, which).tolist()
    owner = np.repeat(np.arange(count), [len(v) for v, _ in found])
    column = np.concatenate([np.arange(len(v)) for v, _ in found])
    vectors = torch.zeros(matrix.shape[0], kept, dtype=torch.float64)
    for j, chosen in enumerate(best):
        vectors[place[owner[chosen]], j] = found[owner[chosen]][1][:, column[chosen]]
    return values[best], vectors


def _lanczos(matrix: Any, kept: int, which: str) -> tuple[Tensor, Tensor]:
    """A connected graph."""
    from scipy.sparse.linalg import ArpackError, eigsh

    n = matrix.shape[0]
    if n <= DENSE_MAX_NODES or kept >= n // 4:
        values, vectors = np.linalg.eigh(matrix.toarray())
        return _wanted(torch.from_numpy(values), torch.from_numpy(vectors), kept, which)
    start = np.random.default_rng(0).standard_normal(n)  # ARPACK's own start is random: results would differ by run
    shift, dominant = _dominant(matrix, which)
    try:
        # One more than wanted by magnitude: of a last pair of lambda and -lambda ARPACK would take either.
        end, number = ("LA", kept) if which == "smallest" else ("LM", kept + 1)
        # More basis vectors than ARPACK's default of 2 k: clustered ends of the spectrum converge far sooner.
        basis = min(n - 1, max(4 * number, 40))
        values, vectors = eigsh(dominant, number, which=end, v0=start, ncv=basis, maxiter=_RESTARTS, tol=_TOLERANCE)
    except ArpackError:  # no convergence, or a breakdown: never the user's problem
        if n > DENSE_FALLBACK_MAX_NODES:
            return _subspace(matrix, kept, which)
        values, vectors = np.linalg.eigh(dominant.toarray())
    values = shift - values if which == "smallest" else values
    return _wanted(torch.from_numpy(values), torch.from_numpy(vectors), kept, which)


def _dominant(matrix: Any, which: str) -> tuple[float, Any]:
    """A shift c, and the matrix whose dominant eigenvectors are the wanted ones: c I - S for the smallest, else S."""
    import scipy.sparse as sp

    bound = float(abs(matrix).sum(axis=1).max())
    return bound, bound * sp.eye_array(matrix.shape[0], format="csr") - matrix if which == "smallest" else matrix


def _subspace(matrix: Any, kept: int, which: str) -> tuple[Tensor, Tensor]:
    """Subspace iteration, by the one loop, and a Rayleigh-Ritz step: approximate, but it cannot fail."""
    n = matrix.shape[0]
    _, dominant = _dominant(matrix, which)
    features = torch.from_numpy(np.random.default_rng(0).standard_normal((n, min(n, 2 * kept + 8))))
    for a in states(from_matrix(dominant, torch.float64), features, num_steps=_SUBSPACE_STEPS, normalize_every=4):
        last = a[0]
    basis = torch.linalg.qr(last).Q.numpy()
    values, rotation = np.linalg.eigh(basis.T @ (matrix @ basis))
    return _wanted(torch.from_numpy(values), torch.from_numpy(basis @ rotation), kept, which)


def _order_of(values: Tensor, kept: int, which: str) -> Tensor:
    """Places of the wanted ones among eigenvalues in any order, ``[n] -> [kept]``."""
    ascending = values.sort(stable=True)
    return ascending.indices[_order(ascending.values, kept, which)]


def _wanted(values: Tensor, vectors: Tensor, kept: int, which: str) -> tuple[Tensor, Tensor]:
    chosen = _order_of(values, kept, which)
    return values[chosen], vectors[:, chosen]


def fix_signs(vectors: Tensor) -> Tensor:
    """Make the first entry of largest magnitude of each column positive: ``[..., n, k] -> [..., n, k]``."""
    magnitude = vectors.abs()
    # Entries equal to the largest up to rounding count as equal, so that rounding does not decide.
    tied = magnitude >= magnitude.amax(-2, keepdim=True) * (1 - 1e-8)
    first = tied.to(torch.int8).argmax(-2, keepdim=True)
    leading = vectors.gather(-2, first)
    return torch.where(leading < 0, -vectors, vectors)


def flip_signs(vectors: Tensor, graph: Graph, *, seed: int) -> Tensor:
    """Multiply each column of each graph by a random ±1: the augmentation eigenvectors need in training.

    Args:
        vectors: ``[..., n, k]``.
        graph: The graph or batch they belong to.
        seed: The signs are a pure function of (seed, graph content, column): give each epoch another one.

    Returns:
        ``[..., n, k]``.
    """
    columns = torch.arange(1, vectors.size(-1) + 1, device=graph.device) * GOLDEN
    words = mix(mix(graph.keys + signed(mix(seed)))[:, None] + columns)  # [num_graphs, k]
    sign = 1 - 2 * ((words >> 63) & 1)
    return vectors * sign.to(vectors.dtype)[graph.batch].to(vectors.device)
