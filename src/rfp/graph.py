"""One graph, or a batch of graphs side by side, in the form every other module reads.

Meaning of the input, the same in every path:

* **Direction.** ``A[i, j]`` is the weight of the edge ``i -> j``, with ``i = edge_index[0]`` as in SciPy and
  NetworkX; ``(A a)_i`` gathers from the nodes ``i`` points to. On undirected graphs (both directions listed, as PyG
  stores them) direction plays no role.
* **Duplicate edges** add their weights. **Self-loops** are ordinary entries of the diagonal.
* **Weights** default to 1 and must be finite; zero and negative ones are allowed.
* **Isolated nodes** are kept: ``num_nodes`` counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import rfp.precision  # noqa: F401  for what importing it does
from rfp.available import compiled_available, triton_available
from rfp.csr import CSR, from_entries
from rfp.errors import GraphError
from rfp.hashing import GOLDEN, LOOP_AT_ZERO, hash_of_edges, mix, words_of_edges
from rfp.memo import Memo
from rfp.node_offsets import check_offsets, check_offsets_form
from rfp.ragged import join, offsets

if TYPE_CHECKING:
    import scipy.sparse as sp

    from rfp.triton_pattern import KernelPattern

# Edges hashed at a time: on a CPU the temporaries of a chunk stay in cache, on a GPU every chunk is a dozen launches.
_HASH_CHUNK = {"cpu": 1 << 16, "cuda": 1 << 24}
# Nodes for each edge beyond which work on the edges alone is the smaller part.
_MOSTLY_ISOLATED = 64
# Nodes of a small graph: those of the largest that a kernel holds as a dense matrix. How many edges the graphs of a
# batch may look at together, each at all of them: 512 molecules at once.
_SMALL = 128
_MOST_LOOKED_AT = 1 << 24
# Edges from which on a compiled kernel sorts them. Of a batch, which is encoded by such kernels anyway, as many as
# SciPy would be loaded for; of one graph so many that Numba is loaded in the time they take.
_MANY_EDGES_OF_A_BATCH = 1 << 12
_MANY_EDGES = 1 << 20


@dataclass(frozen=True, eq=False)
class Graph:
    """A disjoint union of graphs; ``ptr[g]`` is the first node of graph ``g`` as in a PyG ``Batch``.

    The constructor checks everything; :meth:`unchecked` is the one for input that is known to be good. Two graphs are
    equal if they are the same object.

    Args:
        edge_index: Source and target of every edge, ``[2, num_edges]``.
        num_nodes: Number of nodes over all graphs, isolated ones included.
        edge_weight: ``[num_edges]``, or ``None`` for all ones.
        ptr: ``[num_graphs + 1]`` node offsets; ``None`` means one graph.
        max_size: No graph has more nodes than this, if that is known: then nobody needs to ask a GPU.
        padded: Whether there may be nodes from ``ptr[-1]`` on, which belong to no graph: those of a batch kept at one
            size. Layers and learned operators can read such a batch; nothing can be drawn for it.
        known_keys: :attr:`keys`, where they are not those of the edges: copies that draw what the original draws.
        known_batch: :attr:`batch`, where it is known already.
        known_sizes: :attr:`size_range`, where it is known already: then nobody needs to ask a GPU.
        memo: What other modules derive from the graph, kept with it.

    Example:
        >>> import torch
        >>> triangle = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        >>> triangle.num_graphs, triangle.num_edges, triangle.to_undirected().num_edges
        (1, 3, 6)
    """

    edge_index: Tensor  # [2, num_edges]
    num_nodes: int
    edge_weight: Tensor | None = None  # [num_edges]
    ptr: Tensor | None = None  # [num_graphs + 1]
    max_size: int | None = None
    padded: bool = False
    known_keys: Tensor | None = None  # [num_graphs]
    known_batch: Tensor | None = None  # [num_nodes]
    known_sizes: tuple[int, int] | None = None
    memo: Memo = field(default_factory=Memo, repr=False)

    @classmethod
    def unchecked(
        cls,
        edge_index: Tensor,
        num_nodes: int,
        edge_weight: Tensor | None = None,
        ptr: Tensor | None = None,
        *,
        max_size: int | None = None,
        padded: bool = False,
        known_keys: Tensor | None = None,
        known_batch: Tensor | None = None,
        known_sizes: tuple[int, int] | None = None,
    ) -> Graph:
        """A graph whose parts are known to fit: nothing is looked at, so a GPU is not waited for."""
        graph = object.__new__(cls)
        graph.__dict__.update(
            edge_index=edge_index,
            num_nodes=num_nodes,
            edge_weight=edge_weight,
            ptr=ptr,
            max_size=max_size,
            padded=padded,
            known_keys=known_keys,
            known_batch=known_batch,
            known_sizes=known_sizes,
            memo=Memo(),
        )
        return graph

    def __post_init__(self) -> None:
        self.check_form()
        object.__setattr__(self, "edge_index", as_index(self.edge_index))
        self.check_values()

    def check_form(self) -> None:
        """Raise where shapes and types do not fit; nothing is read, so a GPU is not waited for."""
        check_tensors(edge_index=self.edge_index, edge_weight=self.edge_weight)
        if self.edge_index.dim() != 2 or self.edge_index.size(0) != 2:
            raise GraphError(f"edge_index must have shape [2, num_edges], got {list(self.edge_index.shape)}")
        if self.edge_index.is_floating_point() or self.edge_index.dtype == torch.bool:
            raise GraphError(f"edge_index must hold integers, got {self.edge_index.dtype}; convert with .long()")
        if self.num_nodes < 0:
            raise GraphError(f"num_nodes must be at least 0, got {self.num_nodes}")
        if self.edge_weight is not None and self.edge_weight.shape != self.edge_index.shape[1:]:
            raise GraphError(
                f"edge_weight must have one value for each of the {self.num_edges} edges, "
                f"got shape {list(self.edge_weight.shape)}"
            )
        if self.edge_weight is not None and self.edge_weight.is_complex():
            raise GraphError(f"edge_weight must be real, got {self.edge_weight.dtype}; take e.g. its absolute value")
        if self.ptr is not None:
            check_offsets_form(self.ptr)

    def check_values(self) -> None:
        """Raise where a node, a weight or an offset cannot be; costs a pass over the edges."""
        if self.num_edges:
            low, high = torch.stack(torch.aminmax(self.edge_index)).tolist()
            if low < 0 or high >= self.num_nodes:
                bad = low if low < 0 else high
                raise GraphError(f"edge_index holds node {bad}, expected 0 to num_nodes - 1 = {self.num_nodes - 1}")
        if self.edge_weight is not None and not bool(torch.isfinite(self.edge_weight).all()):
            where = int((~torch.isfinite(self.edge_weight)).nonzero()[0])
            raise GraphError(f"edge_weight must be finite, got {self.edge_weight[where].item()} at edge {where}")
        if self.ptr is None:
            return
        check_offsets(self.ptr, self.num_nodes)
        if self.num_graphs > 1 and self.num_edges:
            source, target = self.batch[self.edge_index.long()]
            if bool((source != target).any()):
                where = int((source != target).nonzero()[0])
                raise GraphError(f"edge {where} joins two graphs of the batch: {self.edge_index[:, where].tolist()}")

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def num_graphs(self) -> int:
        return 1 if self.ptr is None else self.ptr.size(0) - 1

    @property
    def device(self) -> torch.device:
        return self.edge_index.device

    @cached_property
    def offsets(self) -> Tensor:
        """``ptr``, made explicit for a single graph: ``[num_graphs + 1]``."""
        if self.ptr is not None:
            return self.ptr.to(self.device)
        # Made where it is wanted, and at once: a copy from the host would be waited for.
        if self.num_nodes:
            return torch.arange(0, self.num_nodes + 1, self.num_nodes, device=self.device)
        return torch.zeros(2, dtype=torch.long, device=self.device)

    @cached_property
    def sizes(self) -> Tensor:
        """Number of nodes of each graph, ``[num_graphs]``."""
        return self.offsets.diff()

    @cached_property
    def batch(self) -> Tensor:
        """Graph number of each node, ``[num_nodes]``."""
        if self.known_batch is not None:
            return self.known_batch
        graphs = torch.arange(self.num_graphs, device=self.device)
        return torch.repeat_interleave(graphs, self.sizes, output_size=self.num_nodes)

    @cached_property
    def largest(self) -> int:
        """Number of nodes of the largest graph (one synchronisation on a GPU, then cached)."""
        return self.size_range[1]

    @cached_property
    def size_range(self) -> tuple[int, int]:
        """Nodes of the smallest and of the largest graph (one synchronisation on a GPU, then cached)."""
        if self.known_sizes is not None:
            return self.known_sizes
        if not self.num_graphs:
            return 0, 0
        if self.num_graphs == 1 and not self.padded:
            return self.num_nodes, self.num_nodes
        smallest, largest = torch.stack(torch.aminmax(self.sizes)).tolist()
        return smallest, largest

    @cached_property
    def keys(self) -> Tensor:
        r"""A 64-bit key of each graph's content, ``[num_graphs]``: what random features are drawn from.

        The sum over the edges of a hash of (source, target), in node numbers of the graph itself, so the key does not
        depend on the batch the graph sits in, on the order of its edges, nor on how they are split over workers.
        Weights are left out: reweighting a graph keeps its draw. Costs :math:`O(m)`.
        """
        if self.known_keys is not None:
            return self.known_keys
        if "kernel_pattern" in self.__dict__:
            return self.kernel_pattern.keys
        if self.device.type == "cuda" and triton_available():
            from rfp.triton_hashing import graph_keys

            found: Tensor = graph_keys(self.edge_index, self.offsets, None if self.num_graphs == 1 else self.batch)
            return found
        keys = mix(self.sizes * GOLDEN + 1)
        single = self.num_graphs == 1
        chunk = _HASH_CHUNK.get(self.device.type, _HASH_CHUNK["cpu"])
        for start in range(0, self.num_edges, chunk):
            source, target = self.edge_index[:, start : start + chunk].long()
            if single:
                keys += hash_of_edges(source, target)
                continue
            graph = self.batch[source]
            first = self.offsets[graph]
            words = words_of_edges(source - first, target - first)
            keys.index_add_(0, graph, torch.where(words == 0, LOOP_AT_ZERO, words))
        return mix(keys)

    @cached_property
    def kernel_pattern(self) -> KernelPattern:
        """:attr:`pattern`, :attr:`keys` and degrees by kernels that nobody waits for, where :attr:`sorts_on_gpu`."""
        from rfp.triton_pattern import launch_edge_sort

        batch = None if self.num_graphs == 1 else self.batch
        return launch_edge_sort(self.edge_index, self.edge_weight, self.num_nodes, self.offsets, batch)

    @property
    def sorts_on_gpu(self) -> bool:
        """Whether :attr:`kernel_pattern` can be asked for."""
        fits = self.num_nodes > 0 and self.num_nodes + self.num_edges < 2**31
        return self.device.type == "cuda" and fits and not self.padded and triton_available()

    @property
    def is_small_batch(self) -> bool:
        """Whether its graphs are known to be small, and few enough that each may look at the edges of all."""
        if self.num_graphs == 1:
            largest = self.num_nodes
        elif self.known_sizes is not None:
            largest = self.known_sizes[1]
        else:
            return False
        return largest <= _SMALL and self.num_graphs * self.num_edges <= _MOST_LOOKED_AT

    @property
    def sorts_compiled(self) -> bool:
        """Whether a compiled kernel makes :attr:`pattern`; that depends on the graph alone."""
        least = _MANY_EDGES if self.num_graphs == 1 else _MANY_EDGES_OF_A_BATCH
        fits = least <= self.num_edges < 2**31 - self.num_nodes
        return fits and self.device.type == "cpu" and compiled_available()

    def learn_keys(self, keys: Tensor) -> None:
        """Take these for :attr:`keys`, where a kernel has found them on its way to something else."""
        if self.known_keys is None:
            self.__dict__["keys"] = keys

    @cached_property
    def pattern(self) -> CSR:
        """:math:`A` in float64 with every diagonal entry present (zero where there is no self-loop).

        All predefined operators share it, so several of them need one sort and one set of indices. No gradient passes
        through it.
        """
        if self.sorts_compiled:
            from rfp.compiled.pattern import compiled_pattern

            weight = None if self.edge_weight is None else self.edge_weight.detach()
            if (found := compiled_pattern(self.edge_index, weight, self.num_nodes)) is not None:
                return found
        n, device = self.num_nodes, self.device
        weight = torch.ones(self.num_edges, device=device) if self.edge_weight is None else self.edge_weight.detach()
        diagonal = torch.arange(n, device=device, dtype=self.edge_index.dtype)
        row = torch.cat([self.edge_index[0], diagonal])
        col = torch.cat([self.edge_index[1], diagonal])
        zeros = torch.zeros(n, device=device, dtype=torch.float64)
        return from_entries(row, col, torch.cat([weight.to(torch.float64), zeros]), n)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        weight = None if self.edge_weight is None else self.edge_weight.to(device)
        ptr = None if self.ptr is None else self.ptr.to(device)
        keys = None if self.known_keys is None else self.known_keys.to(device)
        return Graph.unchecked(
            self.edge_index.to(device),
            self.num_nodes,
            weight,
            ptr,
            max_size=self.max_size,
            padded=self.padded,
            known_keys=keys,
            known_sizes=self.known_sizes,
        )

    def with_keys(self, keys: Tensor) -> Graph:
        """The same graph with the draw of another: these are its :attr:`keys`."""
        return Graph.unchecked(
            self.edge_index,
            self.num_nodes,
            self.edge_weight,
            self.ptr,
            max_size=self.max_size,
            known_keys=keys,
            known_sizes=self.known_sizes,
        )

    def to_scipy(self, dtype: Any = np.float64) -> sp.csr_array:
        """The adjacency matrix; duplicate edges are added up."""
        import scipy.sparse as sp

        source, target = self.edge_index.cpu().numpy()
        weight = np.ones(self.num_edges, dtype) if self.edge_weight is None else self.edge_weight.detach().cpu().numpy()
        shape = (self.num_nodes, self.num_nodes)
        matrix = sp.coo_array((weight.astype(dtype, copy=False), (source, target)), shape=shape).tocsr()
        matrix.sum_duplicates()
        return matrix

    def is_undirected(self) -> bool:
        """Whether ``A`` is symmetric, weights included."""
        matrix = self.to_scipy()
        return bool((abs(matrix - matrix.T)).nnz == 0)

    def to_undirected(self) -> Graph:
        r"""Each edge counts in both directions: ``A[i, j]`` becomes the larger in magnitude of ``A[i, j]``, ``A[j, i]``
        (the positive one of two opposite values).

        An undirected graph is returned unchanged up to the order and the merging of duplicates, whether its edges were
        listed once or twice. Costs :math:`O(n + m)`, or :math:`O(m \log m)` where most nodes are isolated.
        """
        if self.num_nodes > _MOSTLY_ISOLATED * (self.num_edges + 1):  # the rows of a matrix would be most of the work
            present, ends = torch.unique(self.edge_index, return_inverse=True)
            few = Graph.unchecked(ends, len(present), self.edge_weight).to_undirected()
            return Graph.unchecked(present[few.edge_index], self.num_nodes, few.edge_weight, self.ptr)
        matrix = self.to_scipy()
        transposed = matrix.T.tocsr()
        merged = matrix.maximum(transposed)
        if matrix.nnz and matrix.data.min() < 0:
            # Signed weights: the minimum where it is the larger in magnitude; both are symmetric, so is the choice.
            lower = matrix.minimum(transposed)
            wins = -lower > merged
            merged = merged - merged.multiply(wins) + lower.multiply(wins)
        weighted = None if self.edge_weight is None else True  # duplicates of unweighted edges become weights
        return from_scipy(merged.tocsr(), ptr=self.ptr, weighted=weighted, device=self.device)


def as_index(edge_index: Tensor) -> Tensor:
    """Integers of 32 or 64 bits: smaller ones may not hold the number of every node, and some cannot be compared."""
    return edge_index if edge_index.dtype in (torch.int32, torch.int64) else edge_index.long()


def check_tensors(**parts: Any) -> None:
    """Raise for the first of these parts of a graph that is there and is no tensor."""
    for name, part in parts.items():
        if part is not None and not isinstance(part, Tensor):
            raise GraphError(
                f"{name} must be a tensor, got {type(part).__name__}; torch.as_tensor makes one, and rfp.as_graph "
                "reads arrays"
            )


def refuse_masked(values: Any, what: str) -> None:
    """Raise where entries of a NumPy masked array are missing: what reads one reads the numbers under its mask."""
    if np.ma.is_masked(values):
        missing = np.ma.getmaskarray(values)
        raise GraphError(
            f"{what} is a masked array with missing entries ({missing.sum()} of {missing.size}); leave "
            "them out, or give values for them with .filled()"
        )


def from_scipy(matrix: Any, ptr: Tensor | None = None, weighted: bool | None = None, device: Any = "cpu") -> Graph:
    """The graph of an adjacency matrix; ``weighted=None`` leaves the weights out where all entries are 1."""
    import scipy.sparse as sp

    if np.iscomplexobj(matrix):
        raise GraphError(f"an adjacency matrix must be real, got {matrix.dtype}; take e.g. abs(matrix)")
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"an adjacency matrix must be square, got shape {matrix.shape}")
    coo = sp.coo_array(matrix)
    edge_index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64)).to(device)
    values = np.asarray(coo.data)
    if weighted is None:
        weighted = not bool((values == 1).all())
    weight = torch.from_numpy(values.astype(np.float64)).to(device) if weighted else None
    return Graph(edge_index, matrix.shape[0], weight, ptr)


def batch_graphs(graphs: Sequence[Graph]) -> Graph:
    """Put graphs side by side as one; the order is kept."""
    if not graphs:
        raise GraphError("an empty list of graphs was given; at least one graph is needed")
    sizes = torch.cat([g.sizes.cpu() for g in graphs])
    whole = torch.cat([g.edge_index.long() for g in graphs], dim=1)
    counts = torch.tensor([[g.num_nodes, g.num_edges] for g in graphs], device=whole.device)
    edge_index, _ = join(whole, *counts.T)
    weight = None
    if any(g.edge_weight is not None for g in graphs):
        ones = [torch.ones(g.num_edges, device=g.device) for g in graphs]
        weight = torch.cat([w if g.edge_weight is None else g.edge_weight for g, w in zip(graphs, ones, strict=True)])
    known = any(g.known_keys is not None for g in graphs)
    return Graph.unchecked(
        edge_index,
        sum(g.num_nodes for g in graphs),
        weight,
        offsets(sizes).to(whole.device),
        known_keys=torch.cat([g.keys for g in graphs]) if known else None,
    )
