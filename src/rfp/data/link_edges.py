"""The edges of a link task, what is asked about them, and one split: a training graph and pairs to be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.link_metrics import SHARED
from rfp.data.link_negatives import hard_negatives, uniform_negatives
from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.hashing import mix, signed

NEGATIVES = ("both", "uniform", "hard")
HELD_OUT = ("val", "test")


@dataclass(frozen=True)
class LinkEdges:
    """All edges of a link task, each once.

    Args:
        pairs: ``[2, E]``, the smaller node first; the rows of the task's labels and masks.
        negatives: Against what held-out edges are judged: as many ``"uniform"`` non-edges as there are positives,
            ``"hard"`` ones of each positive (:func:`~rfp.data.link_negatives.hard_negatives`), or ``"both"``.
        num_hard: Hard negatives of each positive.
        seed: Seed of the negatives; every split has its own.
        given: Negatives of ``val`` and ``test`` that came with the data, ``[2, N]``: they are then the uniform ones.
        names: Ids of the nodes, or ``None`` for their numbers.
    """

    pairs: Tensor
    negatives: str = "both"
    num_hard: int = 500
    seed: int = 0
    given: Mapping[str, Tensor] = field(default_factory=dict)
    names: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.negatives not in NEGATIVES:
            raise unknown_choice("negatives", self.negatives, NEGATIVES)
        if self.num_hard < 1:
            raise ArgumentError(f"hard_negatives must be at least 1, got {self.num_hard}")

    def split(
        self, graphs: GraphCollection, masks: Mapping[str, Tensor], number: int, source: str
    ) -> tuple[GraphCollection, HeldOut]:
        """The graph of the training edges alone, and the held-out pairs with their negatives."""
        rows = {part: masks[part][:, number].nonzero().squeeze(1) for part in ("train", *HELD_OUT)}
        train = self.pairs[:, rows["train"]]
        edge_index = torch.cat([train, train.flip(0)], dim=1)
        seen = replace(graphs, edge_index=edge_index, edge_ptr=torch.tensor([0, edge_index.size(1)]), edges={})
        judged = {}
        for i, part in enumerate(HELD_OUT):
            seed = mix(signed(self.seed * 1_000_003 + number * 2 + i))
            judged[part] = self._judged(part, self.pairs[:, rows[part]], seen.graph, seed, source)
        return seen, HeldOut(train, judged)

    def _judged(self, part: str, positives: Tensor, train: Graph, seed: int, source: str) -> JudgedPairs:
        count = positives.size(1)
        pairs = [positives]
        labels = [torch.stack([torch.ones(count), torch.arange(count).float()], dim=1)]
        if self.negatives in ("both", "uniform"):
            shared = self.given.get(part)
            if shared is None:
                generator = torch.Generator().manual_seed(seed)
                shared = uniform_negatives(self.pairs, train.num_nodes, count, generator, source=source)
            pairs.append(shared)
            labels.append(torch.stack([torch.zeros(shared.size(1)), torch.full((shared.size(1),), SHARED)], dim=1))
        if self.negatives in ("both", "hard"):
            own, group = hard_negatives(
                train, positives, self.pairs, self.num_hard, seed=seed % (1 << 63), source=source
            )
            pairs.append(own)
            labels.append(torch.stack([torch.zeros(len(group)), group.float()], dim=1))
        return JudgedPairs(torch.cat(pairs, dim=1), torch.cat(labels))


@dataclass(frozen=True)
class JudgedPairs:
    """Pairs with their labels.

    Args:
        pairs: ``[2, R]``.
        label: ``[R, 2]``: the answer and the group (:mod:`rfp.data.link_metrics`).
    """

    pairs: Tensor
    label: Tensor

    def only(self, negatives: str) -> JudgedPairs:
        """The positives with their ``"uniform"`` or ``"hard"`` negatives alone; as it is where there are none."""
        answer, group = self.label[:, 0] > 0.5, self.label[:, 1]
        wanted = group == SHARED if negatives == "uniform" else group != SHARED
        if negatives == "both" or not bool((wanted & ~answer).any()):
            return self
        kept = answer | wanted
        return JudgedPairs(self.pairs[:, kept], self.label[kept])

    def to(self, device: torch.device | str) -> JudgedPairs:
        """The same on another device."""
        return JudgedPairs(self.pairs.to(device), self.label.to(device))


@dataclass(frozen=True)
class HeldOut:
    """What one split asks.

    Args:
        train: ``[2, E']``, the positives of training: the edges of the training graph, each once.
        judged: The pairs of ``val`` and ``test``.
    """

    train: Tensor
    judged: Mapping[str, JudgedPairs]

    def to(self, device: torch.device | str) -> HeldOut:
        """The same on another device."""
        return HeldOut(self.train.to(device), {part: pairs.to(device) for part, pairs in self.judged.items()})
