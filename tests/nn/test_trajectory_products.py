"""Products of trajectories: equal to the sum written out, with the symmetries they claim, in every place of a model."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import rfp
from rfp.errors import ArgumentError
from rfp.nn import RFPModel, TrajectoryProducts, trajectory_products
from rfp.nn.gram_rows import row_stride
from rfp.nn.layers import real_rows

K, STEPS, N, M, D, R = 6, 3, 7, 5, 4, 3
PAIRS = torch.tensor([[0, 1, 6, 2, 2], [1, 0, 3, 2, 5]])
# Three states and six channels take the Gram matrices, thirteen states the channels.
FORMS = {"gram": 3, "channels": 13}


def made(num_states: int = 3, num_channels: int = K, **values: Any) -> TrajectoryProducts:
    torch.manual_seed(0)
    return TrajectoryProducts(num_channels, num_states, D, num_products=M, **values).double()


def drawn(num_states: int = 3, *leading: int, num_channels: int = K) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*leading, N, num_states * num_channels, generator=generator, dtype=torch.float64)


def written_out(module: TrajectoryProducts, t: Tensor, u: int, v: int) -> Tensor:
    """y(u, v) of one trajectory ``[n, T k]`` as the docstring's sum over channels."""
    states = t.view(N, module.num_states, module.num_channels)
    total = torch.zeros(M, dtype=t.dtype)
    for c in range(module.num_channels):
        product = (module.first @ states[u, :, c]) * (module.second @ states[v, :, c])
        total += product if module.alpha is None else module.alpha[c] * product
    return total / module.num_channels


@pytest.mark.parametrize("num_states", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("leading", [(), (2,)])
@pytest.mark.parametrize("scaled", [False, True])
def test_gram_matrices_are_all_that_nodes_need(num_states: int, leading: tuple[int, ...], scaled: bool) -> None:
    module, t = made(num_states), drawn(num_states, *leading)
    scale = torch.arange(1.0, N + 1, dtype=t.dtype)[:, None] if scaled else None
    grams = module.grams(t, scale=scale)
    assert module.by_grams
    assert grams.shape == (*leading, N, row_stride(num_states))
    entry = (num_states - 1) * num_states // 2  # G[T - 1, 0]
    states = t.view(*leading, N, num_states, K)
    expected = (states[..., -1, :] * states[..., 0, :]).mean(-1)
    assert torch.allclose(grams[..., entry], expected if scale is None else expected * scale[:, 0])
    results = []
    for found in (module.of_grams(grams), module(t, scale=scale)):
        gradients = torch.autograd.grad(found.square().sum(), list(module.parameters()))
        results.append([found, *gradients])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-11)


def test_gram_matrices_of_another_size_and_where_they_are_not_enough() -> None:
    module = made(3)
    with pytest.raises(ArgumentError, match=r"of 3 states have 16 numbers, got shape \[7, 32\]"):
        module.of_grams(torch.zeros(N, 32, dtype=torch.float64))
    assert not made(3, channel_weights=True).by_grams
    assert not made(13).by_grams


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_sum_over_channels(form: str, weighted: bool) -> None:
    module, t = made(FORMS[form], channel_weights=weighted), drawn(FORMS[form], 2)
    if module.alpha is not None:
        with torch.no_grad():
            module.alpha.uniform_(-1, 1)
    nodes, pairs = module.node_products(t), module.pair_products(t, PAIRS)
    for b in range(2):
        for v in range(N):
            assert torch.allclose(nodes[b, v], written_out(module, t[b], v, v), atol=1e-12)
        for i, (u, v) in enumerate(PAIRS.T.tolist()):
            assert torch.allclose(pairs[b, i], written_out(module, t[b], u, v), atol=1e-12)
    loops = torch.arange(N).expand(2, -1)
    assert torch.allclose(module.pair_products(t, loops), nodes, atol=1e-12)


def test_both_forms_have_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    t = drawn(3, 2).requires_grad_()
    results = []
    for form in (TrajectoryProducts._by_gram_matrices, TrajectoryProducts._by_channels):
        monkeypatch.setattr(TrajectoryProducts, "_by_gram_matrices", form)
        module = made()
        (module(t).square().sum() + module.pairs(t, PAIRS).square().sum()).backward()
        results.append([t.grad.clone(), *(p.grad for p in module.parameters())])
        t.grad = None
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_node_order_channel_order_and_signs(form: str) -> None:
    module, t = made(FORMS[form], norm="layer"), drawn(FORMS[form])
    out, pairs = module(t), module.pairs(t, PAIRS)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(module(t[order]), out[order], atol=1e-12)
    assert torch.allclose(module.pairs(t[order], torch.argsort(order)[PAIRS]), pairs, atol=1e-12)
    states = t.view(N, FORMS[form], K)
    channels = torch.tensor([3, 1, 0, 5, 4, 2])
    signs = torch.tensor([1.0, -1, -1, 1, -1, 1], dtype=torch.float64)
    assert torch.allclose(module((states[..., channels] * signs).flatten(-2)), out, atol=1e-12)
    rotation = torch.linalg.qr(torch.randn(K, K, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))[0]
    assert torch.allclose(module((states @ rotation).flatten(-2)), out, atol=1e-12)


def test_channel_weights_tell_channels_apart() -> None:
    module, t = made(channel_weights=True, norm="layer"), drawn()
    plain = made(norm="layer")
    assert torch.allclose(module(t), plain(t), atol=1e-12)  # they start at 1
    with torch.no_grad():
        module.alpha.uniform_(-1, 1)  # type: ignore[union-attr]
    swapped = t.view(N, 3, K).flip(-1).flatten(-2)
    assert not torch.allclose(module(swapped), module(t), atol=1e-3)
    assert torch.allclose(plain(swapped), plain(t), atol=1e-12)


def test_products_of_an_orthonormal_start_are_powers_of_the_operator() -> None:
    """With k >= n and unnormalised steps the products are exact: no randomness is left."""
    ring = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0]])
    graph = rfp.Graph(torch.cat([ring, ring.flip(0)], dim=1), N)
    a = torch.zeros(N, N, dtype=torch.float64)
    a[graph.edge_index[0], graph.edge_index[1]] = 1
    q = torch.linalg.qr(torch.randn(N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(4)))[0]
    states = torch.stack([torch.linalg.matrix_power(a, p) @ q for p in range(STEPS + 1)], dim=1)
    module = made(STEPS + 1, N)
    with torch.no_grad():  # feature 0: r against step 3; feature 1: step 1 against step 3
        module.first[:2] = torch.eye(4, dtype=torch.float64)[:2]
        module.second[:2] = torch.eye(4, dtype=torch.float64)[[3, 3]]
    y = N * module.node_products(states.flatten(-2))
    assert torch.allclose(y[:, 0], torch.linalg.matrix_power(a, 3).diagonal(), atol=1e-10)
    assert torch.allclose(y[:, 1], torch.linalg.matrix_power(a, 4).diagonal(), atol=1e-10)
    pairs = N * module.pair_products(states.flatten(-2), PAIRS)
    assert torch.allclose(pairs[:, 0], torch.linalg.matrix_power(a, 3)[PAIRS[0], PAIRS[1]], atol=1e-10)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_replicas_compute_what_each_computes_alone(form: str, weighted: bool, each: bool) -> None:
    plain = [TrajectoryProducts(K, FORMS[form], D, channel_weights=weighted, norm="layer").double() for _ in range(R)]
    holder = torch.nn.ModuleList([copy.deepcopy(plain[0])])
    together = rfp.nn.replicated.replicate(holder, R)[0]
    with torch.no_grad():
        for name, p in together.named_parameters():
            for r in range(R):
                p[r].copy_(dict(plain[r].named_parameters())[name])
    t = drawn(FORMS[form], R, 2) if each else drawn(FORMS[form], 2)
    out, pairs = together(t, each=each), together.pairs(t, PAIRS, each=each)
    for r in range(R):
        one = t[r] if each else t
        assert torch.allclose(out[r], plain[r](one), atol=1e-10)
        assert torch.allclose(pairs[r], plain[r].pairs(one, PAIRS), atol=1e-10)


def test_padding_is_left_out_of_the_statistics_of_nodes_and_pairs() -> None:
    module, t = made().float().train(), drawn().float()
    padded = torch.cat([t, 1e3 * t[:2]])
    pairs = torch.cat([PAIRS, torch.tensor([[8], [8]])], dim=1)
    expected = copy.deepcopy(module)
    real = torch.tensor([1.0] * N + [0.0] * 2)[:, None]
    with real_rows(module, real):
        nodes, edges = module(padded), module.pairs(padded, pairs)
    assert torch.allclose(nodes[:N], expected(t), atol=1e-5)
    assert torch.allclose(edges[:-1], expected.pairs(t, PAIRS), atol=1e-5)
    mine, other = module.norm.norm, expected.norm.norm
    assert torch.allclose(mine.running_mean, other.running_mean, atol=1e-6)
    assert torch.allclose(mine.running_var, other.running_var, atol=1e-6)


def test_pairs_in_blocks_where_no_gradient_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    module, t = made().eval(), drawn(3, 2)
    whole = module.pairs(t, PAIRS)
    monkeypatch.setattr(trajectory_products, "_PAIR_BYTES", 1)
    with torch.no_grad():
        assert torch.allclose(module.pairs(t, PAIRS), whole, atol=1e-12)
        assert module.pairs(t, PAIRS[:, :0]).shape == (2, 0, D)


def test_degenerate_sizes() -> None:
    module = made().eval()
    assert module(torch.zeros(1, 0, 3 * K, dtype=torch.float64)).shape == (1, 0, D)
    assert module.train()(torch.zeros(1, 1, 3 * K, dtype=torch.float64)).isfinite().all()


def test_what_cannot_be_multiplied_is_said() -> None:
    module = made()
    with pytest.raises(ArgumentError, match=r"num_states \* num_channels = 3 \* 6 numbers a node, got shape \[7, 17\]"):
        module(drawn()[:, 1:])
    with pytest.raises(ArgumentError, match=r"nodes in 0\.\.6, got 7"):
        module.pairs(drawn(), torch.tensor([[0], [7]]))
    with pytest.raises(ArgumentError, match=r"nodes in 0\.\.6, got -1"):
        module.pairs(drawn(), torch.tensor([[0], [-1]]))
    with pytest.raises(ArgumentError, match=r"shape \[2, num_pairs\], got \[3, 4\]"):
        module.pairs(drawn(), torch.zeros(3, 4, dtype=torch.long))
    with pytest.raises(ArgumentError, match="num_products must be at least 1, got 0"):
        TrajectoryProducts(2, 2, 2, num_products=0)


# Inside a model.

RFP = {"name": "rfp", "num_channels": 4, "num_steps": 2, "normalization": "l2"}


def molecules() -> list[Data]:
    torch.manual_seed(0)
    found = []
    for n in (5, 6, 9):
        ring = torch.tensor([list(range(n)), [*range(1, n), 0]])
        edge_index = torch.cat([ring, ring.flip(0)], dim=1)
        bonds = torch.randint(1, 4, (n,)).repeat(2)
        found.append(Data(torch.randint(0, 28, (n, 1)), edge_index, edge_attr=bonds, num_nodes=n))
    return found


def model(**values: Any) -> RFPModel:
    torch.manual_seed(0)
    zinc = {"node_encoder": "zinc", "edge_encoder": "zinc", "backbone": "gine", "hidden_channels": 8, "num_layers": 2}
    return RFPModel({"out_channels": 1, **zinc, "encodings": [RFP], "product_channels": M, **values})


@pytest.mark.parametrize("edge_products", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("trajectories", ["concatenate", "independent", "dss"])
@pytest.mark.parametrize("embed", ["products", "both"])
def test_every_combination_in_a_batch_and_alone(
    embed: str, trajectories: str, weights: bool, edge_products: bool
) -> None:
    one = model(
        embed=embed,
        trajectories=trajectories,
        product_weights=weights,
        edge_products=edge_products,
        encodings=[{**RFP, "num_trajectories": 3}, {"name": "rnf", "num_channels": 2}],
    )
    batch = Batch.from_data_list(molecules())
    out = one.eval()(batch)
    assert torch.allclose(out, torch.cat([one(data) for data in molecules()]), atol=1e-4)
    one.train()(batch).square().sum().backward()
    assert [name for name, p in one.named_parameters() if p.grad is None] == []


def test_joined_trajectories_are_more_samples_of_one_product() -> None:
    """Three trajectories of k channels are what one of 3 k channels is: the same mean over the same samples."""
    one = model(embed="products", trajectories="concatenate", encodings=[{**RFP, "num_trajectories": 3}]).eval()
    data = molecules()[2]
    t = one.draw(data)[0]  # [3, n, T k]
    products = one.embed.products[0]
    assert products.num_channels == 12
    each = t.view(3, 9, 3, 4)
    joined = torch.cat(list(each), dim=-1).flatten(-2)
    expected = one.embed.linear([one.node_encoder(data.x)], []) + products(joined)
    assert torch.allclose(one.embed([one.node_encoder(data.x)], [t]), expected, atol=1e-5)


def test_a_learned_operator_gets_its_gradient_through_the_products() -> None:
    learned = {**RFP, "operators": ["learned"], "learned_heads": 2}
    one = model(embed="products", encodings=[learned], edge_products=True).train()
    one(Batch.from_data_list(molecules())).square().sum().backward()
    grads = [p.grad for p in one.drawn.parameters()]
    assert all(g is not None and g.isfinite().all() for g in grads)
    assert sum(float(g.abs().sum()) for g in grads if g is not None) > 0


def test_edge_products_alone_are_edge_features() -> None:
    one = model(embed="linear", edge_encoder="none", edge_products=True, encodings=[RFP], norm="layer").eval()
    data = molecules()[1]
    t = one.draw(data)[0]
    assert torch.allclose(
        one._edge_features(data, rfp.Graph(data.edge_index, 6), [t]), one.edge_products[0].pairs(t[0], data.edge_index)
    )
    assert one(data).shape == (1, 1)


def test_edge_products_are_the_mean_over_trajectories() -> None:
    encoding = {**RFP, "num_trajectories": 3}
    one = model(trajectories="dss", edge_encoder="none", edge_products=True, encodings=[encoding], norm="layer").eval()
    data = molecules()[1]
    t = one.draw(data)[0]  # [3, n, T k]
    each = [one.edge_products[0].pairs(t[b], data.edge_index) for b in range(3)]
    found = one._edge_features(data, rfp.Graph(data.edge_index, 6), [t])
    assert torch.allclose(found, sum(each) / 3, atol=1e-6)


def test_pairs_are_scaled_by_their_second_node() -> None:
    module, t = made(norm="none"), drawn()
    scale = torch.linspace(1.0, 4.0, N, dtype=torch.float64)[:, None]
    by_hand = torch.stack([written_out(module, t, u, v) * scale[v] for u, v in PAIRS.T.tolist()])
    assert torch.allclose(module.pairs(t, PAIRS, scale=scale), module.mlp(module.norm(by_hand)), atol=1e-12)


def test_without_node_features_the_products_are_all_there_is() -> None:
    one = model(node_encoder="none", embed="products").eval()
    assert one.embed.linear is None
    data = molecules()[0]
    data.x = None
    assert one(data).shape == (1, 1)


def test_normalisation_follows_the_model() -> None:
    assert isinstance(model(embed="products").embed.products[0].norm.norm, torch.nn.BatchNorm1d)
    assert isinstance(model(embed="products", norm="none").embed.products[0].norm.norm, torch.nn.LayerNorm)
    assert isinstance(
        model(embed="products", norm="none", product_norm="none").embed.products[0].norm.norm, torch.nn.Identity
    )


def test_products_times_the_nodes_of_each_graph() -> None:
    """The numbers of nodes, read from offsets, multiply what the products of a node or an edge are."""
    one = model(embed="products", edge_products=True, product_scale="nodes").eval()
    batch = Batch.from_data_list(molecules())
    graph = rfp.Graph(batch.edge_index, batch.num_nodes, ptr=batch.ptr)
    scale = one._product_scale(graph)
    assert scale is not None
    assert scale[:, 0].tolist() == [5.0] * 5 + [6.0] * 6 + [9.0] * 9
    products, t = one.embed.products[0], one.draw(batch)[0]
    by_hand = products.mlp(products.norm(products.node_products(t) * scale))
    assert torch.allclose(products(t, scale=scale), by_hand)
    assert torch.allclose(one(batch), torch.cat([one(data) for data in molecules()]), atol=1e-4)


def test_products_of_unit_columns_on_a_large_graph_are_not_drowned_by_the_norm() -> None:
    module = made(norm="batch").float().train()
    t = torch.nn.functional.normalize(torch.randn(2_000, 3, K, generator=torch.Generator().manual_seed(0)), dim=0)
    normalized = module.norm(module.node_products(t.flatten(-2)))
    assert torch.allclose(normalized.var(0), torch.ones(M), atol=0.01)


def test_config_says_what_does_not_fit() -> None:
    with pytest.raises(ArgumentError, match='embed="products" multiplies trajectories: add an encoding named "rfp"'):
        model(embed="products", encodings=[])
    with pytest.raises(ArgumentError, match='edge_products adds to edge features, which backbone="gin" does not read'):
        model(backbone="gin", edge_encoder="none", edge_products=True)
    with pytest.raises(ArgumentError, match="embed must be one of 'linear', 'products', 'both', got 'product'"):
        model(embed="product")
    with pytest.raises(ArgumentError, match="product_channels must be an integer of at least 1, got 0"):
        model(embed="products", product_channels=0)
