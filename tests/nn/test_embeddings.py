"""K_embed: the paper's linear map on the concatenation, for every layout of trajectories and replicas."""

from __future__ import annotations

import pytest
import torch

from rfp.nn.embeddings import DrawnShape, EmbeddingOptions, LinearEmbedding
from rfp.nn.replicated import replicate

N, R = 6, 3


def options(joined: bool = True, **changes: object) -> EmbeddingOptions:
    values = {"shared_channels": 2, "drawn": (DrawnShape(2, 2, 2), DrawnShape(3, 1)), "num_trajectories": 2}
    return EmbeddingOptions(**{**values, "out_channels": 5, "joined": joined, **changes})  # type: ignore[arg-type]


def inputs() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    torch.manual_seed(0)
    return [torch.randn(N, 2)], [torch.randn(2, N, 4), torch.randn(1, N, 3)]


def test_joined_trajectories_lie_side_by_side() -> None:
    shared, drawn = inputs()
    embed = LinearEmbedding(options())
    everything = torch.cat([shared[0], drawn[0][0], drawn[0][1], drawn[1][0]], dim=1)
    assert embed.in_features == 2 + 2 * 4 + 3
    assert torch.allclose(embed(shared, drawn), everything @ embed.weight.T + embed.bias, atol=1e-6)


def test_each_trajectory_by_the_same_map_and_a_single_one_repeated() -> None:
    shared, drawn = inputs()
    embed = LinearEmbedding(options(joined=False))
    assert embed.in_features == 2 + 4 + 3
    for b, out in enumerate(embed(shared, drawn)):
        everything = torch.cat([shared[0], drawn[0][b], drawn[1][0]], dim=1)
        assert torch.allclose(out, everything @ embed.weight.T + embed.bias, atol=1e-6)
    only_shared = LinearEmbedding(options(joined=False, drawn=()))
    assert only_shared(shared, []).shape == (2, N, 5)


@pytest.mark.parametrize("joined", [True, False])
def test_a_map_without_shared_inputs_has_its_bias(joined: bool) -> None:
    _, drawn = inputs()
    embed = LinearEmbedding(options(joined, shared_channels=0))
    zeros = [torch.zeros_like(t) for t in drawn]
    assert torch.equal(embed([], zeros), embed.bias.expand_as(embed([], zeros)))


def test_input_dropout_of_replicas_is_that_of_one_model() -> None:
    """What replicas share has no dimension of replicas: a mask of its own rows, not one that drops whole columns."""
    embed = LinearEmbedding(options(dropout=0.5, drawn=(), shared_channels=1)).train()
    with torch.no_grad():
        embed.weight.fill_(1.0)
        embed.bias.zero_()
    torch.manual_seed(1)
    alone = embed([torch.ones(400, 1)], [])
    assert set(alone.unique().tolist()) == {0.0, 2.0}
    replicate(torch.nn.ModuleList([embed]), R)
    torch.manual_seed(1)
    together = embed([torch.ones(400, 1)], [])
    assert torch.equal(together, alone.expand(R, -1, -1))
