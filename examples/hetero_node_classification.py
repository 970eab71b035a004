"""Which field is a paper from? Authors write papers and nodes have no features: only the graph knows.

A heterogeneous GraphSAGE on encodings along the edge type and along the metapath paper - author - paper. They are drawn
once: with a new draw in each epoch nothing would tell one field from another, for to the graph they are alike. (Where
nodes have features of their own, ``rfp.nn.HeteroRandomFeaturePropagation`` draws anew at each call.) Some seconds.
"""

import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.transforms import ToUndirected

from rfp.transforms import AddHeteroRandomFeaturePropagationPE

FIELDS, AUTHORS, PAPERS = 3, 120, 300
WRITES, WRITTEN_BY = ("author", "writes", "paper"), ("paper", "rev_writes", "author")


def bibliography() -> HeteroData:
    """Each paper has three authors, who are from its field nine times in ten."""
    generator = torch.Generator().manual_seed(0)
    field = torch.randint(FIELDS, (PAPERS,), generator=generator)
    paper = torch.arange(PAPERS).repeat_interleave(3)
    guest = torch.rand(len(paper), generator=generator) < 0.1
    theirs = torch.where(guest, torch.randint(FIELDS, paper.shape, generator=generator), field[paper])
    author = theirs * (AUTHORS // FIELDS) + torch.randint(AUTHORS // FIELDS, paper.shape, generator=generator)
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes, data["paper"].y = AUTHORS, PAPERS, field
    data[WRITES].edge_index = torch.stack([author, paper])
    return ToUndirected()(data)


class Model(torch.nn.Module):
    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.embed = torch.nn.ModuleDict({t: torch.nn.Linear(x.size(1), 32) for t, x in data.x_dict.items()})
        self.conv = HeteroConv({edge_type: SAGEConv((32, 32), 32) for edge_type in data.edge_types})
        self.head = torch.nn.Linear(32, FIELDS)

    def forward(self, data: HeteroData) -> torch.Tensor:
        x = {t: self.embed[t](rows).relu() for t, rows in data.x_dict.items()}
        return self.head(x["paper"] + self.conv(x, data.edge_index_dict)["paper"].relu())


torch.manual_seed(0)
relations = [WRITES, [WRITTEN_BY, WRITES]]
encode = AddHeteroRandomFeaturePropagationPE(
    num_channels=4, num_steps=16, start="unit", relations=relations, attr_name=None
)
data = encode(bibliography())
train = torch.arange(PAPERS) < 60
model = Model(data)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
for _ in range(100):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data)[train], data["paper"].y[train]).backward()
    optimizer.step()
right = model(data).argmax(1)[~train] == data["paper"].y[~train]
print(f"papers whose field was found: {right.double().mean():.0%} (by chance {1 / FIELDS:.0%})")
