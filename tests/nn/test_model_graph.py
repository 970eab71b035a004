"""What models are given as a graph: what is none is refused, and what PyG leaves behind is understood."""

import pytest
import torch
from tests.nn.test_encoder import data
from torch_geometric.data import Batch, Data

from rfp.errors import GraphError
from rfp.nn import RandomFeaturePropagation
from rfp.nn.model_graph import model_graph

PATH = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": torch.tensor([[0, -1], [1, 2]])}, "edge_index holds node -1"),
        ({"graph": torch.tensor([[0, 9], [1, 2]])}, "edge_index holds node 9"),
        ({"graph": PATH.T}, r"edge_index must have shape \[2, num_edges\], got \[4, 2\]"),
        ({"graph": PATH.float()}, "edge_index must hold integers"),
        ({"edge_weight": torch.ones(3)}, "edge_weight must have one value for each of the 4 edges"),
        ({"edge_weight": torch.ones(5)}, "edge_weight must have one value for each of the 4 edges"),
        ({"edge_weight": torch.tensor([1.0, torch.nan, 1, 1])}, "edge_weight must be finite, got nan at edge 1"),
        ({"ptr": torch.tensor([0, 3])}, "ptr must start at 0, never fall and end at num_nodes=5"),
        ({"ptr": torch.tensor([0, 3, 5])}, "edge 2 joins two graphs of the batch"),
        ({"batch": torch.tensor([0, 1, 0, 1, 0])}, "batch must ascend from 0"),
        ({"batch": torch.tensor([-1, 0, 0, 0, 0])}, "batch must ascend from 0"),
        ({"batch": torch.zeros(4, dtype=torch.long)}, "batch must have the graph number of each of the 5 nodes"),
        ({"ptr": torch.zeros(0, dtype=torch.long)}, r"ptr must hold num_graphs \+ 1 integers, got .* of shape \[0\]"),
        ({"ptr": torch.tensor([0.0, 5.0])}, r"ptr must hold num_graphs \+ 1 integers, got torch.float32"),
        ({"batch": torch.zeros(5, dtype=torch.bool)}, "batch must have the graph number of each of the 5 nodes, got"),
        ({"batch": torch.zeros(5)}, "batch must have the graph number of each of the 5 nodes"),
        (
            {"batch": torch.zeros(5, dtype=torch.long), "ptr": torch.tensor([0, 3, 5])},
            "batch and ptr do not say the same",
        ),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_what_is_no_graph_is_refused(arguments: dict, message: str, training: bool) -> None:
    layer = RandomFeaturePropagation(2, num_steps=1).train(training)
    with pytest.raises(GraphError, match=message):
        layer(**{"graph": PATH, "num_nodes": 5, **arguments})


def test_offsets_tell_the_number_of_nodes() -> None:
    layer = RandomFeaturePropagation(2, num_steps=2).eval()
    edges = torch.tensor([[0, 1, 3], [1, 2, 4]])
    expected = layer(edges, ptr=torch.tensor([0, 3, 6]), num_nodes=6)
    assert torch.equal(layer(edges, ptr=torch.tensor([0, 3, 6])), expected)


def test_a_part_of_a_batch_is_what_its_graphs_are() -> None:
    """PyG's ``subgraph`` of a batch leaves ``ptr`` as it was."""
    layer = RandomFeaturePropagation(2, num_steps=2).eval()
    batch = Batch.from_data_list([data(5), data(6)])
    part = batch.subgraph(torch.tensor([0, 1, 2, 5, 6, 7, 8]))
    assert part.ptr.tolist() == [0, 5, 11]
    alone = [one.subgraph(torch.arange(n)) for one, n in ((data(5), 3), (data(6), 4))]
    assert torch.allclose(layer(part), torch.cat([layer(one) for one in alone], dim=1), atol=1e-6)


def test_adj_t_alone_is_a_graph() -> None:
    edges = torch.tensor([[0, 1, 1], [1, 0, 2]])
    matrix = torch.sparse_coo_tensor(edges.flip(0), torch.tensor([1.0, 2.0, 3.0]), (3, 3)).to_sparse_csr()
    read = model_graph(Data(adj_t=matrix, num_nodes=3))
    assert read.to_scipy().toarray().tolist() == [[0, 1, 0], [2, 0, 3], [0, 0, 0]]
    batched = model_graph(Data(adj_t=torch.eye(3).to_sparse(), num_nodes=3), batch=torch.tensor([0, 0, 1]))
    assert batched.offsets.tolist() == [0, 2, 3]
    few = model_graph(edges.to(torch.uint8), num_nodes=300)
    assert few.edge_index.dtype == torch.long
