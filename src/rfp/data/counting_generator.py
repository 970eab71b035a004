"""The synthetic counting task: random regular graphs with edges removed, and how often four patterns occur in them.

Data set 2 of Chen et al. (2020), as the paper's section 5.1 uses it: one of (10 nodes, degree 6), (15, 6), (20, 5),
(30, 5) is chosen for each graph, a random regular graph is drawn, and as many random edges are removed as it has
nodes. So a graph with 10, 15, 20 or 30 nodes has 20, 30, 30 or 45 edges. Targets are counts of not necessarily induced
subgraphs.

References:
    Z. Chen, L. Chen, S. Villar, J. Bruna. Can graph neural networks count substructures? NeurIPS 2020.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from rfp.errors import ArgumentError, FileError
from rfp.graph import Graph
from rfp.ragged import join
from rfp.theory.substructures import PATTERNS, graph_counts

# (nodes, degree), chosen with equal probability.
SIZES_AND_DEGREES = ((10, 6), (15, 6), (20, 5), (30, 5))
TARGETS = tuple(PATTERNS)  # triangle, tailed_triangle, star, cycle4
NUM_GRAPHS = 5000
# Of the published split: 1500, 1000 and 2500 of 5000.
SPLIT_SHARES = {"train": 0.3, "val": 0.2, "test": 0.5}
PUBLISHED_FILE = Path("subgraphcount") / "raw" / "subgraphcount.npz"


@dataclass(frozen=True)
class CountingData:
    """Graphs, their counts and a split.

    Args:
        graphs: All graphs as one batch.
        counts: ``[num_graphs, 4]`` int64 in the order of :data:`TARGETS`.
        split: Numbers of the graphs in ``train``, ``val`` and ``test``.
        source: ``"generated, seed 0"`` or the file that was read.
    """

    graphs: Graph
    counts: Tensor
    split: dict[str, Tensor]
    source: str

    @property
    def num_graphs(self) -> int:
        return self.graphs.num_graphs

    @cached_property
    def divisors(self) -> Tensor:
        """``[4]``: sample standard deviations of the targets over all graphs, by which published errors are divided."""
        return self.counts.double().std(dim=0)

    @cached_property
    def targets(self) -> Tensor:
        """``[num_graphs, 4]`` float64: the counts over the divisors; the mean is not subtracted."""
        return self.counts.double() / self.divisors

    def to_data_list(self, part: str | None = None) -> list[Data]:
        """PyG graphs with a constant feature ``x`` ``[n, 1]`` and ``y`` ``[1, 4]`` float32, the divided counts.

        Args:
            part: ``"train"``, ``"val"`` or ``"test"``; ``None`` gives all graphs in order.
        """
        if part is not None and part not in self.split:
            raise ArgumentError(f"part must be one of {', '.join(self.split)}, got {part!r}")
        ends = torch.searchsorted(self.graphs.edge_index[0].contiguous(), self.graphs.offsets)
        chosen = range(self.num_graphs) if part is None else self.split[part].tolist()
        return [self._data(g, ends) for g in chosen]

    def _data(self, g: int, ends: Tensor) -> Data:
        start, stop = int(self.graphs.offsets[g]), int(self.graphs.offsets[g + 1])
        edge_index = self.graphs.edge_index[:, ends[g] : ends[g + 1]] - start
        return Data(x=torch.ones(stop - start, 1), edge_index=edge_index, y=self.targets[g : g + 1].float())


def load_counting(root: str | Path | None = None) -> CountingData:
    """The published graphs if a data root holds them, otherwise those generated from seed 0.

    Args:
        root: Folder with ``subgraphcount/raw/subgraphcount.npz``; by default the environment variable ``RFP_DATA``.
    """
    folder = root or os.environ.get("RFP_DATA")
    if folder and (Path(folder) / PUBLISHED_FILE).is_file():
        return read_published(folder)
    return generate()


load = load_counting  # its earlier name


def read_published(root: str | Path) -> CountingData:
    """The graphs and the split as published; counts are made from the graphs and checked against the file's."""
    path = Path(root) / PUBLISHED_FILE
    try:
        with np.load(path, allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read as the counting data set ({error})") from error
    numbers = (torch.from_numpy(content[name].astype(np.int64)) for name in ("edge_index", "num_nodes", "num_edges"))
    edge_index, ptr = join(*numbers)
    split = {part: torch.from_numpy(content[f"{part}_idx"].astype(np.int64)) for part in SPLIT_SHARES}
    data = _with_counts(edge_index, ptr, split, str(path))
    order = [list(content["y_names"]).index(name) for name in TARGETS]
    if not np.array_equal(data.counts.numpy(), content["y"][:, order]):
        raise FileError(f"{path}: the counts in the file are not those of its graphs; fetch the file again")
    return data


def generate(num_graphs: int = NUM_GRAPHS, *, seed: int = 0) -> CountingData:
    """Draw the data set: the same seed gives the same graphs, and a longer set begins with those of a shorter one.

    Args:
        num_graphs: How many; 30, 20 and 50 % of them are for training, validation and test.
        seed: Any non-negative integer.

    Example:
        >>> data = generate(40, seed=0)
        >>> data.num_graphs, [len(part) for part in data.split.values()]
        (40, [12, 8, 20])
        >>> sorted(set(data.graphs.sizes.tolist()))
        [10, 15, 20, 30]
    """
    if num_graphs < 1:
        raise ArgumentError(f"num_graphs must be at least 1, got {num_graphs}")
    if seed < 0:
        raise ArgumentError(f"seed must be at least 0, got {seed}")
    edges, sizes = [], []
    for g in range(num_graphs):
        # A generator for each graph, so that it does not depend on those before it.
        rng = np.random.default_rng([seed, g])
        n, degree = SIZES_AND_DEGREES[rng.integers(len(SIZES_AND_DEGREES))]
        whole = random_regular(n, degree, rng)
        edges.append(whole[rng.permutation(len(whole))[n:]])
        sizes.append(n)
    counts = torch.tensor([len(e) for e in edges])
    half, ptr = join(torch.from_numpy(np.concatenate(edges).T), torch.tensor(sizes), counts)
    edge_index = torch.cat([half, half.flip(0)], dim=1)
    # A seed of another length than the graphs' is another stream.
    order = torch.from_numpy(np.random.default_rng([seed]).permutation(num_graphs))
    first, second = (round(num_graphs * share) for share in (SPLIT_SHARES["train"], SPLIT_SHARES["val"]))
    split = {"train": order[:first], "val": order[first : first + second], "test": order[first + second :]}
    return _with_counts(edge_index, ptr, split, f"generated, seed {seed}")


def random_regular(num_nodes: int, degree: int, rng: np.random.Generator) -> np.ndarray:  # -> [n degree / 2, 2]
    """A random simple graph with all degrees equal, by the pairing of Steger and Wormald (1999).

    Every node has ``degree`` half-edges; they are paired at random, pairs that would give a self-loop or a repeated
    edge go back, and when none of those left can be used the graph is begun again. Uniform over all such graphs only
    as n grows; NetworkX draws from the same distribution.

    Example:
        >>> edges = random_regular(8, 3, np.random.default_rng(0))
        >>> np.bincount(edges.ravel()).tolist()
        [3, 3, 3, 3, 3, 3, 3, 3]
    """
    if degree >= num_nodes or num_nodes * degree % 2:
        raise ArgumentError(
            f"a regular graph needs degree < num_nodes and an even num_nodes * degree, got {degree} and {num_nodes}"
        )
    while True:
        edges: set[tuple[int, int]] = set()
        halves = np.repeat(np.arange(num_nodes), degree)
        while len(halves):
            back = []
            for u, v in rng.permutation(halves).reshape(-1, 2).tolist():
                edge = (min(u, v), max(u, v))
                if u == v or edge in edges:
                    back += [u, v]
                else:
                    edges.add(edge)
            halves = np.array(back, dtype=np.int64)
            left = sorted(set(back))
            if left and all((u, v) in edges for i, u in enumerate(left) for v in left[i + 1 :]):
                break
        else:
            return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)


def _with_counts(edge_index: Tensor, ptr: Tensor, split: dict[str, Tensor], source: str) -> CountingData:
    """Sort the edges by node, so that each graph's are together, and count."""
    order = (edge_index[0] * int(ptr[-1]) + edge_index[1]).argsort()
    graphs = Graph(edge_index[:, order], int(ptr[-1]), ptr=ptr)
    return CountingData(graphs, graph_counts(graphs, TARGETS), split, source)
