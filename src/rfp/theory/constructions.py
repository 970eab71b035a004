r"""The networks of the paper's proofs, with their weights written down (Propositions 4.1 and C.7).

Proposition 4.1: GraphConv and DSS-GNN models that compute TraceTriangle_R exactly on all graphs with at most n nodes,

.. math:: \eta(G) = \frac{1}{6B} \sum_{b=1}^B \big\langle a_b^{(1)}, a_b^{(2)} \big\rangle, \qquad
          S = A, \; k = 1, \; P \ge 2, \; w \ge 3, \; r \in \{-1, 1\}^n .

The proof memorises the products of the finitely many values of :math:`(A r)_v` and :math:`(A^2 r)_v` in an MLP of
three ReLU layers. Here that MLP is explicit: :math:`xy = \frac14 ((x + y)^2 - (x - y)^2)`, and on the integers up to R

.. math:: t^2 = |t| + 2 \sum_{j=1}^{R-1} \mathrm{ReLU}(|t| - j), \qquad |t| = \mathrm{ReLU}(t) + \mathrm{ReLU}(-t) .

All its weights are integers or quarters, so nothing is rounded before the final division by 6B.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv
from torch_geometric.nn.pool import global_add_pool

from rfp.errors import ArgumentError

Layer = tuple[Tensor, Tensor]  # weight [out, in], bias [out]


def product_layers(max_nodes: int) -> list[Layer]:
    r"""Three ReLU layers that map :math:`(x, y)` to :math:`(\mathrm{ReLU}(xy), \mathrm{ReLU}(-xy))`.

    Exact for integers with :math:`|x| \le n - 1` and :math:`|y| \le (n - 1)^2`, the largest values of :math:`A r` and
    :math:`A^2 r`. The widths are 4, 2R and 2 with :math:`R = n (n - 1)`.

    Args:
        max_nodes: n.

    Example:
        >>> x = torch.tensor([[2.0, -3.0]], dtype=torch.float64)
        >>> for weight, bias in product_layers(4):
        ...     x = torch.relu(x @ weight.T + bias)
        >>> (x[:, 0] - x[:, 1]).item()
        -6.0
    """
    if max_nodes < 1:
        raise ArgumentError(f"max_nodes must be at least 1, got {max_nodes}")
    largest = max(max_nodes * (max_nodes - 1), 1)  # of |x + y| and |x - y|
    # Layer 1: ReLU(±(x + y)), ReLU(±(x - y)).
    first = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    # Layer 2: ReLU(|x + y| - j) and ReLU(|x - y| - j) for j = 0, ..., R - 1.
    second = torch.zeros(2 * largest, 4, dtype=torch.float64)
    second[:largest, :2] = 1
    second[largest:, 2:] = 1
    offsets = -torch.arange(largest, dtype=torch.float64).repeat(2)
    # Layer 3: ±((x + y)² - (x - y)²) / 4.
    square = torch.full((largest,), 2.0, dtype=torch.float64)
    square[0] = 1
    product = torch.cat([square, -square]) / 4
    third = torch.stack([product, -product])
    zeros = [torch.zeros(len(weight), dtype=torch.float64) for weight in (first, third)]
    return [(first, zeros[0]), (second, offsets), (third, zeros[1])]


def block_diagonal(layer: Layer, copies: int) -> Layer:
    """The layer applied to ``copies`` inputs side by side."""
    weight, bias = layer
    return torch.kron(torch.eye(copies, dtype=weight.dtype), weight), bias.repeat(copies)


def graph_conv(layer: Layer) -> GraphConv:
    """A GraphConv layer that ignores the neighbours: :math:`W_1` and the bias are the layer's, :math:`W_2 = 0`."""
    weight, bias = layer
    conv = GraphConv(weight.size(1), weight.size(0)).double()
    with torch.no_grad():
        conv.lin_root.weight.copy_(weight)
        conv.lin_rel.weight.zero_()
        conv.lin_rel.bias.copy_(bias)
    return conv


def linear(weight: Tensor) -> nn.Linear:
    """A linear layer with this weight ``[out, in]`` and no bias."""
    layer = nn.Linear(weight.size(1), weight.size(0), bias=False, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return layer


def early_steps(num_steps: int, num_inputs: int, copies: int = 1) -> nn.Linear:
    r""":math:`K_{embed}` of the proof: steps 1 and 2 of each trajectory, and nothing of the node features.

    Args:
        num_steps: P, at least 2.
        num_inputs: Width of the node features, which follow the trajectories.
        copies: Trajectories side by side in the input.

    Returns:
        A linear map from ``copies (P + 1) + num_inputs`` to ``2 copies`` channels.
    """
    if num_steps < 2:
        raise ArgumentError(f"num_steps must be at least 2: the construction reads steps 1 and 2, got {num_steps}")
    block = torch.zeros(2, num_steps + 1, dtype=torch.float64)
    block[0, 1] = block[1, 2] = 1
    selection = torch.kron(torch.eye(copies, dtype=block.dtype), block)
    return linear(torch.cat([selection, torch.zeros(2 * copies, num_inputs, dtype=torch.float64)], dim=1))


class GraphConvTriangles(nn.Module):
    r"""TraceTriangle_R as a GraphConv network on concatenated trajectories (Proposition 4.1, first half).

    Embedding (steps 1 and 2), three GraphConv layers with ReLU, sum readout, one linear layer :math:`\psi`.

    Args:
        num_trajectories: B.
        num_steps: P of the trajectories, at least 2.
        num_inputs: Width of the node features.
        max_nodes: n, the largest graph it is exact on. The widest layer has 2 n (n - 1) B channels.
    """

    def __init__(self, *, num_trajectories: int, num_steps: int = 2, num_inputs: int = 0, max_nodes: int) -> None:
        super().__init__()
        self.embed = early_steps(num_steps, num_inputs, copies=num_trajectories)
        layers = product_layers(max_nodes)
        self.convs = nn.ModuleList(graph_conv(block_diagonal(layer, num_trajectories)) for layer in layers)
        # The last ReLU splits the product into positive and negative parts; the readout puts them together again.
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(num_trajectories)
        self.readout = linear(signs[None] / (6 * num_trajectories))

    def forward(self, t: Tensor, x: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Trajectories ``[B, n, P + 1]`` and node features ``[n, num_inputs]`` to one number a graph."""
        side_by_side = t.transpose(0, 1).flatten(1)  # [n, B (P + 1)]
        h = self.embed(torch.cat([side_by_side, x], dim=1))
        for conv in self.convs:
            h = torch.relu(conv(h, edge_index))
        out: Tensor = self.readout(global_add_pool(h, batch, num_graphs))[:, 0]
        return out


class DSSTriangles(nn.Module):
    r"""TraceTriangle_R as a DSS-GNN over the bag of trajectories (Proposition 4.1, second half).

    Embedding, three layers :math:`h_b \leftarrow \mathrm{ReLU}(\mathrm{GNN}_1(h_b) + \mathrm{GNN}_2(\sum_{b'}
    h_{b'}))` with :math:`\mathrm{GNN}_2 = 0`, sum readout of each trajectory, :math:`\rho = 1/6`, sum over
    trajectories, :math:`\psi = 1/B`.

    Args:
        num_trajectories: B; only :math:`\psi` depends on it.
        num_steps: P, at least 2.
        num_inputs: Width of the node features, joined to every trajectory.
        max_nodes: n, the largest graph it is exact on.
    """

    def __init__(self, *, num_trajectories: int, num_steps: int = 2, num_inputs: int = 0, max_nodes: int) -> None:
        super().__init__()
        self.embed = early_steps(num_steps, num_inputs)
        layers = product_layers(max_nodes)
        self.each = nn.ModuleList(graph_conv(layer) for layer in layers)
        self.shared = nn.ModuleList(graph_conv((torch.zeros_like(w), torch.zeros_like(b))) for w, b in layers)
        self.rho = linear(torch.tensor([[1.0, -1.0]], dtype=torch.float64) / 6)
        self.psi = linear(torch.tensor([[1.0 / num_trajectories]], dtype=torch.float64))

    def forward(self, t: Tensor, x: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Trajectories ``[B, n, P + 1]`` and node features ``[n, num_inputs]`` to one number a graph."""
        h = self.embed(torch.cat([t, x.expand(len(t), -1, -1)], dim=2))
        for each, shared in zip(self.each, self.shared, strict=True):
            h = torch.relu(each(h, edge_index) + shared(h.sum(dim=0), edge_index))
        bags = torch.stack([self.rho(global_add_pool(h_b, batch, num_graphs)) for h_b in h])  # [B, num_graphs, 1]
        out: Tensor = self.psi(bags.sum(dim=0))[:, 0]
        return out


def random_node_initialization(num_inputs: int, num_channels: int, num_steps: int) -> nn.Linear:
    r""":math:`K_{embed}` that makes the model RNI, for the proof of universality (Proposition C.7).

    It maps :math:`f^{in} \oplus t` to :math:`f^{in} \oplus r`; σ is the identity and B = 1.

    Args:
        num_inputs: Width of the node features, which come first.
        num_channels: k.
        num_steps: P.

    Example:
        >>> embed = random_node_initialization(num_inputs=1, num_channels=2, num_steps=1)
        >>> embed(torch.tensor([[7.0, 1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)).tolist()
        [[7.0, 1.0, 2.0]]
    """
    kept = num_inputs + num_channels
    weight = torch.zeros(kept, num_inputs + (num_steps + 1) * num_channels, dtype=torch.float64)
    weight[:, :kept] = torch.eye(kept, dtype=torch.float64)
    return linear(weight)
