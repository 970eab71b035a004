"""Counting triangles with several trajectories: a DSS network against concatenation.

The order of B random trajectories means nothing. DSS treats them as a set and shares its weights between them;
concatenation has to learn the same thing for every place.
"""

import networkx as nx
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_networkx

from rfp.baselines import substructure_counts
from rfp.nn import RFPModel


def random_graph(seed: int) -> Data:
    data = from_networkx(nx.gnp_random_graph(14, 0.15 + 0.25 * (seed % 7) / 6, seed=seed))
    data.y = substructure_counts(data, cycles=[3]).sum().view(1, 1) / 3
    return data


def error(trajectories: str, train: list[Data], test: list[Data]) -> tuple[float, int]:
    torch.manual_seed(0)
    rfp = {"num_channels": 1, "num_steps": 3, "num_trajectories": 32, "operators": ["adjacency"]}
    model = RFPModel(
        {
            "out_channels": 1,
            "backbone": "mlp",
            "num_layers": 2,
            "hidden_channels": 24,
            "norm": "layer",
            "trajectories": trajectories,
            "dss_aggregation": "mean",
            "encodings": [{"name": "rfp", **rfp, "normalization": "none", "distribution": "rademacher"}],
        }
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(18):
        for batch in DataLoader(train, batch_size=50, shuffle=True):
            loss = torch.nn.functional.l1_loss(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    batch = next(iter(DataLoader(test, batch_size=len(test))))
    with torch.no_grad():
        return float((model(batch) - batch.y).abs().mean() / batch.y.std()), model.num_parameters


torch.set_num_threads(1)  # tiny graphs: threads would mostly wait for each other
graphs = [random_graph(seed) for seed in range(400)]
for trajectories in ("concatenate", "dss"):
    mae, size = error(trajectories, graphs[:300], graphs[300:])
    print(f"{trajectories:12s} mean absolute error {mae:.3f} of the target's deviation, {size:,} parameters")
