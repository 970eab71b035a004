"""A batch taken from the collection is the batch PyG makes of the same graphs."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from rfp.data.collection import GraphCollection
from rfp.errors import GraphError


def random_graphs() -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for n, m in [(3, 5), (1, 0), (4, 1), (2, 2), (5, 0)]:  # one node, and no edges, among them
        graphs.append(
            Data(
                x=torch.rand(n, 2, generator=generator),
                edge_index=torch.randint(0, n, (2, m), generator=generator),
                edge_attr=torch.randint(0, 9, (m,), generator=generator),
                edge_weight=torch.rand(m, generator=generator),
            )
        )
    return graphs


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3, 4], [4, 2, 2, 0], [1], [3, 4, 1, 1]])
def test_take_equals_pyg(chosen: list[int]) -> None:
    graphs = random_graphs()
    batch = GraphCollection.from_data_list(graphs).take(torch.tensor(chosen))
    expected = Batch.from_data_list([graphs[i] for i in chosen])
    for name in ("x", "edge_index", "edge_attr", "edge_weight", "ptr", "batch"):
        assert torch.equal(batch[name], expected[name]), name
    assert batch.num_nodes == expected.num_nodes


def test_single_graphs_come_back() -> None:
    graphs = random_graphs()
    collection = GraphCollection.from_data_list(graphs).check()
    assert (collection.num_graphs, collection.num_nodes, collection.num_edges) == (5, 15, 8)
    for i, graph in enumerate(graphs):
        same = collection.data(i)
        assert torch.equal(same.edge_index, graph.edge_index)
        assert torch.equal(same.x, graph.x)
        assert torch.equal(same.edge_weight, graph.edge_weight)
        assert same.num_nodes == graph.num_nodes


def test_further_node_attributes_travel_with_the_nodes() -> None:
    collection = GraphCollection.from_data_list(random_graphs())
    batch = collection.with_nodes(pe=torch.arange(15)).take(torch.tensor([3, 0]))
    assert batch.pe.tolist() == [8, 9, 0, 1, 2]
    with pytest.raises(GraphError, match="a row for each of the 15 nodes"):
        collection.with_nodes(pe=torch.arange(14))


def test_the_graph_of_a_single_one_has_no_ptr() -> None:
    one = GraphCollection.from_data_list(random_graphs()[:1])
    assert one.graph.ptr is None
    assert one.graph.edge_weight is not None
    assert GraphCollection.from_data_list(random_graphs()).graph.num_graphs == 5


def test_inconsistent_graphs_are_refused() -> None:
    edge = torch.tensor([[0], [1]])
    with pytest.raises(GraphError, match="graph 1 has no x but graph 0"):
        GraphCollection.from_data_list([Data(x=torch.ones(2, 1), edge_index=edge), Data(edge_index=edge, num_nodes=2)])
    widths = [Data(x=torch.ones(2, width), edge_index=edge) for width in (1, 2)]
    with pytest.raises(GraphError, match="same width"):
        GraphCollection.from_data_list(widths)
    crossing = GraphCollection(edge, ptr=torch.tensor([0, 1, 2]), edge_ptr=torch.tensor([0, 1, 1]))
    with pytest.raises(GraphError, match="joins two graphs"):
        crossing.check()
    misplaced = GraphCollection(torch.zeros(2, 1).long(), ptr=torch.tensor([0, 1, 2]), edge_ptr=torch.tensor([0, 0, 1]))
    with pytest.raises(GraphError, match="edge_ptr does not agree"):
        misplaced.check()
