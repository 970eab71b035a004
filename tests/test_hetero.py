"""HeteroData: each relation against a dense twin, widths, batches, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric import transforms
from torch_geometric.data import Batch, HeteroData

import rfp
from rfp import hetero
from rfp.hetero import encode_hetero, hetero_widths
from rfp.operator_norms import rounding_norm

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
WRITTEN_BY = ("paper", "rev_writes", "author")


def bibliography(seed: int = 0, authors: int = 7, papers: int = 11) -> HeteroData:
    """Authors, papers, and venues that nobody has a relation with."""
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["author"].num_nodes, data["paper"].x, data["venue"].num_nodes = authors, torch.ones(papers, 2), 3
    writes = torch.stack(
        [torch.arange(3 * authors) % authors, torch.randint(papers, (3 * authors,), generator=generator)]
    )
    data[WRITES].edge_index = torch.unique(writes, dim=1)
    data[CITES].edge_index = torch.randint(papers, (2, 25), generator=generator)
    data[CITES].edge_weight = torch.rand(25, generator=generator)
    return data


def settings(**arguments: Any) -> rfp.Settings:
    return rfp.Settings(**{"num_channels": 3, "num_steps": 4, **arguments})


def test_edge_types_are_graphs_of_their_own() -> None:
    data = bibliography()
    found = encode_hetero(data, settings())
    assert {t: tuple(x.shape) for t, x in found.items()} == {"author": (7, 15), "paper": (11, 30)}
    source, target = data[WRITES].edge_index
    both = torch.cat([torch.stack([source, target + 7]), torch.stack([target + 7, source])], dim=1)
    between = rfp.encode((both, 18), settings()).flat()[0]
    within = rfp.encode(rfp.Graph(data[CITES].edge_index, 11, data[CITES].edge_weight), settings()).flat()[0]
    assert torch.allclose(found["author"], between[:7], atol=1e-6)
    assert torch.allclose(found["paper"], torch.cat([between[7:], within], dim=1), atol=1e-6)
    assert hetero_widths(data, settings()) == {"author": 15, "paper": 30}


def test_an_edge_type_that_is_another_reversed_is_not_counted_twice() -> None:
    data = bibliography()
    reversed_too = transforms.ToUndirected(merge=False)(bibliography())
    assert len(reversed_too.edge_types) == 4
    found, again = encode_hetero(data, settings()), encode_hetero(reversed_too, settings())
    assert torch.equal(found["author"], again["author"])
    assert again["paper"].size(1) == 45  # rev_cites is a relation of its own: within a type direction counts


def test_homogeneous_is_the_graph_of_all_nodes() -> None:
    data = bibliography()
    found = encode_hetero(data, settings(operators=["both_directions"]), relations="homogeneous")
    plain = data.to_homogeneous(node_attrs=[], edge_attrs=[])
    weight = torch.ones(plain.num_edges)
    weight[plain.edge_type == 1] = data[CITES].edge_weight
    whole = rfp.encode(rfp.Graph(plain.edge_index, 21, weight), settings(operators=["both_directions"])).flat()[0]
    assert {t: tuple(x.shape) for t, x in found.items()} == {"author": (7, 30), "paper": (11, 30), "venue": (3, 30)}
    assert torch.allclose(torch.cat([found["author"], found["paper"], found["venue"]]), whole, atol=1e-6)


@pytest.mark.parametrize("name", ["adjacency", "normalized_adjacency", "normalized_laplacian", "random_walk"])
def test_metapaths_are_products_of_their_parts(name: str) -> None:
    data = transforms.ToUndirected(merge=False)(bibliography())
    arguments = settings(operators=[name], normalization="l2", dtype=torch.float64)
    found = encode_hetero(data, arguments, relations=[[WRITES, WRITTEN_BY]])
    assert list(found) == ["author"]
    A = np.zeros((7, 11))
    np.add.at(A, tuple(data[WRITES].edge_index.numpy()), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        hat = np.nan_to_num(A / np.sqrt(np.outer(A.sum(1), A.sum(0))))
        S = {
            "adjacency": A @ A.T,
            "normalized_adjacency": hat @ hat.T,
            "normalized_laplacian": np.eye(7) - hat @ hat.T,
            "random_walk": (A / A.sum(1, keepdims=True)) @ np.nan_to_num(A.T / A.T.sum(1, keepdims=True)),
        }[name]
    a = found["author"][:, :3].numpy()
    for p in range(1, 5):
        a = S @ a
        a = a / np.linalg.norm(a, axis=0)
        assert np.allclose(found["author"][:, 3 * p : 3 * p + 3].numpy(), a, atol=1e-10)


def test_relations_stand_side_by_side_in_the_order_given() -> None:
    data = transforms.ToUndirected(merge=False)(bibliography())
    path = [WRITES, WRITTEN_BY]
    both = encode_hetero(data, settings(), relations=[path, WRITES])
    alone = [encode_hetero(data, settings(), relations=[one])["author"] for one in (path, WRITES)]
    assert torch.equal(both["author"], torch.cat(alone, dim=1))
    several = encode_hetero(data, settings(num_trajectories=2), relations=[path, WRITES])
    assert several["author"].shape == (7, 2, 30)
    assert several["paper"].shape == (11, 2, 15)


@pytest.mark.parametrize("relations", ["edge_types", "homogeneous", [[WRITES, WRITTEN_BY]]])
def test_graphs_of_a_batch_are_encoded_as_alone(relations: Any) -> None:
    graphs = [transforms.ToUndirected(merge=False)(bibliography(s, 5 + s, 9 - s)) for s in range(3)]
    batch = Batch.from_data_list(graphs)
    together = encode_hetero(batch, settings(), relations=relations)
    alone = [encode_hetero(graph, settings(), relations=relations) for graph in graphs]
    for node_type, rows in together.items():
        assert torch.allclose(rows, torch.cat([one[node_type] for one in alone]), atol=2e-5)


def test_a_batch_without_ptr_and_number_of_graphs_is_a_batch() -> None:
    # As a loader hands out what it has sampled apart from each other.
    batch, data = Batch.from_data_list([bibliography(s, 5 + s, 9 - s) for s in range(3)]), HeteroData()
    for node_type in batch.node_types:
        data[node_type].num_nodes, data[node_type].batch = batch[node_type].num_nodes, batch[node_type].batch
    for edge_type in batch.edge_types:
        data[edge_type].update(batch[edge_type])
    for relations in ("edge_types", "homogeneous"):
        expected = encode_hetero(batch, settings(), relations=relations)
        for node_type, rows in encode_hetero(data, settings(), relations=relations).items():
            assert torch.equal(rows, expected[node_type])
    with pytest.raises(rfp.GraphError, match="graph by graph, with ptr"):
        encode_hetero(data, settings(), relations=[[CITES]])


def test_what_is_no_relation_is_refused() -> None:
    data = bibliography()
    for relations, message in [
        ([("author", "reads", "paper")], "there is no edge type"),
        ([[WRITES, WRITES]], "must start at 'paper'"),
        ([[WRITES]], "must end where it starts"),
        ("papers", "a relation is an edge type"),
        ([], "at least one relation"),
    ]:
        with pytest.raises(rfp.ArgumentError, match=message):
            encode_hetero(data, settings(), relations=relations)
    with pytest.raises(rfp.ArgumentError, match="without suffixes"):
        encode_hetero(data, settings(operators=["adjacency.T"]), relations=[[CITES]])
    with pytest.raises(rfp.GraphError, match="HeteroData"):
        encode_hetero(torch.zeros(2, 3), settings())
    with pytest.raises(rfp.GraphError, match="no edge types"):
        encode_hetero(HeteroData(), settings())
    with pytest.raises(rfp.GraphError, match="encode_hetero"):
        rfp.encode(data)
    data[WRITES].edge_index = torch.tensor([[0], [11]])
    with pytest.raises(rfp.GraphError, match="beyond"):
        encode_hetero(data, settings())


def complete_bipartite(authors: int, papers: int) -> HeteroData:
    """Every author wrote every paper."""
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = authors, papers
    pairs = torch.cartesian_prod(torch.arange(authors), torch.arange(papers)).T
    data[WRITES].edge_index, data[WRITTEN_BY].edge_index = pairs, pairs.flip(0)
    return data


def test_rounding_along_a_metapath_is_that_of_each_product() -> None:
    """By hand: normalised parts have norm 1, all rows of one a are 640 = 10 * 64 long, of the other 2."""
    data = complete_bipartite(2, 640)
    operator = hetero._metapath_operator(data, (WRITES, WRITTEN_BY), "normalized_adjacency", 2, torch.float64)
    ptr = torch.tensor([0, 2])
    assert rounding_norm(operator, ptr).tolist() == pytest.approx([10 + 1])
    laplacian = hetero._metapath_operator(data, (WRITES, WRITTEN_BY), "normalized_laplacian", 2, torch.float64)
    assert rounding_norm(laplacian, ptr).tolist() == pytest.approx([10 + 1 + 1])
    walk = hetero._metapath_operator(data, (WRITES, WRITTEN_BY), "adjacency", 2, torch.float64)
    assert rounding_norm(walk, ptr).tolist() == pytest.approx([1280 * (10 + 1)])  # each part has norm sqrt(1280)
    both = Batch.from_data_list([data, complete_bipartite(2, 3)])
    operator = hetero._metapath_operator(both, (WRITES, WRITTEN_BY), "normalized_adjacency", 4, torch.float64)
    assert rounding_norm(operator, torch.tensor([0, 2, 4])).tolist() == pytest.approx([11, 2])


@pytest.mark.parametrize("normalization", ["l2", "qr"])
@pytest.mark.parametrize("papers", [600, 1500, 3000])
def test_a_product_along_a_metapath_that_is_zero_on_paper_is_zero(papers: int, normalization: str) -> None:
    """The Laplacian of an author who wrote everything alone, 1 - 1: a sum of so many equal terms is off by more."""
    options = settings(operators=["normalized_laplacian"], normalization=normalization, dtype=torch.float32)
    found = encode_hetero(complete_bipartite(1, papers), options, relations=[[WRITES, WRITTEN_BY]])["author"]
    assert found[0, :3].ne(0).all()
    assert found[0, 3:].eq(0).all()
