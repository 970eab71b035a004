"""Link prediction for a PyG user: `RandomLinkSplit`, a GCN, and a head that also sees products of trajectories.

A GNN gives automorphic nodes the same embedding, so it cannot tell some pairs apart. Products of the trajectories of
two nodes can: without normalisation they estimate common neighbours and walks between them.
"""

import torch
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import coalesce, negative_sampling

import rfp
from rfp.data.metrics import roc_auc
from rfp.nn import RandomFeaturePropagation
from rfp.nn.embeddings import DrawnShape
from rfp.nn.link_head import LinkHead, LinkHeadOptions

torch.manual_seed(0)
split = RandomLinkSplit(num_val=0.1, num_test=0.2, is_undirected=True, add_negative_train_samples=False)
train, _, test = split(KarateClub()[0])


class LinkModel(torch.nn.Module):
    def __init__(self, in_channels: int, width: int = 32, k: int = 34) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, width)
        # Two operators, three steps without normalisation; with k of at least the 34 nodes the products are exact.
        self.encoder = RandomFeaturePropagation(
            num_channels=k,
            num_steps=3,
            operators=["adjacency", "normalized_adjacency"],
            normalization="none",
            start="orthonormal",
        )
        shape = DrawnShape(num_states=2 * 4, num_channels=k)
        self.head = LinkHead(LinkHeadOptions(width, drawn=(shape,), dropout=0.2), starts=("orthonormal",))

    def forward(self, data: Data, pairs: torch.Tensor) -> torch.Tensor:
        graph = rfp.Graph(data.edge_index, data.num_nodes)
        return self.head(self.conv(data.x, data.edge_index).relu(), pairs, graph, [self.encoder(graph)])


model = LinkModel(train.num_features)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
edges = train.edge_index[:, train.edge_index[0] < train.edge_index[1]]
for _ in range(20):
    for batch in torch.randperm(edges.size(1)).split(16):
        kept = torch.ones(edges.size(1), dtype=torch.bool)
        kept[batch] = False  # the edges that are asked about must not be in the graph
        both = coalesce(torch.cat([edges[:, kept], edges[:, kept].flip(0)], dim=1))
        no = negative_sampling(train.edge_index, train.num_nodes, num_neg_samples=len(batch))
        out = model(Data(x=train.x, edge_index=both), torch.cat([edges[:, batch], no], dim=1))
        answer = (torch.arange(len(out)) < len(batch)).float()[:, None]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(out, answer)
        optimizer.zero_grad(), loss.backward(), optimizer.step()
with torch.no_grad():
    score = model.eval()(test, test.edge_label_index)
print(f"test AUC {roc_auc(score, test.edge_label[:, None]):.3f}")
