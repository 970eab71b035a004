"""The kernel that draws random features, in Triton's interpreter, against the plain rule."""

from tests.interpreter import run_interpreted

CODE = """
import torch
from rfp.features import random_features
from rfp.graph import Graph
from rfp.triton_features import launch

single = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=150)
ptr = torch.tensor([0, 3, 3, 4, 9])  # a graph without nodes, one of a single node
batch = Graph(torch.tensor([[0, 1, 4, 5], [1, 0, 5, 4]]), num_nodes=9, ptr=ptr)
for graph in (single, batch):
    for distribution in ("normal", "rademacher", "uniform"):
        for channels, trajectories, rows in ((1, 1, None), (5, 3, slice(2, 8)), (16, 2, None), (70, 1, slice(0, 4))):
            options = {"num_channels": channels, "num_trajectories": trajectories, "distribution": distribution}
            want = random_features(graph, seed=7, rows=rows, first_trajectory=1, **options)
            start, stop, _ = (rows or slice(None)).indices(graph.num_nodes)
            several = None if graph is single else graph.batch
            where = (graph.keys, several, graph.offsets, start, stop - start)
            got = launch(7, range(1, 1 + trajectories), *where, channels, distribution)
            assert got.is_contiguous() and got.dtype == torch.float32
            torch.testing.assert_close(got.transpose(0, 1), want, atol=2e-6, rtol=2e-6)
assert launch(0, range(1), single.keys, None, single.offsets, 3, 0, 4, "normal").shape == (0, 1, 4)
print("equal")
"""


def test_kernel_equals_the_rule() -> None:
    run_interpreted(CODE)
