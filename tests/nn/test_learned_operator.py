"""S^learn: the formula by hand, both forms with equal results and gradients, masking per graph, training end to end."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

import rfp
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn import LearnedOperator, RandomFeaturePropagation, attention, learned_operator

WAYS = [("dense", "auto"), ("implicit", "auto"), ("implicit", "blocks"), ("implicit", "sdpa")]


def mixed_batch() -> Graph:
    return as_graph([as_graph(g) for g in (nx.path_graph(4), nx.cycle_graph(7), nx.empty_graph(1), nx.star_graph(5))])


def uneven_batch() -> Graph:
    """One graph far larger than the rest: padded in several blocks."""
    small = (nx.path_graph(3), nx.empty_graph(2), nx.cycle_graph(5), nx.path_graph(4))
    return as_graph([as_graph(g) for g in (nx.path_graph(40), *small)])


def by_hand(module: LearnedOperator, x: Tensor, graph: Graph) -> Tensor:
    """The block-diagonal S, one graph, head and row at a time."""
    f = torch.cat([x, module.gcn(x, graph.edge_index)], dim=1)
    q, k = module.query(f), module.key(f)
    d = module.head_channels
    rows = []
    for i in range(graph.num_nodes):
        mine = graph.batch == graph.batch[i]
        row = torch.zeros(graph.num_nodes, dtype=x.dtype)
        for h in range(module.num_heads):
            score = k[:, h * d : (h + 1) * d] @ q[i, h * d : (h + 1) * d] / d**0.5
            weight = torch.where(mine, score - score[mine].max(), -torch.inf).exp()
            row = row + weight / weight.sum() / module.num_heads
        rows.append(row)
    return torch.stack(rows)


@pytest.mark.parametrize("make", [mixed_batch, uneven_batch, lambda: as_graph(nx.karate_club_graph())])
@pytest.mark.parametrize(("form", "kernel"), WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_and_gradients_equal_the_formula(make: object, form: str, kernel: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    graph: Graph = make()  # type: ignore[operator]
    graph = Graph(graph.edge_index, graph.num_nodes, None, graph.ptr)
    module = LearnedOperator(5, num_heads=3, head_channels=4, form=form, kernel=kernel).to(dtype)
    x = torch.randn(graph.num_nodes, 5, dtype=dtype, requires_grad=True)
    a = torch.randn(graph.num_nodes, 6, dtype=dtype, requires_grad=True)
    target = torch.randn(graph.num_nodes, 6, dtype=dtype)
    wanted = [x, a, *module.parameters()]
    expected = by_hand(module, x, graph) @ a
    expected_grads = torch.autograd.grad((expected * target).sum(), wanted)
    out = module(x, graph) @ a
    grads = torch.autograd.grad((out * target).sum(), wanted)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert torch.allclose(out, expected, atol=tolerance)
    for got, right in zip(grads, expected_grads, strict=True):
        assert torch.allclose(got, right, atol=10 * tolerance)


@pytest.mark.parametrize("form", ["dense", "implicit"])
def test_matrix_of_each_graph(form: str) -> None:
    torch.manual_seed(1)
    sizes = [40, 3, 0, 2, 5]
    parts = [
        as_graph(nx.path_graph(40)),
        as_graph(nx.path_graph(3)),
        as_graph(nx.empty_graph(2)),
        as_graph(nx.cycle_graph(5)),
    ]
    edge_index = as_graph(parts).edge_index
    graph = Graph(edge_index, 50, ptr=torch.tensor([0, 40, 43, 43, 45, 50]))
    module = LearnedOperator(3, form=form)
    x = torch.randn(50, 3)
    matrices = module(x, graph).matrix()
    assert [tuple(m.shape) for m in matrices] == [(s, s) for s in sizes]
    assert torch.allclose(torch.block_diag(*matrices), by_hand(module, x, graph), atol=1e-6)


def test_blocks_hold_the_matrix_of_each_graph_once() -> None:
    torch.manual_seed(1)
    graph = uneven_batch()
    x = torch.randn(graph.num_nodes, 3)
    learned = LearnedOperator(3, form="dense")(x, graph)
    blocks = learned.dense_blocks()
    assert blocks is not None
    assert len(blocks) > 1
    whole = torch.zeros(graph.num_nodes + 1, graph.num_nodes + 1)
    for block in blocks:
        for rows, matrix in zip(block.rows, block.matrix, strict=True):
            whole[rows[:, None], rows] += matrix
    assert torch.allclose(whole[:-1, :-1], torch.block_diag(*learned.matrix()))
    assert LearnedOperator(3, form="implicit")(x, graph).dense_blocks() is None


@pytest.mark.parametrize("kernel", ["blocks", "sdpa"])
def test_small_pieces_and_recomputation_change_nothing(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    graph = mixed_batch()
    module = LearnedOperator(3, form="implicit", kernel=kernel).double()
    x, a = torch.randn(graph.num_nodes, 3).double(), torch.randn(graph.num_nodes, 5).double()
    results = []
    for words in (1 << 24, 8):
        monkeypatch.setattr(attention, "_BLOCK_WORDS", words)
        monkeypatch.setattr(attention, "_KEPT_WORDS", words)
        out = module(x, graph) @ a
        results.append((out, torch.autograd.grad(out.square().sum(), module.query.weight)[0]))
        with torch.no_grad():
            assert torch.allclose(module(x, graph) @ a, out)
    for first, second in zip(*results, strict=True):
        assert torch.allclose(first, second, atol=1e-12)


def test_auto_is_dense_for_small_graphs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = as_graph(nx.path_graph(10))
    module = LearnedOperator(3, num_heads=2)
    assert module(torch.randn(10, 3), graph).form == "dense"
    monkeypatch.setattr(learned_operator, "LEARNED_MAX_WORDS", 199)
    assert module(torch.randn(10, 3), graph).form == "implicit"


def test_a_batch_is_its_graphs_alone() -> None:
    torch.manual_seed(3)
    module = LearnedOperator(3)
    pieces = [as_graph(g) for g in (nx.path_graph(4), nx.star_graph(6), nx.cycle_graph(5))]
    x, a = torch.randn(16, 3), torch.randn(16, 2)
    together = module(x, as_graph(pieces)) @ a
    for piece, rows in zip(pieces, (slice(0, 4), slice(4, 11), slice(11, 16)), strict=True):
        assert torch.allclose(module(x[rows], piece) @ a[rows], together[rows], atol=1e-6)


def test_equivariant_to_a_renaming_of_the_nodes() -> None:
    torch.manual_seed(4)
    graph = as_graph(nx.karate_club_graph())
    module = LearnedOperator(3).double()
    x, a = torch.randn(34, 3).double(), torch.randn(34, 2).double()
    order = torch.randperm(34)
    place = torch.empty_like(order)
    place[order] = torch.arange(34)
    renamed = Graph(place[graph.edge_index], 34, graph.edge_weight)
    assert torch.allclose(module(x[order], renamed) @ a[order], (module(x, graph) @ a)[order], atol=1e-10)


def test_edge_weights_reach_the_gcn() -> None:
    torch.manual_seed(5)
    graph = as_graph(nx.path_graph(4))
    weighted = Graph(graph.edge_index, 4, torch.tensor([1.0, 1, 5, 5, 2, 2]))
    module, x, a = LearnedOperator(3), torch.randn(4, 3), torch.randn(4, 2)
    assert not torch.allclose(module(x, graph) @ a, module(x, weighted) @ a, atol=1e-4)


@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
def test_all_three_operators_in_one_encoder(normalization: str) -> None:
    torch.manual_seed(6)
    graphs = [from_networkx(g) for g in (nx.cycle_graph(6), nx.star_graph(4), nx.path_graph(9))]
    for g in graphs:
        g.x = torch.randn(g.num_nodes, 3)
    batch = Batch.from_data_list(graphs)
    operators = ["normalized_laplacian", LearnedOperator(3), "normalized_adjacency"]
    encoder = RandomFeaturePropagation(
        4, num_steps=3, operators=operators, normalization=normalization, num_trajectories=2
    )
    out = encoder.eval()(batch)
    assert out.shape == (2, 20, 3 * 4 * 4)
    plain = rfp.encode(
        graphs,
        num_channels=4,
        num_steps=3,
        operators=["normalized_laplacian", "normalized_adjacency"],
        normalization=normalization,
        num_trajectories=2,
        backend="reference",
    ).flat()
    assert torch.allclose(out[..., :16], plain[..., :16], atol=1e-4)
    assert torch.allclose(out[..., 32:], plain[..., 16:], atol=1e-4)
    reference = RandomFeaturePropagation(
        4, num_steps=3, operators=operators, normalization=normalization, num_trajectories=2, backend="reference"
    )
    assert torch.allclose(out, reference.eval()(batch), atol=1e-3)
    out.square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()
    assert {"learned.0.gcn.lin.weight", "learned.0.query.weight"} <= set(encoder.state_dict())


def test_gradient_reaches_the_features_through_qr_as_in_the_reference() -> None:
    torch.manual_seed(7)
    graph = as_graph(nx.karate_club_graph())
    module = LearnedOperator(3, head_channels=8).double()
    with torch.no_grad():
        module.query.weight.mul_(6)  # sharper attention: S keeps a spread spectrum and full rank
        module.key.weight.mul_(6)
    grads = []
    for backend in ("reference", "auto"):
        x = torch.randn(34, 3, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
        encoder = RandomFeaturePropagation(3, num_steps=2, operators=[module], dtype=torch.float64, backend=backend)
        out = encoder.eval()(graph, x=x)
        grads.append(torch.autograd.grad((out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum(), x)[0])
    assert torch.allclose(grads[0], grads[1], rtol=1e-5, atol=1e-7)
    assert float(grads[0].abs().max()) > 1e-4


def test_it_learns() -> None:
    """Predict from S a whether a node's feature is positive: attention must find the others with the same sign."""
    torch.manual_seed(8)
    graph = as_graph(nx.cycle_graph(24))
    x = torch.randn(24, 2)
    encoder = RandomFeaturePropagation(4, num_steps=1, operators=[LearnedOperator(2)], normalization="l2").eval()
    head = torch.nn.Linear(encoder.out_channels, 1)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.05)
    labels = (x[:, :1] > 0).float()
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(head(encoder(graph, x=x))[0], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bfloat16])
def test_node_features_of_another_type(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    graph, counts = as_graph(nx.path_graph(4)), torch.tensor([[0, 3], [1, 0], [2, 2], [0, 1]])
    encoder = RandomFeaturePropagation(2, num_steps=2, operators=[LearnedOperator(2)]).eval()
    assert torch.equal(encoder(graph, x=counts.to(dtype)), encoder(graph, x=counts.float()))


def test_wrong_arguments() -> None:
    graph = as_graph(nx.path_graph(3))
    with pytest.raises(ArgumentError, match="form must be one of"):
        LearnedOperator(3, form="sparse")
    with pytest.raises(ArgumentError, match="kernel must be one of"):
        LearnedOperator(3, kernel="flash")
    with pytest.raises(ArgumentError, match="must be at least 1, got 0, 4 and 16"):
        LearnedOperator(0)
    with pytest.raises(ArgumentError, match=r"x must have shape \[n, in_channels\] = \[3, 2\], got \[3, 5\]"):
        LearnedOperator(2)(torch.ones(3, 5), graph)
    encoder = RandomFeaturePropagation(2, operators=[LearnedOperator(2)])
    with pytest.raises(ArgumentError, match="a learned operator needs the node features"):
        encoder(Data(edge_index=graph.edge_index, num_nodes=3))
    assert "LearnedOperator" in repr(encoder)
    assert "num_heads=4" in repr(encoder)


@pytest.mark.parametrize("form", ["dense", "implicit"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_padded_batch_with_a_known_bound_is_the_batch(form: str, weighted: bool) -> None:
    torch.manual_seed(9)
    graph = mixed_batch()
    n, m = graph.num_nodes, graph.num_edges
    weight = torch.rand(m) + 0.5 if weighted else None
    graph = Graph(graph.edge_index, n, weight, graph.ptr)
    loops = torch.full((2, 5), n + 3)  # padded edges join padding alone
    edge_index = torch.cat([graph.edge_index, loops], dim=1)
    padded = Graph.unchecked(
        edge_index,
        n + 4,
        None if weight is None else torch.cat([weight, torch.zeros(5)]),
        graph.ptr,
        max_size=9,
        padded=True,
    )
    bounded = Graph(graph.edge_index, n, weight, graph.ptr, max_size=7)
    module = LearnedOperator(3, form=form)
    x, a, target = torch.randn(n + 4, 3), torch.randn(n + 4, 2), torch.randn(n, 2)
    results = []
    for one in (graph, bounded, padded):
        rows = one.num_nodes
        learned = module(x[:rows], one)
        out = learned @ a[:rows]
        assert not out[n:].any()
        matrix = torch.block_diag(*learned.matrix())
        grads = torch.autograd.grad((out[:n] * target).sum(), list(module.parameters()))
        results.append([out[:n], matrix, *grads])
    for other in results[1:]:
        for got, right in zip(other, results[0], strict=True):
            torch.testing.assert_close(got, right, atol=1e-5, rtol=1e-4)


def test_matrix_of_a_graph_without_nodes_beside_others_with_a_known_bound() -> None:
    graph = Graph(torch.tensor([[0, 1], [1, 0]]), 3, ptr=torch.tensor([0, 2, 2, 3]), max_size=2)
    assert [tuple(m.shape) for m in LearnedOperator(3)(torch.randn(3, 3), graph).matrix()] == [(2, 2), (0, 0), (1, 1)]


@pytest.mark.parametrize("size", [71, 72])
@pytest.mark.parametrize("heads", [1, 2])
def test_gathered_gradients_are_those_of_every_product(size: int, heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: S of an even width, and one product for the gradient of a whole trajectory."""
    torch.manual_seed(0)
    ring = as_graph(nx.cycle_graph(size))
    graph = as_graph([ring, ring])
    module = LearnedOperator(5, num_heads=heads, head_channels=4, form="dense").double()
    x = torch.randn(2 * size, 5, dtype=torch.float64)
    start = torch.randn(2 * size, 3, dtype=torch.float64, requires_grad=True)
    target = torch.randn(3, 2 * size, 3, dtype=torch.float64)
    found = []
    for on in ((), ("cpu",)):
        monkeypatch.setattr(learned_operator, "_GATHERED_ON", on)
        S = module(x, graph)
        assert bool(S._products) is bool(on)
        a, steps = start, []
        for _ in range(3):
            a = (S @ a).tanh()
            steps.append(a)
        out = torch.stack(steps)
        grads = torch.autograd.grad((out * target).sum(), [start, *module.parameters()], retain_graph=True)
        again = torch.autograd.grad((out * target).sum(), [start, *module.parameters()])
        assert all(torch.equal(one, other) for one, other in zip(grads, again, strict=True))
        blocks = S.dense_blocks()
        assert [tuple(block.matrix.shape) for block in blocks or ()] == [(2, size, size)]
        with torch.no_grad():
            found.append([out, *S.matrix(), S @ x.float(), module(x, graph) @ x, *grads])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-9)


def test_a_product_without_a_gradient_gathers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_operator, "_GATHERED_ON", ("cpu",))
    S = LearnedOperator(2, form="dense")(torch.randn(70, 2), as_graph(nx.path_graph(70)))
    fixed = torch.randn(70, 1)  # features: only S learns
    (S @ fixed).sum().backward()
    assert S._products[0]._factors == []
    with torch.no_grad():
        assert not (S @ fixed).requires_grad
