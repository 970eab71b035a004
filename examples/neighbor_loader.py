"""PyG's `NeighborLoader` and an encoding of the whole graph: encode once, sample afterwards.

A stored encoding is sliced with the nodes of a sampled neighbourhood, as any attribute is. PyG's own sampler needs
pyg-lib or torch-sparse; the loader takes another one, and the one below is PyTorch alone. Some seconds.
"""

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import SAGEConv
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput
from torch_geometric.utils import stochastic_blockmodel_graph

from rfp.transforms import AddRandomFeaturePropagationPE


class TorchNeighborSampler(BaseSampler):
    """Up to `num_neighbors[i]` edges into each node that was found i hops away, without replacement; -1 means all."""

    def __init__(self, data: Data, num_neighbors: list[int]) -> None:
        self.num_neighbors = num_neighbors
        source, target = data.edge_index
        self.by_target = target.argsort(stable=True)
        self.source = source[self.by_target]
        self.degree = target.bincount(minlength=data.num_nodes)
        self.first = self.degree.cumsum(0) - self.degree

    @property
    def edge_permutation(self) -> Tensor:
        return self.by_target  # the edges that a sample names are places in this order

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: object) -> SamplerOutput:
        nodes = found = index.node
        place = torch.full_like(self.degree, -1).index_put((nodes,), torch.arange(len(nodes)))
        hops, sizes = [], [len(nodes)]
        for most in self.num_neighbors:
            edges, targets = self._edges_into(found, most)
            sources = self.source[edges]
            found = sources[place[sources] < 0].unique()
            place[found] = torch.arange(len(found)) + len(nodes)
            nodes = torch.cat([nodes, found])
            hops.append(torch.stack([place[sources], place[targets], edges]))
            sizes.append(len(found))
        row, col, edge = torch.cat(hops, dim=1)
        counts = {"num_sampled_nodes": sizes, "num_sampled_edges": [hop.size(1) for hop in hops]}
        return SamplerOutput(nodes, row, col, edge, **counts, metadata=(index.input_id, index.time))

    def sample_from_edges(self, *args: object, **kwargs: object) -> SamplerOutput:
        raise NotImplementedError("for NeighborLoader, not for LinkNeighborLoader")

    def _edges_into(self, nodes: Tensor, most: int) -> tuple[Tensor, Tensor]:
        degree = self.degree[nodes]
        owner = torch.arange(len(nodes)).repeat_interleave(degree)
        rank = torch.arange(len(owner)) - (degree.cumsum(0) - degree)[owner]
        edges = self.first[nodes][owner] + rank
        if most >= 0:  # shuffle all, sort them by owner again, and take the first of each
            shuffled = torch.randperm(len(edges))
            shuffled = shuffled[owner[shuffled].argsort(stable=True)]
            edges = edges[shuffled][rank < most]
            owner = owner[rank < most]
        return edges, nodes[owner]


class SAGE(torch.nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(in_channels, 32), SAGEConv(32, out_channels)])

    def forward(self, data: Data) -> Tensor:
        x = self.convs[0](data.pe, data.edge_index).relu()
        return self.convs[1](x, data.edge_index)[: data.batch_size]  # the seeds come first


def main() -> None:
    torch.manual_seed(0)
    inside, between = 0.06, 0.01
    probabilities = torch.full((4, 4), between) + (inside - between) * torch.eye(4)
    edges = stochastic_blockmodel_graph([250] * 4, probabilities)
    data = Data(edge_index=edges, num_nodes=1000, y=torch.arange(4).repeat_interleave(250))
    data.train_mask = torch.rand(1000) < 0.1
    # The nodes have no features but their places; orthonormal columns have entries of size n^-1/2.
    encode = AddRandomFeaturePropagationPE(num_channels=8, num_steps=16, start="unit", attr_name="pe")
    data = encode(data)
    data.pe *= 1000**0.5

    sampler = TorchNeighborSampler(data, [10, 10])
    options = {"num_neighbors": [10, 10], "neighbor_sampler": sampler, "batch_size": 50}
    model = SAGE(data.pe.size(1), 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(10):
        for batch in NeighborLoader(data, input_nodes=data.train_mask, shuffle=True, **options):
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y[: batch.batch_size])
            optimizer.zero_grad(), loss.backward(), optimizer.step()

    hits = 0
    model.eval()
    with torch.no_grad():
        for batch in NeighborLoader(data, input_nodes=~data.train_mask, **options):
            hits += int((model(batch).argmax(1) == batch.y[: batch.batch_size]).sum())
    print(f"communities found: {hits / int((~data.train_mask).sum()):.0%} of the nodes not trained on; chance is 25%")


if __name__ == "__main__":
    main()
