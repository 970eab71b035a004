"""RFPModel: every part together, invariances, budget, molecules, training, state, compilation."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import from_networkx

import rfp
from rfp import baselines
from rfp.errors import ArgumentError
from rfp.nn import BACKBONES, RFPModel
from rfp.nn.model_graph import model_graph
from rfp.transforms import BASELINES

SMALL_RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2, "num_trajectories": 4}


def graphs(features: int = 2) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    made = [from_networkx(g) for g in (nx.cycle_graph(6), nx.star_graph(4), nx.random_labeled_tree(9, seed=1))]
    for data in made:
        data.x = torch.randn(data.num_nodes, features, generator=generator)
        data.edge_attr = torch.randn(data.num_edges, 3, generator=generator)
    return made


def make(**values: Any) -> RFPModel:
    torch.manual_seed(0)
    settings = {"out_channels": 2, "in_channels": 2, "hidden_channels": 8, "num_layers": 2, "num_heads": 2}
    return RFPModel({**settings, "encodings": [SMALL_RFP], **values})


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("trajectories", ["concatenate", "independent", "dss"])
@pytest.mark.parametrize("task", ["graph", "node"])
@pytest.mark.parametrize("pooled", [False, True])
def test_shapes_and_batches_for_every_combination(backbone: str, trajectories: str, task: str, pooled: bool) -> None:
    edges: dict[str, object] = {"edge_encoder": "linear", "edge_channels": 3} if backbone in ("gine", "gps") else {}
    if pooled and trajectories == "concatenate":
        with pytest.raises(ArgumentError, match="trajectory_layers pools trajectories that were kept apart"):
            make(backbone=backbone, trajectories=trajectories, task=task, trajectory_layers=1, **edges)
        return
    apart = 1 if pooled else None
    model = make(backbone=backbone, trajectories=trajectories, task=task, trajectory_layers=apart, **edges).eval()
    batch = Batch.from_data_list(graphs())
    out = model(batch)
    assert out.shape == ((3, 2) if task == "graph" else (20, 2))
    alone = torch.cat([model(data) for data in graphs()])
    assert torch.allclose(out, alone, atol=1e-4)
    model.train()(batch).sum().backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None]
    assert missing == []


def test_embedding_is_the_paper_s_linear_map_on_the_concatenation() -> None:
    model = make(trajectories="dss", activation="tanh").eval()
    data = graphs()[0]
    t = rfp.encode(data, num_channels=3, num_steps=2, num_trajectories=4, backend="reference").flat()
    joined = torch.cat([data.x.expand(4, -1, -1), t], dim=-1)
    expected = joined @ model.embed.weight.T + model.embed.bias
    assert torch.allclose(model._embed(data, model_graph(data), data.x, model.draw(data)), expected, atol=1e-5)


def test_concatenation_lays_trajectories_side_by_side() -> None:
    model = make(trajectories="concatenate").eval()
    data = graphs()[0]
    t = rfp.encode(data, num_channels=3, num_steps=2, num_trajectories=4, backend="reference").flat()
    joined = torch.cat([data.x, *t], dim=-1)
    expected = joined @ model.embed.weight.T + model.embed.bias
    assert torch.allclose(model._embed(data, model_graph(data), data.x, model.draw(data)), expected, atol=1e-5)


@pytest.mark.parametrize("trajectories", ["independent", "dss"])
@pytest.mark.parametrize("task", ["graph", "node"])
@pytest.mark.parametrize("apart", [None, 0, 1, 2])
def test_the_order_of_trajectories_plays_no_role(
    trajectories: str, task: str, apart: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make(trajectories=trajectories, task=task, trajectory_layers=apart).eval()
    batch = Batch.from_data_list(graphs())
    expected = model(batch)
    encoder = model.drawn[0]
    original = encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda *a, **k: original(*a, **k)[[3, 1, 0, 2]])
    assert torch.allclose(model(batch), expected, atol=1e-4)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_alone_and_beside_rfp_precomputed_or_not(name: str) -> None:
    for encodings in ([{"name": name}], [{"name": name}, SMALL_RFP]):
        model = make(encodings=encodings, trajectories="independent").eval()
        on_the_fly = model(Batch.from_data_list(graphs()))
        stored = model(Batch.from_data_list(model.precompute(graphs())))
        assert on_the_fly.shape == (3, 2)
        assert torch.allclose(on_the_fly, stored, atol=1e-3)


class Stored(InMemoryDataset):
    """Some graphs on disk, as a ``pre_transform`` leaves them."""

    processed_file_names = "graphs.pt"

    def __init__(self, root: str, pre_transform: Any) -> None:
        super().__init__(root, pre_transform=pre_transform)
        self.load(self.processed_paths[0])

    def process(self) -> None:
        self.save([self.pre_transform(data) for data in graphs()], self.processed_paths[0])


def test_what_is_stored_on_disk_is_known_by_its_encodings_alone(tmp_path: Path) -> None:
    low = {"name": "eigenvectors", "num_eigenvectors": 3}
    model = make(encodings=[low]).eval()
    dataset = Stored(str(tmp_path), model.precompute)
    assert torch.equal(model(dataset[2]), model(graphs()[2]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Stored(str(tmp_path), make(encodings=[low], hidden_channels=16).precompute)
    with pytest.warns(UserWarning, match="`pre_transform` argument differs"):
        Stored(str(tmp_path), make(encodings=[{**low, "operator": "normalized_adjacency"}]).precompute)


def test_precompute_of_a_data_set_held_in_memory(tmp_path: Path) -> None:
    model = make(encodings=[{"name": "random_walk"}, {"name": "sgc"}]).eval()
    dataset = model.precompute(Stored(str(tmp_path), ToUndirected()))
    assert dataset[1].random_walk_return_pe.shape == (5, 16)
    assert torch.allclose(model(dataset[1]), model(graphs()[1]), atol=1e-5)


@pytest.mark.parametrize("backbone", ["gcn", "gcnii", "graph_conv", "gin", "gps"])
def test_edges_of_32_bits(backbone: str) -> None:
    model = make(backbone=backbone, hidden_channels=64).eval()
    data, short = graphs()[2], graphs()[2]
    short.edge_index = short.edge_index.int()
    assert torch.equal(model(short), model(data))


def test_both_eigenvectors_with_rnf() -> None:
    encodings = [
        {"name": "eigenvectors", "num_eigenvectors": 3, "attr_name": "low"},
        {"name": "eigenvectors", "num_eigenvectors": 4, "operator": "normalized_adjacency", "attr_name": "high"},
        {"name": "rnf", "num_channels": 5},
    ]
    model = make(encodings=encodings, in_channels=0)
    assert model.embed.in_features == 3 + 4 + 5
    data = model.precompute(graphs()[0])
    assert data.low.shape == (6, 3)
    assert data.high.shape == (6, 4)
    assert model.eval()(data).shape == (1, 2)


def test_signs_of_eigenvectors_are_flipped_in_training_only() -> None:
    model = make(encodings=[{"name": "eigenvectors", "num_eigenvectors": 4}], norm="none", dropout=0.0)
    data = graphs()[2]
    vectors = baselines.eigenvectors(data, num_eigenvectors=4)
    seen = [model.train()._fixed_encoding(0, data, model_graph(data)) for _ in range(12)]
    assert all(torch.equal(one.abs(), vectors.abs()) for one in seen)
    assert len({tuple(one[0].sign().tolist()) for one in seen}) > 3
    assert torch.equal(model.eval()._fixed_encoding(0, data, model_graph(data)), vectors)


def test_signs_drawn_beforehand_are_left_alone() -> None:
    model = make(encodings=[{"name": "eigenvectors", "num_eigenvectors": 4}], norm="none", dropout=0.0).train()
    assert model.flips_signs
    assert not make(encodings=[]).flips_signs
    data = model.precompute(graphs()[2])
    vectors = data[model.fixed[0].attr_name]
    seen = set()
    for _ in range(12):
        drawn = copy.copy(data)
        model.draw_signs(drawn, model_graph(drawn))
        flipped = drawn[model.fixed[0].attr_name]
        assert torch.equal(flipped.abs(), vectors.abs())
        assert torch.equal(model._fixed_encoding(0, drawn, model_graph(drawn)), flipped)
        seen.add(tuple(flipped[0].sign().tolist()))
    assert len(seen) > 3
    assert torch.equal(data[model.fixed[0].attr_name], vectors)


def test_molecules_of_zinc_and_ogb() -> None:
    for kind, atoms, bonds in (("zinc", 1, 0), ("ogb", 9, 3)):
        data = graphs()[0]
        data.x = torch.zeros(6, atoms, dtype=torch.long)
        data.edge_attr = torch.ones(12, *([bonds] if bonds else []), dtype=torch.long)
        encodings = [{"name": "rfp", "operators": ["normalized_laplacian", "learned"], "num_steps": 2}]
        model = make(in_channels=0, node_encoder=kind, edge_encoder=kind, backbone="gine", encodings=encodings)
        assert model(data).shape == (1, 2)
        with_features = make(in_channels=0, node_encoder=kind, encodings=[{"name": "sign", "num_steps": 2}])
        assert with_features(data).shape == (1, 2)


@pytest.mark.parametrize("in_channels", [0, 2])
@pytest.mark.parametrize("trajectories", ["concatenate", "dss"])
def test_learned_operators_with_a_part_drawn_beforehand(in_channels: int, trajectories: str) -> None:
    learned = {"name": "rfp", "operators": ["adjacency", "learned"], "num_channels": 2, "num_steps": 2}
    learned |= {"num_trajectories": 4}
    model = make(in_channels=in_channels, encodings=[SMALL_RFP, learned], trajectories=trajectories).train()
    twin = copy.deepcopy(model)
    batch = Batch.from_data_list(graphs())
    for _ in range(2):
        drawn = model.draw(batch)
        assert [one.shape for one in drawn] == [(4, 20, 9), (4, 20, 2 + 4)]
        out, expected = model(batch, drawn=drawn), twin(batch)
        assert torch.equal(out, expected)
        out.square().sum().backward()
        expected.square().sum().backward()
    for (name, mine), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad), name  # type: ignore[arg-type]


def test_learned_operator_without_node_features_trains() -> None:
    model = make(
        in_channels=0, encodings=[{"name": "rfp", "operators": ["learned"], "num_channels": 3, "num_steps": 2}]
    )
    model(Batch.from_data_list(graphs())).square().sum().backward()
    grads = [p.grad for p in model.drawn.parameters()]
    assert all(g is not None and g.isfinite().all() for g in grads)
    assert sum(float(g.abs().sum()) for g in grads if g is not None) > 0


def test_budget_and_summary() -> None:
    model = make()
    by_hand = sum(p.numel() for p in model.parameters())
    assert model.num_parameters == by_hand
    assert f"num_parameters={by_hand:,}" in repr(model)
    assert model.summary().splitlines()[-1].split() == ["total", f"{by_hand:,}"]
    make(max_parameters=by_hand)
    with pytest.raises(ArgumentError, match=rf"has {by_hand:,} parameters, more than max_parameters={by_hand - 1:,}"):
        make(max_parameters=by_hand - 1)


def test_the_paper_s_zinc_model_fits_its_budget() -> None:
    config = {
        "out_channels": 1,
        "node_encoder": "zinc",
        "edge_encoder": "zinc",
        "backbone": "gine",
        "hidden_channels": 64,
        "num_layers": 6,
        "trajectories": "dss",
        "encodings": [
            {"name": "rfp", "operators": ["normalized_laplacian", "normalized_adjacency"], "num_trajectories": 4}
        ],
        "max_parameters": 500_000,
    }
    assert 100_000 < RFPModel(config).num_parameters <= 500_000


def test_training_draws_change_and_evaluation_does_not() -> None:
    model = make()
    batch = Batch.from_data_list(graphs())
    model.train()
    assert not torch.allclose(model(batch), model(batch), atol=1e-4)
    model.eval()
    assert torch.equal(model(batch), model(batch))


def test_sigma_follows_k_embed() -> None:
    """Eq. 4 with nothing after it: without layers the answer is head(σ(K_embed(f ⊕ t)))."""
    data = graphs()[0]
    for act in ("relu", "tanh"):
        for embed_activation in (True, False):
            model = make(task="node", num_layers=0, activation=act, embed_activation=embed_activation).eval()
            t = torch.cat(list(model.draw(data)[0]), dim=-1)
            f = torch.nn.functional.linear(torch.cat([data.x, t], dim=-1), model.embed.weight, model.embed.bias)
            sigma = getattr(torch, act) if embed_activation else (lambda value: value)
            assert torch.allclose(model(data), model.head(sigma(f)), atol=1e-5)
            assert not torch.allclose(torch.relu(f), f)


@pytest.mark.parametrize("trajectories", ["concatenate", "independent"])
def test_input_dropout_is_on_features_encodings_and_trajectories(trajectories: str) -> None:
    """With probability 1 nothing of any input is left in training: every node starts from the bias alone."""
    fixed = {"name": "random_walk", "walk_length": 3}
    for encodings, in_channels in (([SMALL_RFP], 0), ([fixed], 0), ([], 2), ([fixed, SMALL_RFP], 2)):
        model = make(encodings=encodings, in_channels=in_channels, trajectories=trajectories, input_dropout=1.0)
        data = graphs()[0]
        whole = model.train()._embed(data, model_graph(data), data.x if in_channels else None, model.draw(data))
        assert torch.allclose(whole, model.embed.bias.expand_as(whole))
        there = model.eval()._embed(data, model_graph(data), data.x if in_channels else None, model.draw(data))
        assert not torch.allclose(there, model.embed.bias.expand_as(there), atol=1e-3)


def test_attention_dropout_reaches_every_layer_and_no_other_backbone() -> None:
    model = make(backbone="gps", attention_dropout=0.3)
    assert [layer.attention.dropout for layer in model.backbone.layers] == [0.3, 0.3]
    with pytest.raises(ArgumentError, match='backbone="gin" has no attention: leave attention_dropout out'):
        make(backbone="gin", attention_dropout=0.3)


def test_evaluation_draws_are_all_different_and_go_away() -> None:
    model = make(encodings=[SMALL_RFP, {"name": "rnf", "num_channels": 2}]).eval()
    data = graphs()[2]
    usual = [t.clone() for t in model.draw(data)]
    seen = []
    for number in range(4):
        with model.evaluation_draw(number):
            seen.append(model.draw(data))
    for first in range(4):
        for second in range(first):
            for one, other in zip(seen[first], seen[second], strict=True):
                assert not torch.allclose(one, other, atol=1e-2)
    for first, again, after in zip(usual, seen[0], model.draw(data), strict=True):
        assert torch.equal(first, again)
        assert torch.equal(first, after)


def test_state_restores_everything() -> None:
    model = make(encodings=[SMALL_RFP, {"name": "eigenvectors", "num_eigenvectors": 2}]).train()
    batch = Batch.from_data_list(graphs())
    model(batch)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    restored = make(encodings=[SMALL_RFP, {"name": "eigenvectors", "num_eigenvectors": 2}]).train()
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(restored(batch), model(batch))
    assert torch.equal(restored.eval()(batch), model.eval()(batch))


def test_a_graph_kept_between_calls_gives_the_same() -> None:
    model = make().eval()
    batch = Batch.from_data_list(graphs())
    kept = model_graph(batch)
    assert torch.equal(model(batch, graph=kept), model(batch))
    assert torch.equal(model(batch, graph=kept), model(batch))


def test_survives_compilation() -> None:
    model = make(trajectories="dss", norm="layer", num_layers=1).eval()
    batch = Batch.from_data_list(graphs())
    compiled = torch.compile(model, backend="eager")
    assert torch.allclose(compiled(batch), model(batch), atol=1e-5)


def test_it_learns_to_tell_a_long_ring_from_two_short_ones() -> None:
    """A GIN without encodings cannot: both graphs look alike to message passing."""
    one, two = from_networkx(nx.cycle_graph(6)), from_networkx(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
    batch = Batch.from_data_list([one, two])
    y = torch.tensor([0, 1])
    encodings = [{"name": "rfp", "num_channels": 4, "num_steps": 4, "num_trajectories": 8}]
    values = {
        "in_channels": 0,
        "hidden_channels": 16,
        "trajectories": "dss",
        "dss_aggregation": "mean",
        "norm": "layer",
    }
    model = make(encodings=encodings, **values).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(model(batch), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model.eval()(batch).argmax(1).tolist() == [0, 1]
    blind = make(encodings=[], in_channels=1).eval()
    batch.x = torch.ones(12, 1)
    out = blind(batch)
    assert torch.allclose(out[0], out[1], atol=1e-5)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_what_draws_is_refused_and_what_was_drawn_is_not_drawn_again(use_reentrant: bool) -> None:
    """The recomputation of a checkpoint would make another draw: gradients of two draws."""
    data, given = graphs()[2], torch.zeros(1, requires_grad=True)
    for encodings in ([SMALL_RFP], [{"name": "eigenvectors", "num_eigenvectors": 4}]):
        model = make(encodings=encodings, norm="none").train()
        out = checkpoint(lambda model, zero: model(data) + zero, model, given, use_reentrant=use_reentrant)
        with pytest.raises(ArgumentError, match=r"drawn anew in a backward pass.*drawn=model.draw\(data\)"):
            out.square().sum().backward()
    model, plain = make(norm="none").train(), make(norm="none").train()
    drawn = model.draw(data)
    checkpoint(lambda: model(data, drawn=drawn) + given, use_reentrant=False).square().sum().backward()
    plain(data).square().sum().backward()
    for p, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert p.grad is not None
        assert torch.allclose(p.grad, expected.grad, rtol=1e-5, atol=1e-6)
