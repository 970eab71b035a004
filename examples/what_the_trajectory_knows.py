"""What the trajectory knows: products of its states are entries of the powers of S, and a network can learn which.

Everything the theory promises is a *product* of trajectory entries: r(v) (A^3 r)(v), averaged over channels, is twice
the number of triangles at v. First without learning, exactly and with error bars; then a model whose K_embed multiplies
(rfp.nn.TrajectoryProducts) beside one whose K_embed is the paper's linear map, on the same random features.
"""

import networkx as nx
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

import rfp
from rfp.nn import RFPModel

torch.manual_seed(0)
torch.set_num_threads(1)

# As many orthonormal channels as nodes: no randomness is left.
karate = nx.create_empty_copy(nx.karate_club_graph())
karate.add_edges_from(nx.karate_club_graph().edges)  # without their weights
exact = rfp.products.diagonal(karate, operator="adjacency", num_powers=4, exact=True)
triangles = list(nx.triangles(karate).values())
print("triangles at the nodes:", triangles, "all equal:", triangles == (exact.value[:, 3] / 2).round().int().tolist())

# Fewer channels than nodes: estimates, each with its standard error.
large = nx.connected_watts_strogatz_graph(3000, 8, 0.1, seed=0)
found = rfp.products.diagonal(large, operator="adjacency", num_powers=3, num_channels=256)
low, high = found.interval()
truth = 2 * torch.tensor(list(nx.triangles(large).values()))
inside = ((low[:, 3] <= truth) & (truth <= high[:, 3])).float().mean()
print(f"3,000 nodes, 256 channels: {inside:.0%} of the 95 % intervals hold the true number")

# Pairs: (A^2)_uv is the number of common neighbours, whether u and v are linked or not.
pairs = torch.tensor([[0, 0, 14], [33, 1, 15]])
common = rfp.products.pairs(karate, pairs, operator="adjacency", num_powers=2, exact=True)
print("common neighbours of three pairs:", common.value[:, 2].round().int().tolist())


def graph(seed: int) -> Data:
    made = nx.gnp_random_graph(12, 0.3, seed=seed)
    data = from_networkx(made)
    data.y = torch.tensor([[sum(nx.triangles(made).values()) / 3]])
    return data


def error(embed: str) -> float:
    """Mean absolute error of the number of triangles, on graphs the model has not seen."""
    encoding = {"name": "rfp", "operators": ["adjacency"], "num_channels": 12, "num_steps": 2}
    encoding |= {"normalization": "none", "start": "orthonormal"}
    model = RFPModel(
        {"out_channels": 1, "hidden_channels": 32, "num_layers": 2, "embed": embed, "encodings": [encoding]}
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        loss = (model.train()(train) - train.y).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (model.eval()(test) - test.y).abs().mean().item()


train, test = (Batch.from_data_list([graph(seed) for seed in seeds]) for seeds in (range(100), range(100, 200)))
print(f"numbers of triangles have a mean deviation of {(test.y - test.y.mean()).abs().mean():.2f}; error with")
print(f"the linear K_embed: {error('linear'):.2f}, with products: {error('products'):.2f}")
