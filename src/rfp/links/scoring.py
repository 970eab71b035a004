"""What is asked of a score: which one, of which graph, exact or from which draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rfp.errors import GraphError
from rfp.graph import Graph
from rfp.links.definitions import KATZ_BETA, KATZ_LENGTH, ScoreForm, score_form
from rfp.links.exact import PairsTold
from rfp.products.draw import DrawArguments, draw_settings
from rfp.settings import Settings, fields_among
from rfp.theory.simple import require_simple

# 1024 samples in four trajectories: one of them is in memory at a time.
DEFAULT_DRAW = Settings(num_channels=256, num_trajectories=4, start="orthonormal", normalization="none")


@dataclass(frozen=True)
class Scoring:
    """How pairs are scored; :func:`rfp.links.score_pairs` says what its keywords, the fields, mean."""

    score: str = "common_neighbors"
    exact: bool = False
    beta: float = KATZ_BETA
    max_length: int = KATZ_LENGTH
    progress: PairsTold = lambda done, total: None


class ScoreArguments(DrawArguments, total=False):
    """The fields of :class:`Scoring`, and how features are drawn, as keywords."""

    score: str
    exact: bool
    beta: float
    max_length: int
    progress: PairsTold


@dataclass(frozen=True)
class ScoreTask:
    """A score of one graph, ready to be computed.

    Args:
        graph: Simple.
        form: The score.
        scoring: What was asked.
        settings: How the features of an estimate are drawn.
    """

    graph: Graph
    form: ScoreForm
    scoring: Scoring
    settings: Settings

    @classmethod
    def of(cls, graph: Any, arguments: Mapping[str, Any]) -> ScoreTask:
        """From a graph in any form and the keywords of a face; raises with what is wrong with either."""
        of_scoring, draw = fields_among(Scoring, arguments)
        scoring = Scoring(**of_scoring)
        read = require_simple(graph)
        if read.num_graphs > 1:
            raise GraphError(f"links are scored in one graph, got a batch of {read.num_graphs}; give them one by one")
        form = score_form(scoring.score, read, beta=scoring.beta, max_length=scoring.max_length)
        settings = draw_settings(DEFAULT_DRAW, draw)
        # One trajectory is enough where it spans all nodes.
        whole = settings.start == "orthonormal" and settings.num_channels >= read.num_nodes
        if whole and "num_trajectories" not in draw:
            settings = replace(settings, num_trajectories=1)
        return cls(read, form, scoring, settings)

    @property
    def num_samples(self) -> int:
        """Channels that an estimate averages, k B."""
        return self.settings.num_channels * self.settings.num_trajectories
