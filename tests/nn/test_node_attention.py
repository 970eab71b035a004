"""Attention on padded blocks equals PyTorch's on a dense batch, and a GPS layer equals PyG's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GINEConv, GPSConv

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn import Backbone, Edges
from rfp.nn import padding as paddings
from rfp.nn.node_attention import NodeAttention

D, H = 12, 3
NO_EDGES = torch.empty(2, 0, dtype=torch.long)
SIZES = {
    "one": [5],
    "same": [4, 4, 4],
    "mixed": [1, 7, 3, 2],
    "with an empty one": [3, 0, 2, 0],
    "far apart": [1, 1, 1, 1, 1, 1, 1, 1, 40],
    "none": [],
}


def offsets_of(sizes: list[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0)


def attention(seed: int = 0) -> NodeAttention:
    torch.manual_seed(seed)
    made = NodeAttention(D, H)
    with torch.no_grad():  # zeros after their making, and not after training
        made.project.bias.normal_()
        made.out.bias.normal_()
    return made


def torch_attention(ours: NodeAttention) -> nn.MultiheadAttention:
    """With the same parameters."""
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.project.weight)
        theirs.in_proj_bias.copy_(ours.project.bias)
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
    return theirs


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_each_graph_attends_to_itself(sizes: list[int], known: bool, leading: tuple[int, ...]) -> None:
    ours = attention()
    theirs = torch_attention(ours)
    ptr = offsets_of(sizes)
    n = sum(sizes)
    x = torch.randn(*leading, n, D, requires_grad=True)
    graph = Graph(NO_EDGES, n, ptr=ptr, max_size=max(sizes, default=0) if known else None)
    out = ours(x, graph)
    parts = []
    for begin, end in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True):
        if end > begin:
            alone = x[..., begin:end, :].reshape(-1, end - begin, D)
            parts.append(theirs(alone, alone, alone, need_weights=False)[0].view(*leading, end - begin, D))
    expected = torch.cat(parts, dim=-2) if parts else x.new_zeros(*leading, 0, D)
    assert out.shape == expected.shape
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    weight = torch.randn_like(out)
    if not n:
        return
    got = torch.autograd.grad((out * weight).sum(), [x, ours.project.weight, ours.out.weight])
    wanted = torch.autograd.grad((expected * weight).sum(), [x, theirs.in_proj_weight, theirs.out_proj.weight])
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_dropout_leaves_weights_out_in_training_alone() -> None:
    """Values are 1, so that a sum over them is that of the weights kept, each scaled by 1 / (1 - p)."""
    ours, p = NodeAttention(D, H, dropout=0.25), 0.25
    with torch.no_grad():
        ours.project.weight.zero_()  # uniform weights
        ours.project.bias[2 * D :] = 1.0
        ours.out.weight.copy_(torch.eye(D))
    graph = Graph(NO_EDGES, 24, ptr=offsets_of([16, 8]))
    x = torch.randn(50, 24, D)
    torch.manual_seed(0)
    kept = ours(x, graph) * (1 - p)
    counts = kept[:, :16] * 16
    torch.testing.assert_close(counts, counts.round(), atol=1e-4, rtol=0)
    assert counts.round().unique().numel() > 3
    share = float(kept.detach().mean())
    assert abs(share - (1 - p)) < 0.01  # 50 x 24 x 3 means of 8 or 16 draws: a deviation of 0.002
    torch.testing.assert_close(ours.eval()(x, graph), torch.ones_like(x))


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_a_dropout_that_is_none(dropout: float) -> None:
    with pytest.raises(ArgumentError, match="attention_dropout must be from 0 to below 1"):
        NodeAttention(D, H, dropout=dropout)


@pytest.mark.parametrize("tail", [1, 4])
def test_padding_of_a_batch_changes_nothing(tail: int) -> None:
    """Nodes that belong to no graph are attended to by none, and give no gradient."""
    ours, ptr = attention(), offsets_of([2, 5, 1])
    x = torch.randn(8 + tail, D, requires_grad=True)
    padded = Graph.unchecked(NO_EDGES, 8 + tail, ptr=ptr, max_size=5, padded=True)
    out = ours(x, padded)
    expected = ours(x[:8], Graph(NO_EDGES, 8, ptr=ptr))
    torch.testing.assert_close(out[:8], expected)
    (grad,) = torch.autograd.grad(out[:8].square().sum(), x)
    assert grad[8:].abs().max() == 0
    assert out.isfinite().all()


def test_the_layout_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    init = paddings.PaddedGraphs.__init__
    monkeypatch.setattr(paddings.PaddedGraphs, "__init__", lambda self, g: (made.append(g), init(self, g))[1])
    graph = Graph(NO_EDGES, 5, ptr=offsets_of([2, 3]))
    Backbone("gps", D, 3, num_heads=H)(torch.randn(5, D), Edges(NO_EDGES, graph=graph))
    assert made == [graph]


def test_no_wait_for_the_device_where_sizes_are_known() -> None:
    """Tensors on ``meta`` cannot be looked at."""
    ptr = torch.empty(4, dtype=torch.long, device="meta")
    graph = Graph.unchecked(NO_EDGES.to("meta"), 12, ptr=ptr, max_size=5, padded=True)
    assert NodeAttention(D, H).to("meta")(torch.empty(2, 12, D, device="meta"), graph).shape == (2, 12, D)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
@pytest.mark.parametrize("edge_features", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_a_layer_equals_that_of_pyg(norm: str, edge_features: bool, training: bool) -> None:
    torch.manual_seed(0)
    ours = Backbone("gps", D, 1, norm=norm, num_heads=H, edge_features=edge_features).layers[0].train(training)
    for part in ours.norms:
        if norm != "none":
            nn.init.normal_(part.norm.weight)
            nn.init.normal_(part.norm.bias)
    local = (GINEConv if edge_features else GINConv)(ours.local.conv.nn)
    name = {"batch": "batch_norm", "layer": "layer_norm", "none": None}[norm]
    kwargs = {"mode": "node"} if norm == "layer" else {}
    theirs = GPSConv(D, local, heads=H, norm=name, norm_kwargs=kwargs).train(training)
    theirs.attn = torch_attention(ours.attention)
    with torch.no_grad():
        for place, part in ((0, ours.mlp.parts[0]), (3, ours.mlp.parts[-1])):
            theirs.mlp[place].weight.copy_(part.weight)
            theirs.mlp[place].bias.copy_(part.bias)
        for own, other in zip(ours.norms, (theirs.norm1, theirs.norm2, theirs.norm3), strict=True):
            if norm != "none":
                wrapped = getattr(other, "module", other)
                wrapped.weight.copy_(own.norm.weight)
                wrapped.bias.copy_(own.norm.bias)
    batch = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    index = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 6, 7, 8], [1, 0, 2, 1, 4, 3, 6, 5, 8, 7]])
    attr = torch.randn(index.size(1), D) if edge_features else None
    x = torch.randn(9, D)
    more = {} if attr is None else {"edge_attr": attr}
    expected = theirs(x, index, batch, **more)
    torch.testing.assert_close(ours(x, Edges(index, attr, batch=batch)), expected, rtol=1e-5, atol=1e-5)


def test_heads_divide_the_width() -> None:
    with pytest.raises(ArgumentError, match="num_heads=5 must divide the width 12 of a GPS layer; try 4 heads"):
        NodeAttention(12, 5)


def test_parameters_begin_as_those_of_torch() -> None:
    torch.manual_seed(3)
    ours = NodeAttention(64, 4)
    torch.manual_seed(3)
    theirs = nn.MultiheadAttention(64, 4)
    assert ours.project.bias.abs().max() == ours.out.bias.abs().max() == 0
    for own, other in ((ours.project.weight, theirs.in_proj_weight), (ours.out.weight, theirs.out_proj.weight)):
        assert own.std().item() == pytest.approx(other.std().item(), rel=0.05)
        assert own.abs().max().item() == pytest.approx(other.abs().max().item(), rel=0.01)
