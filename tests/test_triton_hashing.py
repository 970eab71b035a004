"""The kernels that hash graphs, in Triton's interpreter, against the plain rule."""

from tests.interpreter import run_interpreted

CODE = """
import torch
from rfp.graph import Graph
from rfp.triton_hashing import graph_keys

generator = torch.Generator().manual_seed(0)
many = torch.randint(0, 150, (2, 1300), generator=generator)  # more than two blocks
looped = torch.tensor([[0, 0, 1, 0], [0, 1, 0, 0]])  # the edge 0 -> 0, whose plain word is 0, twice
bare = torch.zeros(2, 0, dtype=torch.long)
for graph in (Graph(many, 150), Graph(looped, 2), Graph(bare, 3), Graph(looped.int(), 2)):
    assert torch.equal(graph_keys(graph.edge_index, graph.offsets, None), graph.keys)
ptr = torch.tensor([0, 3, 3, 4, 9, 11])  # a graph without nodes, one of a single node, one with a loop at its node 0
edges = torch.tensor([[9, 0, 1, 4, 5, 9, 2, 8, 7], [9, 1, 0, 5, 4, 10, 1, 7, 8]])  # in no order
batch = Graph(edges, 11, ptr=ptr)
assert len(batch.keys.unique()) == 5
assert torch.equal(graph_keys(batch.edge_index, batch.offsets, batch.batch), batch.keys)
rows = edges.T.contiguous().T  # as a table of pairs holds them
assert rows.stride() == (1, 2)
assert torch.equal(graph_keys(rows, batch.offsets, batch.batch), batch.keys)
assert torch.equal(graph_keys(edges.int(), batch.offsets.int(), batch.batch.int()), batch.keys)
assert len(graph_keys(edges[:, :0], torch.tensor([0]), edges[0, :0])) == 0
print("equal")
"""


def test_kernels_equal_the_rule() -> None:
    run_interpreted(CODE)
