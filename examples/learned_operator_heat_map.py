"""What a learned propagation operator looks at: S before and after training, as heat maps.

    python examples/learned_operator_heat_map.py [picture.png]

Four groups of nodes, sparsely joined, with noisy features. Training asks that propagated random features be alike for
two nodes of one group and unrelated otherwise. The operator learns that all nodes of a group look at the same few
nodes, however far away: each group gets its own global nodes.
"""

import sys

import matplotlib.pyplot as plt
import networkx as nx
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot
from torch_geometric.utils import from_networkx

from rfp.conversion import as_graph
from rfp.nn import LearnedOperator, RandomFeaturePropagation

torch.manual_seed(0)
chances = [[0.25 if i == j else 0.02 for j in range(4)] for i in range(4)]
data = from_networkx(nx.stochastic_block_model([12] * 4, chances, seed=1))
group = torch.arange(4).repeat_interleave(12)
data.x = one_hot(group).float() + 0.4 * torch.randn(48, 4)
same = (group[:, None] == group).float()

operator = LearnedOperator(4)
encoder = RandomFeaturePropagation(32, num_steps=1, operators=[operator], normalization="none").train()
before = operator(data.x, as_graph(data)).matrix()[0].detach()
optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
for _ in range(150):
    a = normalize(encoder(data)[0, :, -32:], dim=1)  # the last step of a fresh draw
    loss = binary_cross_entropy_with_logits(10 * (a @ a.T - 0.5), same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
after = operator(data.x, as_graph(data)).matrix()[0].detach()
for name, matrix in (("before", before), ("after", after)):
    rows = normalize(matrix, dim=1)
    alike = rows @ rows.T
    inside, across = (alike * same).sum() / same.sum(), (alike * (1 - same)).sum() / (1 - same).sum()
    print(f"cosine of two rows of S {name} training: {inside:.2f} in one group, {across:.2f} in two")

figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for axis, matrix, title in zip(axes, (before, after), ("before training", "after training"), strict=True):
    image = axis.imshow(matrix, vmin=0, vmax=float(after.quantile(0.99)))
    axis.set(title=f"S {title}", xlabel="node j", ylabel="node i (rows sum to 1)")
figure.colorbar(image, ax=axes, label="weight")
target = sys.argv[1] if len(sys.argv) > 1 else "learned_operator.png"
figure.savefig(target, dpi=130)
print(f"wrote {target}")
