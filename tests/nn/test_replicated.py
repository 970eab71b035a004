"""A replicated model computes for each replica what the model computes alone."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn import RFPModel, replicated
from rfp.nn.gcn import gcn_matrix
from rfp.nn.replicated import (
    DropoutMasks,
    SharedDropout,
    _grouped_product,
    _GroupedProduct,
    dropout_masks,
    each_affine,
    input_dropout,
    replicate,
    set_weights,
    shared_affine,
    shared_dropout,
    spread_columns,
)

R = 3
RING = torch.tensor([[0, 1, 2, 3, 4, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 0, 1, 2, 3, 4]])
DATA = Data(x=torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), edge_index=RING, num_nodes=5)
GRAPH = Graph(RING, 5)


def models(**changes: object) -> tuple[RFPModel, list[RFPModel]]:
    """A replicated model and the plain ones whose weights its replicas hold."""
    encoding = {"name": "rfp", "num_channels": 2, "num_steps": 3, **changes.pop("encoding", {})}
    values = {"out_channels": 3, "task": "node", "in_channels": 4, "encodings": [encoding], "norm": "none", **changes}
    torch.manual_seed(0)
    plain = [RFPModel({"hidden_channels": 8, "num_layers": 2, "backbone": "gcn", **values}) for _ in range(R)]
    together = copy.deepcopy(plain[0]).replicate(R)
    states = [dict(model.named_parameters()) for model in plain]
    with torch.no_grad():
        for name, p in together.named_parameters():
            for r in range(R):
                p[r].copy_(states[r][name].view_as(p[r]))
    return together, plain


LEARNED = {"operators": ["normalized_adjacency", "learned"], "num_trajectories": 2, "learned_heads": 2}
CASES = {
    "gcn": {},
    "mlp": {"backbone": "mlp"},
    "gcnii": {"backbone": "gcnii"},
    "gcnii, dss": {"backbone": "gcnii", "trajectories": "dss", "encoding": {"num_trajectories": 2}},
    "graph_conv": {"backbone": "graph_conv"},
    "layer norm": {"norm": "layer"},
    "dss": {"trajectories": "dss", "encoding": {"num_trajectories": 2}},
    "independent": {"trajectories": "independent", "encoding": {"num_trajectories": 2}},
    "pooled after a layer": {"trajectories": "dss", "trajectory_layers": 1, "encoding": {"num_trajectories": 2}},
    "pooled at once": {"trajectories": "independent", "trajectory_layers": 0, "encoding": {"num_trajectories": 2}},
    "several trajectories side by side": {"encoding": {"num_trajectories": 2}},
    "learned": {"trajectories": "dss", "encoding": LEARNED},
    "learned, side by side": {"encoding": LEARNED},
    "products": {"embed": "products"},
    "products, no features": {"embed": "products", "in_channels": 0},
    "products and the linear map, dss": {
        "embed": "both",
        "product_weights": True,
        "trajectories": "dss",
        "encoding": {"num_trajectories": 2},
    },
    "products, learned": {"embed": "products", "trajectories": "dss", "encoding": LEARNED},
    "products, learned, side by side": {"embed": "both", "encoding": LEARNED},
    "gps": {"backbone": "gps"},
    "gps, dss": {"backbone": "gps", "trajectories": "dss", "encoding": {"num_trajectories": 2}},
    "no features": {"in_channels": 0},
    "no encoding": {"encodings": []},
    "fixed": {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 3}]},
}


@pytest.mark.parametrize("kept", [True, False], ids=["kept graph", "new graph"])
@pytest.mark.parametrize("case", CASES)
def test_equals_the_models_alone(case: str, kept: bool) -> None:
    together, plain = models(**CASES[case])
    graph = GRAPH if kept else None
    out = together.eval()(DATA, graph=graph)
    assert out.shape == (R, 5, 3)
    for r in range(R):
        assert torch.allclose(out[r], plain[r].eval()(DATA, graph=graph), atol=1e-5)


@pytest.mark.parametrize("case", ["gcn", "gcnii, dss", "dss", "learned", "products", "products, learned"])
def test_gradients_equal_those_alone(case: str) -> None:
    together, plain = models(**CASES[case])
    together.eval()(DATA, graph=GRAPH).square().sum().backward()
    for model in plain:
        model.eval()(DATA, graph=GRAPH).square().sum().backward()
    for name, p in together.named_parameters():
        for r in range(R):
            expected = dict(plain[r].named_parameters())[name].grad
            assert (p.grad is None) == (expected is None), name
            if expected is not None:
                assert torch.allclose(p.grad[r], expected.view_as(p[r]), atol=1e-4, rtol=1e-3), name


def test_dropout_mask_is_that_of_one_replica() -> None:
    dropout = SharedDropout(0.5).train()
    torch.manual_seed(0)
    alone = dropout(torch.ones(1, 50, 4))
    torch.manual_seed(0)
    together = dropout(torch.ones(R, 50, 4))
    assert torch.equal(together, alone.expand(R, -1, -1))
    assert set(alone.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(dropout.eval()(together), together)


def test_affine_maps_by_hand() -> None:
    weight = torch.tensor([[[1.0, 0.0]], [[0.0, 2.0]]])  # [2, 1, 2]
    x = torch.tensor([[3.0, 5.0]])
    assert shared_affine(x, weight, torch.tensor([[1.0], [2.0]])).tolist() == [[[4.0]], [[12.0]]]
    assert each_affine(torch.stack([x, 2 * x]), weight).tolist() == [[[3.0]], [[20.0]]]
    with pytest.raises(ArgumentError, match="leading dimension of 2 replicas"):
        each_affine(x, weight)


def test_batch_normalisation_is_refused() -> None:
    with pytest.raises(ArgumentError, match="BatchNorm1d cannot be trained in replicas"):
        replicate(nn.Sequential(nn.BatchNorm1d(3)), 2)


@pytest.mark.parametrize("edges", [{"edge_encoder": "linear", "edge_channels": 2}, {"edge_products": True}])
def test_edge_features_are_refused(edges: dict[str, object]) -> None:
    """Those of a replica were added to the trajectories of all replicas where there are as many of both."""
    with pytest.raises(ArgumentError, match="reads edge features cannot be trained in replicas"):
        models(backbone="gps", trajectories="independent", encoding={"num_trajectories": 3}, **edges)


def test_an_input_for_each_group_of_replicas() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(6, 4, 3, generator=generator), torch.randn(6, 4, generator=generator)
    x = torch.randn(2, 5, 7, 3, generator=generator)
    out = each_affine(x, weight, bias)
    assert out.shape == (6, 5, 7, 4)
    for r in range(6):
        assert torch.allclose(out[r], nn.functional.linear(x[r // 3], weight[r], bias[r]), atol=1e-5)


def test_masks_are_a_function_of_seed_and_epoch_alone() -> None:
    def rows(seeds: list[int], epochs: list[int]) -> list[torch.Tensor]:
        masks, found = DropoutMasks(seeds, 9, torch.device("cpu")), []
        for epoch in epochs:
            masks.begin(epoch)
            first, second = masks.keep((3, 5), 0.25), masks.keep((200, 50), 0.25)
            found.append(torch.cat([first.flatten(1), second.flatten(1)], dim=1))
        return found

    together = rows([4, 11], list(range(9)))
    for number, seed in enumerate((4, 11)):
        for epoch in (0, 3, 8):  # the first epoch of a run makes its masks one by one, later ones in blocks
            assert torch.equal(rows([seed], [epoch])[0][0], together[epoch][number])
            assert torch.equal(rows([seed], [0, epoch])[1][0], together[epoch][number])
    flat = torch.stack(together).double()  # [epochs, seeds, entries]
    assert flat.mean().item() == pytest.approx(0.75, abs=0.005)  # 180,000 entries: deviation 0.001
    ways = flat.flatten(0, 1) - 0.75
    correlation = (ways @ ways.T / ways.size(1)).fill_diagonal_(0).abs().max().item()
    assert correlation < 5 * 0.1875 / 100  # five deviations of a mean of 10,000 products


def test_each_seed_has_its_masks() -> None:
    masks = DropoutMasks([1, 2], 1, torch.device("cpu"))
    masks.begin(0)
    with dropout_masks(masks):
        hidden = shared_dropout(torch.ones(6, 40, 4), 0.5, training=True)
        features = input_dropout(torch.ones(40, 4), 0.5, training=True)
    assert features.shape == (2, 40, 4)
    for group in (hidden[:3], hidden[3:]):
        assert torch.equal(group, group[:1].expand(3, -1, -1))
    assert not torch.equal(hidden[0], hidden[3])
    assert not torch.equal(features[0], features[1])
    assert set(hidden.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(shared_dropout(hidden, 0.5, training=False), hidden)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trajectories": "dss", "encoding": {"num_trajectories": 2}},
        {"embed": "products"},
        {"embed": "both", "product_weights": True, "encoding": {"num_trajectories": 2}},
    ],
)
def test_several_seeds_in_one_model(changes: dict[str, object]) -> None:
    _, plain = models(**changes, input_dropout=0.0)
    plain = plain[:2]
    drawn = [torch.stack([torch.randn_like(model.draw(DATA)[0]) for model in plain])]
    together = copy.deepcopy(plain[0]).replicate(4)
    set_weights(together, plain)
    out = together.eval()(DATA, graph=GRAPH, drawn=drawn)
    for r in range(4):
        alone = plain[r // 2].eval()(DATA, graph=GRAPH, drawn=[drawn[0][r // 2]])
        assert torch.allclose(out[r], alone, atol=1e-5)


@pytest.mark.parametrize("with_bias", [False, True])
def test_gradients_of_grouped_products(with_bias: bool) -> None:
    """Against torch's own, and laid out as the weights are, without another copy."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 7, 3), (2, 5, 3), (2, 1, 5)][: 3 if with_bias else 2]
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
    inputs += [None] * (3 - len(inputs))
    out = _GroupedProduct.apply(*inputs)
    torch.testing.assert_close(out, _grouped_product(*inputs))
    given = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    learned = [one for one in inputs if one is not None]
    found = torch.autograd.grad(out, learned, given)
    right = torch.autograd.grad(_grouped_product(*inputs), learned, given)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other)
    assert found[1].is_contiguous()
    assert out.transpose(0, 1).is_contiguous()
    assert found[0].transpose(0, 1).is_contiguous()
    nothing = _GroupedProduct.apply(torch.zeros(0, 4, 3), torch.zeros(0, 5, 3).requires_grad_(), None)
    assert nothing.shape == (0, 4, 5)


def test_columns_spread_by_hand() -> None:
    weight = torch.arange(1.0, 11.0).view(2, 5)
    spread, widths = spread_columns(weight, [3, 0, 2], 2)
    assert widths == [4, 0, 2]
    assert spread.tolist() == [[1, 2, 3, 0, 4, 5], [6, 7, 8, 0, 9, 10]]


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_aligned_weights_compute_the_same(case: str, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and gradients under dropout, of one seed and of several; the zeros get no gradient.

    Aligned as on a GPU, and laid out in memory as there.
    """
    changes = {"input_dropout": 0.4, "dropout": 0.3, **CASES[case]}
    if seeds > 1 and "learned" in case:
        pytest.skip("a learned operator has one seed")
    together, _ = models(**changes)
    drawn = [torch.randn_like(one) for one in together.train().draw(DATA, graph=GRAPH)]
    if seeds > 1:
        drawn = [torch.stack([one, 2 * one, -one]) for one in drawn]
    aligned = copy.deepcopy(together).align(3)  # widths are 4 and multiples of 8
    found = []
    for model, rows_first_on in ((together, ()), (aligned, ("cpu",))):
        monkeypatch.setattr(replicated, "_ROWS_FIRST_ON", rows_first_on)
        masks = DropoutMasks(list(range(seeds)), 1, torch.device("cpu"))
        masks.begin(0)
        with dropout_masks(masks):
            out = model(DATA, graph=GRAPH, drawn=drawn)
        (out * torch.linspace(1, 2, out.numel()).view_as(out)).sum().backward()
        found.append(out.detach())
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-4)
    changed = 0
    for (name, p), q in zip(together.named_parameters(), aligned.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if p.shape == q.shape:
            pairs = [] if p.grad is None else [(p.grad, q.grad)]
        else:
            changed += 1
            kept = (q != 0).any(0).any(0)  # weights are drawn from a density: no column of them is zero
            assert int(kept.sum()) == p.size(-1)
            assert torch.equal(q[..., kept], p)
            assert not q.grad[..., ~kept].any()
            pairs = [(p.grad, q.grad[..., kept])]
        for one, other in pairs:
            torch.testing.assert_close(other, one, atol=2e-5 * float(one.abs().max()), rtol=1e-4, msg=name)
    assert changed or changes.get("in_channels") == 0


@pytest.mark.parametrize("num_trajectories", [0, 2])
def test_layers_keep_the_rows_first(num_trajectories: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU no layer copies its input to another order: what it reads of it begins where the input does."""
    monkeypatch.setattr(replicated, "_ROWS_FIRST_ON", ("cpu",))
    middle = [num_trajectories] if num_trajectories else []
    weight, bias = torch.randn(R, 4, 4), torch.randn(R, 4)
    norm = replicate(nn.ModuleList([nn.LayerNorm(4)]), R)[0]
    x = gcn_matrix(GRAPH).propagate(each_affine(torch.randn(R, *middle, 5, 4), weight, bias))
    expected = nn.functional.layer_norm(x, (4,))
    for layer in (norm, lambda x: each_affine(x, weight, bias), gcn_matrix(GRAPH).propagate):
        order = replicated.as_they_lie(x, range(x.dim()))
        assert order == [x.dim() - 2, *range(1, x.dim() - 2), 0, x.dim() - 1]  # nodes, trajectories, replicas, channels
        assert x.permute(order).is_contiguous()
        x = layer(x)
        if layer is norm:
            torch.testing.assert_close(x, expected)
    assert x.permute(replicated.as_they_lie(x, range(x.dim()))).is_contiguous()


@pytest.mark.parametrize("seeds", [1, 3])
def test_trajectories_come_out_of_the_embedding_rows_first(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "_ROWS_FIRST_ON", ("cpu",))
    together, _ = models(trajectories="dss", encoding={"num_trajectories": 2})
    t = together.draw(DATA, graph=GRAPH)[0]
    h = together.embed([DATA.x], [t if seeds == 1 else t.expand(seeds, *t.shape)])
    assert h.shape == (R, 2, 5, 8)
    assert replicated.as_they_lie(h, range(4)) == [2, 1, 0, 3]
    monkeypatch.setattr(replicated, "_ROWS_FIRST_ON", ())
    torch.testing.assert_close(h, together.embed([DATA.x], [t]))
