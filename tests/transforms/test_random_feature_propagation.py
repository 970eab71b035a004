"""AddRandomFeaturePropagationPE: the same encoding by every road, and the conventions of a PyG transform."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch_geometric import transforms
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader

import rfp
from rfp.errors import ArgumentError, GraphError
from rfp.transforms import AddRandomFeaturePropagationPE

NAME = "random_feature_propagation_pe"


def ring(n: int, x: torch.Tensor | None = None) -> Data:
    source = torch.arange(n)
    edge_index = torch.cat([torch.stack([source, (source + 1) % n]), torch.stack([(source + 1) % n, source])], dim=1)
    return Data(x=x, edge_index=edge_index, num_nodes=n)


def star(leaves: int) -> Data:
    leaf = torch.arange(1, leaves + 1)
    hub = torch.zeros_like(leaf)
    return Data(edge_index=torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])]), num_nodes=leaves + 1)


def several() -> list[Data]:
    lonely = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=1)
    return [ring(7), star(3), lonely, ring(12)]


def in_memory(graphs: list[Data], tmp_path: Path, **arguments: object) -> InMemoryDataset:
    class Small(InMemoryDataset):
        def __init__(self) -> None:
            super().__init__(str(tmp_path), **arguments)
            self.load(self.processed_paths[0])

        @property
        def processed_file_names(self) -> list[str]:
            return ["small.pt"]

        def process(self) -> None:
            made = graphs if self.pre_transform is None else [self.pre_transform(g) for g in graphs]
            self.save(made, self.processed_paths[0])

    return Small()


def test_equals_encode_and_leaves_the_input_alone() -> None:
    data = ring(9)
    out = AddRandomFeaturePropagationPE(4, num_steps=3, seed=5)(data)
    expected = rfp.encode(data, num_channels=4, num_steps=3, seed=5, backend="reference").flat()[0]
    assert out[NAME].shape == (9, 16)
    assert torch.allclose(out[NAME], expected, atol=1e-5)
    assert NAME not in data


def test_several_trajectories_are_node_first() -> None:
    data = ring(9)
    out = AddRandomFeaturePropagationPE(4, num_steps=3, num_trajectories=2)(data)[NAME]
    expected = rfp.encode(data, num_channels=4, num_steps=3, num_trajectories=2, backend="reference").flat()
    assert out.shape == (9, 2, 16)
    assert torch.allclose(out.transpose(0, 1), expected, atol=1e-5)


def test_none_concatenates_to_x_and_keeps_its_values() -> None:
    x = torch.randn(6, 3, dtype=torch.float64)
    out = AddRandomFeaturePropagationPE(2, num_steps=1, num_trajectories=2, attr_name=None)(ring(6, x))
    assert out.x.shape == (6, 3 + 2 * 4)
    assert out.x.dtype == torch.float64
    assert torch.equal(out.x[:, :3], x)


def test_none_beside_integer_features_does_not_round_the_encoding() -> None:
    out = AddRandomFeaturePropagationPE(2, num_steps=1, attr_name=None)(ring(6, torch.arange(6)))
    expected = rfp.encode(ring(6), num_channels=2, num_steps=1, backend="reference").flat()[0]
    assert torch.equal(out.x[:, 0], torch.arange(6.0))
    assert torch.allclose(out.x[:, 1:], expected, atol=1e-5)


def test_none_without_x_creates_it() -> None:
    assert AddRandomFeaturePropagationPE(2, num_steps=1, attr_name=None)(ring(6)).x.shape == (6, 4)


def test_list_batch_and_single_agree_and_the_list_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    transform = AddRandomFeaturePropagationPE(4, num_steps=3)
    graphs = several()
    alone = [transform(g)[NAME] for g in graphs]
    calls = []
    original = AddRandomFeaturePropagationPE.encode_nodes

    def counted(self: AddRandomFeaturePropagationPE, graph: rfp.Graph, x: torch.Tensor | None) -> torch.Tensor:
        calls.append(graph.num_graphs)
        return original(self, graph, x)

    monkeypatch.setattr(AddRandomFeaturePropagationPE, "encode_nodes", counted)
    together = transform(graphs)
    assert calls == [4]
    for one, many, source in zip(alone, together, graphs, strict=True):
        assert torch.allclose(one, many[NAME], atol=1e-5)
        assert NAME not in source
    batch = transform(Batch.from_data_list(graphs))
    assert torch.allclose(batch[NAME], torch.cat(alone), atol=1e-5)


def test_a_list_with_weights_on_some_graphs() -> None:
    graphs = several()
    graphs[0].edge_weight = torch.linspace(0.5, 2, graphs[0].num_edges)
    graphs[3].edge_weight = torch.linspace(2, 3, graphs[3].num_edges)[:, None]
    transform = AddRandomFeaturePropagationPE(4, num_steps=3)
    for together, graph in zip(transform(graphs), graphs, strict=True):
        assert torch.allclose(together[NAME], transform(graph)[NAME], atol=1e-5)
    plain = AddRandomFeaturePropagationPE(4, num_steps=3)(several())
    assert not torch.allclose(plain[0][NAME], transform(graphs)[0][NAME], atol=1e-2)


def test_empty_list() -> None:
    assert AddRandomFeaturePropagationPE(4)([]) == []


def test_a_batch_gives_the_attribute_back_graph_by_graph() -> None:
    transform = AddRandomFeaturePropagationPE(4, num_steps=2)
    source = Batch.from_data_list(several())
    batch = transform(source)
    for i, data in enumerate(batch.to_data_list()):
        assert torch.equal(data[NAME], batch[NAME][batch.ptr[i] : batch.ptr[i + 1]])
    assert NAME not in source._slice_dict


def test_data_set_in_one_call(tmp_path: Path) -> None:
    graphs = [ring(5, torch.randn(5, 2)), ring(8, torch.randn(8, 2)), ring(3, torch.randn(3, 2))]
    transform = AddRandomFeaturePropagationPE(4, num_steps=2)
    dataset = in_memory(graphs, tmp_path)
    encoded = transform.apply_to(dataset)
    assert NAME not in dataset[0]
    for i, graph in enumerate(graphs):
        assert torch.allclose(encoded[i][NAME], transform(graph)[NAME], atol=1e-5)
        assert torch.equal(encoded[i].x, graph.x)
    assert torch.allclose(transform.apply_to(dataset[1:])[0][NAME], transform(graphs[1])[NAME], atol=1e-5)
    joined = AddRandomFeaturePropagationPE(4, num_steps=2, attr_name=None).apply_to(dataset)
    assert joined[2].x.shape == (3, 2 + 12)


def test_a_data_set_given_to_the_transform_itself(tmp_path: Path) -> None:
    graphs = [ring(5, torch.randn(5, 2)), ring(8, torch.randn(8, 2))]
    dataset = in_memory(graphs, tmp_path)
    beside = AddRandomFeaturePropagationPE(4, num_steps=2, attr_name=None)
    for data, graph in zip(beside(dataset), graphs, strict=True):
        assert torch.allclose(data.x, beside(graph).x, atol=1e-5)
    assert dataset[1].x.shape == (8, 2)


def test_data_set_without_node_features(tmp_path: Path) -> None:
    transform = AddRandomFeaturePropagationPE(4, num_steps=2)
    encoded = transform.apply_to(in_memory(several(), tmp_path))
    for data, graph in zip(encoded, several(), strict=True):
        assert torch.allclose(data[NAME], transform(graph)[NAME], atol=1e-5)


def test_data_set_of_one_graph(tmp_path: Path) -> None:
    transform = AddRandomFeaturePropagationPE(4, num_steps=2)
    encoded = transform.apply_to(in_memory([ring(7)], tmp_path))
    assert torch.allclose(encoded[0][NAME], transform(ring(7))[NAME], atol=1e-5)


def test_apply_to_refuses_a_list() -> None:
    with pytest.raises(ArgumentError, match="InMemoryDataset, got list"):
        AddRandomFeaturePropagationPE(4).apply_to([ring(3)])


def test_pre_transform_compose_and_loader(tmp_path: Path) -> None:
    transform = transforms.Compose([transforms.ToUndirected(), AddRandomFeaturePropagationPE(4, num_steps=2)])
    dataset = in_memory([ring(5), ring(8)], tmp_path, pre_transform=transform)
    batch = next(iter(DataLoader(dataset, batch_size=2)))
    assert batch[NAME].shape == (13, 12)
    assert torch.allclose(batch[NAME][5:], transform(ring(8))[NAME], atol=1e-5)


def test_subgraph_slices_the_attribute() -> None:
    data = AddRandomFeaturePropagationPE(4, num_steps=2)(ring(30))
    part = data.subgraph(torch.tensor([3, 4, 9]))
    assert torch.equal(part[NAME], data[NAME][[3, 4, 9]])


def test_repr_tells_encodings_apart() -> None:
    text = repr(AddRandomFeaturePropagationPE(4, seed=3, operators=["adjacency"], attr_name=None))
    shown = ("num_channels=4", "num_steps=16", "operators=('adjacency',)", "normalization='qr'", "normalize_every=1")
    shown += ("num_trajectories=1", "distribution='normal'", "seed=3", "dtype=torch.float32", "storage_dtype=None")
    for part in (*shown, "backend='auto'", "strict=False", "cache=None", "attr_name=None"):
        assert part in text
    assert text != repr(AddRandomFeaturePropagationPE(4, seed=4, operators=["adjacency"], attr_name=None))


def test_functional_name_is_registered_once() -> None:
    from torch.utils.data import IterDataPipe
    from torch_geometric.data.datapipes import DatasetAdapter

    pipe = DatasetAdapter([ring(5)])
    assert isinstance(pipe, IterDataPipe)
    out = next(iter(pipe.add_random_feature_propagation_pe(num_channels=2, num_steps=1)))
    assert out[NAME].shape == (5, 4)


def test_cache_folder_is_used(tmp_path: Path) -> None:
    transform = AddRandomFeaturePropagationPE(4, num_steps=2, cache=tmp_path / "cache")
    first, second = transform(ring(9)), transform(ring(9))
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert torch.equal(first[NAME], second[NAME])


def test_half_precision_storage() -> None:
    assert AddRandomFeaturePropagationPE(4, storage_dtype=torch.float16)(ring(5))[NAME].dtype == torch.float16


def test_deepcopy_and_wrong_arguments() -> None:
    assert repr(copy.deepcopy(AddRandomFeaturePropagationPE(4))) == repr(AddRandomFeaturePropagationPE(4))
    with pytest.raises(ArgumentError, match="num_channels must be an integer of at least 1, got 0"):
        AddRandomFeaturePropagationPE(0)
    with pytest.raises(GraphError, match="cannot read a graph from Data"):
        AddRandomFeaturePropagationPE(4)(Data(x=torch.ones(3, 1)))
