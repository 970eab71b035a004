"""rfp.nn.RandomFeaturePropagation: fresh draws in training, one fixed draw in evaluation, state that restores."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch_geometric.data import Batch, Data

import rfp
from rfp.errors import ArgumentError, NumericalError
from rfp.nn import LearnedOperator, RandomFeaturePropagation
from rfp.nn.counted_draws import evaluation_draw_of


def ring(n: int) -> torch.Tensor:
    source = torch.arange(n)
    return torch.cat([torch.stack([source, (source + 1) % n]), torch.stack([(source + 1) % n, source])], dim=1)


def data(n: int) -> Data:
    return Data(edge_index=ring(n), num_nodes=n)


def test_evaluation_is_the_plain_encoding_and_fixed() -> None:
    layer = RandomFeaturePropagation(4, num_steps=3, num_trajectories=2, seed=11).eval()
    expected = rfp.encode(data(9), num_channels=4, num_steps=3, num_trajectories=2, seed=11, backend="reference").flat()
    assert layer(data(9)).shape == (2, 9, 16)
    assert layer.out_channels == 16
    assert torch.allclose(layer(data(9)), expected, atol=1e-5)
    assert torch.equal(layer(data(9)), layer(data(9)))


def test_every_way_in_gives_the_same() -> None:
    layer = RandomFeaturePropagation(3, num_steps=2).eval()
    edge_index = torch.cat([ring(5), ring(7) + 5], dim=1)
    batch = torch.tensor([0] * 5 + [1] * 7)
    expected = layer(Batch.from_data_list([data(5), data(7)]))
    assert torch.allclose(expected[:, :5], layer(data(5)), atol=1e-5)
    assert torch.equal(layer(edge_index, batch=batch), expected)
    assert torch.equal(layer(edge_index, num_nodes=12, ptr=torch.tensor([0, 5, 12])), expected)
    assert torch.equal(layer(rfp.Graph(edge_index, 12, ptr=torch.tensor([0, 5, 12]))), expected)
    assert torch.equal(layer(Data(edge_index=edge_index, num_nodes=12, batch=batch)), expected)


def test_edge_weights_count() -> None:
    layer = RandomFeaturePropagation(3, num_steps=2).eval()
    weight = torch.linspace(1, 2, 10)
    graph = Data(edge_index=ring(5), num_nodes=5, edge_weight=weight)
    expected = rfp.encode(graph, num_channels=3, num_steps=2, backend="reference").flat()
    assert torch.allclose(layer(ring(5), num_nodes=5, edge_weight=weight.requires_grad_()), expected, atol=1e-5)
    assert not torch.allclose(layer(ring(5), num_nodes=5), expected, atol=1e-3)


def test_training_draws_are_new_each_time_but_repeatable() -> None:
    first, second = (RandomFeaturePropagation(4, num_steps=2, seed=1).train() for _ in range(2))
    drawn = [first(data(9)) for _ in range(3)]
    for one in drawn:
        assert torch.equal(one, second(data(9)))
    assert not torch.allclose(drawn[0], drawn[1], atol=1e-2)
    assert not torch.allclose(drawn[1], drawn[2], atol=1e-2)
    assert not torch.allclose(drawn[0], first.eval()(data(9)), atol=1e-2)


@pytest.mark.parametrize("operators", [("normalized_adjacency",), ("normalized_adjacency", LearnedOperator(2))])
def test_a_draw_that_is_kept_is_that_of_evaluation(operators: tuple) -> None:
    layer = RandomFeaturePropagation(4, num_steps=2, num_trajectories=2, seed=11, keep_draw=True, operators=operators)
    graph = Data(edge_index=ring(9), x=torch.randn(9, 2))
    expected = layer.eval()(graph)
    with evaluation_draw_of([layer], 3):
        assert torch.equal(layer(graph), expected)
    layer.train()
    for _ in range(2):
        assert torch.equal(layer(graph), expected)
    assert torch.equal(layer.complete(layer.draw(graph), graph, x=graph.x), expected)
    assert layer.num_draws == 0
    anew = RandomFeaturePropagation(4, num_steps=2, num_trajectories=2, seed=11, operators=operators).train()
    assert not torch.allclose(anew(graph), expected, atol=1e-2)


def test_a_draw_that_is_kept_stands_for_all_that_are_drawn_ahead() -> None:
    layer = RandomFeaturePropagation(4, num_steps=2, keep_draw=True, normalization="none").train()
    ahead = layer.draw_ahead(data(9), 3)
    assert ahead.shape == (3, 1, 9, 12)
    assert all(torch.equal(one, layer.eval()(data(9))) for one in ahead)
    assert "keep_draw=True" in repr(layer)
    with pytest.raises(ArgumentError, match="keep_draw must be true or false, got 'no'"):
        RandomFeaturePropagation(4, keep_draw="no")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="keep_draw means one draw, so there are no eval_draws=2 to average"):
        RandomFeaturePropagation(4, keep_draw=True, eval_draws=2)


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    layer = RandomFeaturePropagation(4, num_steps=2).train()
    first = layer(data(9))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    assert torch.equal(RandomFeaturePropagation(4, num_steps=2).train()(data(9)), first)


def test_state_restores_evaluation_and_continues_training() -> None:
    layer = RandomFeaturePropagation(4, num_steps=2, seed=5).train()
    layer(data(9))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    restored = RandomFeaturePropagation(4, num_steps=2, seed=99).train()
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(restored(data(9)), layer(data(9)))
    assert torch.equal(restored.eval()(data(9)), layer.eval()(data(9)))


def test_mean_of_several_evaluation_draws() -> None:
    layer = RandomFeaturePropagation(4, num_steps=2, num_trajectories=2, eval_draws=3, seed=2).eval()
    many = rfp.encode(data(9), num_channels=4, num_steps=2, num_trajectories=6, seed=2, backend="reference").flat()
    expected = (many[0:2] + many[2:4] + many[4:6]) / 3
    assert torch.allclose(layer(data(9)), expected, atol=1e-5)
    assert layer.train()(data(9)).shape == (2, 9, 12)


def test_no_gradient_through_predefined_operators() -> None:
    layer = RandomFeaturePropagation(4, num_steps=2).train()
    assert not layer(data(9)).requires_grad
    assert list(layer.parameters()) == []


def test_full_precision_under_autocast() -> None:
    layer = RandomFeaturePropagation(4, num_steps=8).eval()
    expected = layer(data(9))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(data(9))
    assert out.dtype == torch.float32
    assert torch.equal(out, expected)


class Around(nn.Module):
    """A small model with the encoder in the middle of compiled code."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = RandomFeaturePropagation(4, num_steps=2)
        self.head = nn.Linear(12, 3)

    def forward(self, edge_index: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        t = self.encode(edge_index, num_nodes=9)
        return torch.relu(self.head(t)).sum(1) * scale.exp()


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_survives_compilation_of_the_model_around_it(backend: str) -> None:
    torch.manual_seed(0)
    plain = Around().train()
    twin = copy.deepcopy(plain)
    compiled = torch.compile(twin, backend=backend)
    scale = torch.tensor(0.3)
    for _ in range(3):  # each call draws anew: a draw frozen into the compiled graph would differ at the second
        assert torch.allclose(compiled(ring(9), scale), plain(ring(9), scale), atol=1e-5)
    compiled(ring(9), scale).sum().backward()
    plain(ring(9), scale).sum().backward()
    assert torch.allclose(twin.head.weight.grad, plain.head.weight.grad, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2])
def test_tiny_graphs_without_edges(n: int) -> None:
    layer = RandomFeaturePropagation(4, num_steps=2).eval()
    out = layer(torch.empty(2, 0, dtype=torch.long), num_nodes=n)
    assert out.shape == (1, n, 12)
    assert out.isfinite().all()


def test_repr_and_errors() -> None:
    layer = RandomFeaturePropagation(4, num_steps=2, seed=3, eval_draws=2)
    for part in ("num_channels=4", "num_steps=2", "seed=3", "eval_draws=2", "operators=('normalized_adjacency',)"):
        assert part in repr(layer)
    with pytest.raises(ArgumentError, match="eval_draws must be an integer of at least 1, got 0"):
        RandomFeaturePropagation(4, eval_draws=0)
    with pytest.raises(ArgumentError, match=r"num_nodes \(or ptr, or batch\) is needed"):
        layer(ring(5))
    with pytest.raises(ArgumentError, match="got dict"):
        layer({})
    with pytest.raises(ArgumentError, match="num_channels is given twice: 8 and 4"):
        RandomFeaturePropagation(8, num_channels=4)
    with pytest.raises(ArgumentError, match=r"draw_ahead\(\) is for training draws"):
        layer.eval().draw_ahead(data(5), 2)
    with pytest.raises(ArgumentError, match="LearnedOperator is a module, which makes an operator of node features"):
        rfp.encode(data(5), operators=[LearnedOperator(3)])
    with pytest.raises(ArgumentError, match=r"'adjacency' is a name; rfp\.operators.from_name"):
        rfp.propagate("adjacency", torch.rand(5, 2))
    with pytest.raises(ArgumentError, match=r"must be an rfp\.Graph, got Data; rfp\.as_graph"):
        rfp.random_features(data(5), num_channels=2)


@pytest.mark.parametrize("operators", [["normalized_adjacency"], ["normalized_laplacian", "adjacency"]])
def test_a_unit_start_changes_the_features_and_no_normalised_step(operators: list[str]) -> None:
    from torch_geometric.data import Batch, Data

    ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    pair = torch.tensor([[0, 1], [1, 0]])
    batch = Batch.from_data_list([Data(edge_index=ring, num_nodes=4), Data(edge_index=pair, num_nodes=2)])
    arguments = {"num_steps": 2, "operators": operators, "num_trajectories": 2}
    plain = RandomFeaturePropagation(2, **arguments).eval()(batch).unflatten(-1, (len(operators), 3, 2))
    unit = RandomFeaturePropagation(2, start="unit", **arguments).eval()(batch).unflatten(-1, (len(operators), 3, 2))
    torch.testing.assert_close(unit[..., 1:, :], plain[..., 1:, :])
    for rows in (slice(0, 4), slice(4, 6)):
        start = plain[:, rows, :, 0]
        torch.testing.assert_close(unit[:, rows, :, 0], start / start.norm(dim=1, keepdim=True))


def with_learned(**more: object) -> RandomFeaturePropagation:
    """Between two predefined operators, with attention far from uniform: S has full rank."""
    torch.manual_seed(0)
    module = LearnedOperator(3, head_channels=8)
    with torch.no_grad():
        module.query.weight.mul_(6)
        module.key.weight.mul_(6)
    operators = ["normalized_laplacian", module, "normalized_adjacency"]
    return RandomFeaturePropagation(**{"num_channels": 2, "num_steps": 2, "operators": operators, "seed": 4, **more})  # type: ignore[arg-type]


def small_batch() -> tuple[rfp.Graph, torch.Tensor]:
    graph = rfp.as_graph([data(5), data(7), data(4)])
    return graph, torch.randn(16, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("start", ["drawn", "unit", "orthonormal"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("more", [{}, {"num_trajectories": 3}, {"eval_draws": 2}, {"num_steps": 0}])
def test_drawn_beforehand_and_completed_is_the_encoding(start: str, training: bool, more: dict) -> None:
    encoder = with_learned(start=start, **more).train(training)
    twin = copy.deepcopy(encoder)
    graph, x = small_batch()
    target = None
    for _ in range(2):  # the second draw of both
        drawn = encoder.draw(graph)
        assert drawn.size(-1) == encoder.drawn_channels
        assert not drawn.requires_grad
        got, expected = encoder.complete(drawn, graph, x=x), twin(graph, x=x)
        assert torch.equal(got, expected)
        target = torch.randn(got.shape, generator=torch.Generator().manual_seed(2))
        if more.get("num_steps") != 0:
            (got * target).sum().backward()
            (expected * target).sum().backward()
    assert encoder.num_draws == twin.num_draws == (2 if training else 0)
    for mine, other in zip(encoder.parameters(), twin.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None)
        assert mine.grad is None or torch.equal(mine.grad, other.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("start", ["drawn", "unit", "orthonormal"])
@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
def test_a_part_cut_out_and_padded_is_completed_alike(start: str, normalization: str) -> None:
    encoder = with_learned(start=start, normalization=normalization, num_trajectories=2).eval()
    graph, x = small_batch()
    whole = encoder(graph, x=x)[:, 5:]
    drawn = encoder.draw(graph)[:, 5:]
    edge_index = graph.edge_index[:, graph.edge_index[0] >= 5] - 5
    loops = torch.full((2, 3), 13)
    # The last two graphs, and three nodes that belong to none.
    for number in (2, 1):
        n = 11 if number == 2 else 7
        mine = edge_index[:, edge_index[0] < n]
        ptr = torch.tensor([0, 7, 11])[: number + 1]
        part = rfp.Graph.unchecked(torch.cat([mine, loops], dim=1), 14, None, ptr, max_size=7, padded=True)
        held = torch.cat([drawn[:, :n], torch.full((2, 14 - n, drawn.size(2)), 0.5)], dim=1)
        features = torch.cat([x[5 : 5 + n], torch.ones(14 - n, 3)])
        out = encoder.complete(held, part, x=features)
        torch.testing.assert_close(out[:, :n], whole[:, :n], atol=1e-4, rtol=1e-4)
        assert out.isfinite().all()
        encoder.zero_grad()
        out[:, :n].square().sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())  # type: ignore[union-attr]


def test_completing_a_padded_batch_asks_nothing_of_the_device() -> None:
    """Fake tensors have no values: reading one raises. Without QR, which waits in the backend of a CPU."""
    with FakeTensorMode():
        encoder = with_learned(start="unit", normalization="none")
        ptr, edge_index = torch.empty(4, dtype=torch.long), torch.empty(2, 20, dtype=torch.long)
        drawn, x = torch.empty(1, 16, encoder.drawn_channels), torch.empty(16, 3)
        graph = rfp.Graph.unchecked(edge_index, 16, None, ptr, max_size=7, padded=True)
        out = encoder.complete(drawn, graph, x=x)
        assert out.shape == (1, 16, encoder.out_channels)
        out.sum().backward()
        unknown = rfp.Graph.unchecked(edge_index, 16, None, ptr)
        with pytest.raises(DataDependentOutputException):
            encoder.complete(drawn, unknown, x=x)


def test_what_is_drawn_of_predefined_operators_is_all_of_it() -> None:
    encoder = RandomFeaturePropagation(3, num_steps=2, eval_draws=2, start="unit")
    for training in (True, False):
        twin = copy.deepcopy(encoder.train(training))
        drawn = encoder.draw(data(9))
        assert torch.equal(drawn, twin(data(9)))
        assert encoder.complete(drawn, data(9)) is drawn
    assert encoder.drawn_channels == encoder.out_channels


def test_what_was_not_drawn_cannot_be_completed() -> None:
    encoder = with_learned().eval()
    graph, x = small_batch()
    with pytest.raises(ArgumentError, match=r"drawn_channels\] = \[B, 16, 10\], got \[1, 16, 18\]"):
        encoder.complete(encoder(graph, x=x), graph, x=x)


@pytest.mark.parametrize("training", [True, False])
def test_features_that_are_not_finite_are_no_overflow(training: bool) -> None:
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    layer = RandomFeaturePropagation(num_channels=2, num_steps=2, operators=[LearnedOperator(3)]).train(training)
    x = torch.ones(4, 3)
    x[2, 1] = torch.nan
    with pytest.raises(NumericalError, match="node features x that are not finite, as those of node 2; correct them"):
        layer(edges, x=x, num_nodes=4)
