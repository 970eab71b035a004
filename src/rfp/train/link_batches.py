"""Batches of pairs of nodes on the device: a whole graph without the edges that are asked about, and its negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import torch
from torch import Tensor

from rfp.data.link_edges import JudgedPairs
from rfp.data.link_negatives import pair_keys
from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.hashing import signed
from rfp.nn.counted_draws import training_seed
from rfp.train.batches import Batch

# Bytes of edges of the graphs of all training batches that are kept from epoch to epoch.
_KEPT_BYTES = 1 << 30
# Separate the partition into batches, their order and the negatives.
_PARTITION, _ORDER, _NEGATIVES = (signed(word) for word in (0x9C1F7B3D5A2E6841, 0x3D6A95C8E27F10B4, 0x6E5B1D09F4C3A782))
# Draws of a negative before what is still an edge is left out.
_DRAWS = 20

Encode = Callable[[Graph], dict[str, Tensor]]
"""The unchanging encodings of a graph, by the attribute the model looks for."""


class TrainingPairs:
    """The training edges of a link task in batches, each with as many pairs that are no training edges.

    The edges are cut into batches once, by the seed; the graph of a batch is the training graph without its own edges,
    so it is the same in every epoch and what is derived from it stays with it. What changes are the order of the
    batches and the negatives, a function of the seed and the epoch. Edges of the validation and test parts are nowhere:
    a negative may be one of them, since training does not know them.

    Args:
        loaded: A link task at its split, on the device.
        batch_size: Edges in a batch; half of them at most.
        seed: Seed of partition, order and negatives.
        share: (rank, number of processes): process r of p gets pairs r, r + p, … of each batch.
        encode: The unchanging encodings of a graph.
    """

    def __init__(
        self,
        loaded: LoadedTask,
        *,
        batch_size: int,
        seed: int,
        share: tuple[int, int] = (0, 1),
        encode: Encode = lambda graph: {},
    ) -> None:
        assert loaded.held_out is not None
        self.epoch = 0
        self.seed, self.share, self._encode = seed, share, encode
        self._loaded, self._train = loaded, loaded.held_out.train
        self.num_nodes = loaded.graphs.num_nodes
        count = self._train.size(1)
        device = self._train.device
        self._known = pair_keys(self._train, self.num_nodes).sort().values
        if count == self.num_nodes * (self.num_nodes - 1) // 2:
            raise ArgumentError(f"{loaded.source}: every pair of nodes is a training edge, so there are no negatives")
        generator = torch.Generator().manual_seed(training_seed(seed + _PARTITION, 0))
        order = torch.randperm(count, generator=generator).to(device)
        # Of nearly equal size; two at least, or the graph without the edges of a batch would have none.
        self.batches = torch.tensor_split(order, min(count, max(2, -(-count // batch_size))))
        kept = 32 * count * len(self.batches)
        self._keep = kept <= _KEPT_BYTES
        self._graphs: dict[int, tuple[Graph, dict[str, Tensor]]] = {}

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(training_seed(self.seed + _ORDER, self.epoch))
        rank, world = self.share
        for number in torch.randperm(len(self.batches), generator=generator).tolist():
            graph, stored = self._graph(number)
            positives = self._train[:, self.batches[number]]
            negatives = self.negatives(positives.size(1), number)
            pairs = torch.cat([positives, negatives], dim=1)
            answer = torch.zeros(pairs.size(1), 2, device=pairs.device)
            answer[: positives.size(1), 0] = 1.0
            data = _data(self._loaded, stored, pairs[:, rank::world])
            yield Batch(data, graph, answer[rank::world])

    def negatives(self, count: int, number: int) -> Tensor:
        """Pairs of different nodes that are no training edges, ``[2, count]`` or, in a dense graph, a few less."""
        n, device = self.num_nodes, self._train.device
        seed = training_seed(training_seed(self.seed + _NEGATIVES, self.epoch), number)
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(n, (2, count), generator=generator).to(device)
        for _ in range(_DRAWS):
            bad = self._is_closed(drawn).nonzero().squeeze(1)
            if not len(bad):
                return drawn
            drawn[:, bad] = torch.randint(n, (2, len(bad)), generator=generator).to(device)
        return drawn[:, ~self._is_closed(drawn)]

    def _is_closed(self, pairs: Tensor) -> Tensor:
        keys = pair_keys(pairs, self.num_nodes)
        place = torch.searchsorted(self._known, keys).clamp_max(len(self._known) - 1)
        return (self._known[place] == keys) | (pairs[0] == pairs[1])

    def _graph(self, number: int) -> tuple[Graph, dict[str, Tensor]]:
        if number in self._graphs:
            return self._graphs[number]
        rest = torch.ones(self._train.size(1), dtype=torch.bool, device=self._train.device)
        rest[self.batches[number]] = False
        edges = self._train[:, rest]
        graph = Graph.unchecked(torch.cat([edges, edges.flip(0)], dim=1), self.num_nodes)
        made = (graph, self._encode(graph))
        if self._keep:
            self._graphs[number] = made
        return made


class HeldOutPairs:
    """All pairs of the validation or test part as one batch, judged on the training graph.

    Args:
        loaded: A link task at its split, on the device.
        part: ``"val"`` or ``"test"``.
        negatives: ``"uniform"``, ``"hard"`` or ``"both"``: which of them.
        encode: The unchanging encodings of a graph.
    """

    def __init__(
        self, loaded: LoadedTask, part: str, *, negatives: str = "both", encode: Encode = lambda graph: {}
    ) -> None:
        assert loaded.held_out is not None
        self.epoch = 0
        judged: JudgedPairs = loaded.held_out.judged[part].only(negatives)
        graph = loaded.graphs.graph
        self._batch = Batch(_data(loaded, encode(graph), judged.pairs), graph, judged.label)

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Batch]:
        yield self._batch


def _data(loaded: LoadedTask, stored: dict[str, Tensor], pairs: Tensor) -> SimpleNamespace:
    return SimpleNamespace(edge_attr=None, pairs=pairs, **{"x": None, **loaded.graphs.nodes, **stored})
