"""The encoder among the tools people train with: loaders, compilation, mixed precision, export."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader, NeighborLoader, RandomNodeLoader
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE
from torch_geometric.utils import k_hop_subgraph

import rfp
from rfp.nn import RandomFeaturePropagation
from rfp.transforms import AddRandomFeaturePropagationPE

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "neighbor_loader.py"


def ring(n: int) -> Data:
    i = torch.arange(n)
    edges = torch.stack([i, (i + 1) % n])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), x=torch.ones(n, 1), num_nodes=n)


class Encoded(torch.utils.data.Dataset[Data]):
    """Encodes in ``__getitem__``, so in the worker."""

    transform = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Data:
        data: Data = self.transform(ring(5 + index))
        return data


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = RandomFeaturePropagation(3, num_steps=2)
        self.head = nn.Linear(9, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.head(self.encoder(edge_index, num_nodes=x.size(0))[0]) + x


def test_workers_encode_what_the_main_process_encodes() -> None:
    here = torch.cat([Encoded()[i].pe for i in range(6)])  # and the process that is forked has used its kernels
    there = torch.cat([batch.pe for batch in DataLoader(Encoded(), batch_size=2, num_workers=2)])
    assert torch.equal(here, there)


def test_subgraphs_keep_the_encoding_of_the_whole_graph() -> None:
    data = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")(ring(20))
    data.number = torch.arange(20)
    for part in RandomNodeLoader(data, num_parts=4):
        assert torch.equal(part.pe, data.pe[part.number])
        assert not torch.equal(rfp.encode(part, num_channels=3, num_steps=2).flat()[0], part.pe)  # another graph


def neighbourhood(data: Data, seeds: Tensor, num_hops: int) -> tuple[set[int], set[int]]:
    """Nodes and edges that ``NeighborLoader`` yields with all neighbours kept, found by another way: edges into
    nodes that are less than so many hops away."""
    nodes, _, _, edges = k_hop_subgraph(seeds, num_hops, data.edge_index, num_nodes=data.num_nodes)
    inner, _, _, _ = k_hop_subgraph(seeds, num_hops - 1, data.edge_index, num_nodes=data.num_nodes)
    edges = edges & torch.isin(data.edge_index[1], inner)
    return set(nodes.tolist()), set(edges.nonzero()[:, 0].tolist())


def own_sampler(data: Data, num_neighbors: list[int]) -> Any:
    """The sampler of ``examples/neighbor_loader.py``: PyG's own needs pyg-lib or torch-sparse."""
    spec = importlib.util.spec_from_file_location("neighbor_loader", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example.TorchNeighborSampler(data, num_neighbors)


def neighbourhoods(data: Data, num_neighbors: list[int], **options: Any) -> NeighborLoader:
    sampler = own_sampler(data, num_neighbors)
    return NeighborLoader(data, num_neighbors=num_neighbors, neighbor_sampler=sampler, **options)


def test_neighbor_loader_slices_the_encoding_of_the_whole_graph() -> None:
    data = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")(ring(20))
    data.edge_number = torch.arange(data.num_edges)
    seen = []
    for part in neighbourhoods(data, [1, 2], batch_size=5, shuffle=True):
        seen += part.n_id[: part.batch_size].tolist()
        assert torch.equal(part.pe, data.pe[part.n_id])
        # The edges are those of the graph, into nodes that were there one hop before, at most 1 and 2 a node.
        assert torch.equal(part.n_id[part.edge_index], data.edge_index[:, part.e_id])
        assert torch.equal(part.edge_number, part.e_id)
        first, _ = part.num_sampled_edges
        assert part.edge_index[1, :first].bincount(minlength=5).tolist() == [1] * 5
        assert bool((part.edge_index[1, first:] >= part.batch_size).all())
        assert part.edge_index[1].bincount().max() <= 2
    assert sorted(seen) == list(range(20))


def test_neighbor_loader_with_all_neighbours_yields_the_whole_neighbourhood() -> None:
    data = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")(ring(20))
    seeds = torch.tensor([7, 2])
    (part,) = neighbourhoods(data, [-1, -1], batch_size=2, input_nodes=seeds)
    nodes, edges = neighbourhood(data, seeds, num_hops=2)
    assert nodes == {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
    assert part.n_id[:2].tolist() == seeds.tolist()
    assert (len(part.n_id), set(part.n_id.tolist())) == (len(nodes), nodes)
    assert (len(part.e_id), set(part.e_id.tolist())) == (len(edges), edges)
    assert torch.equal(part.pe[: part.batch_size], data.pe[seeds])


def test_the_encoder_on_what_neighbor_loader_yields_encodes_that_graph() -> None:
    transform = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")
    for part in neighbourhoods(ring(20), [2, 2], batch_size=10, transform=transform, num_workers=1):
        expected = rfp.encode((part.edge_index, part.num_nodes), num_channels=3, num_steps=2).flat()[0]
        assert torch.equal(part.pe, expected)
        assert torch.equal(RandomFeaturePropagation(3, num_steps=2).eval()(part)[0], expected)
        Model()(part.x, part.edge_index)[: part.batch_size].sum().backward()


@pytest.mark.skipif(not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="PyG's own sampler needs pyg-lib or torch-sparse")
def test_neighbor_loader_with_its_own_sampler() -> None:  # pragma: no cover - where one of them is installed
    data = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")(ring(20))
    for part in NeighborLoader(data, num_neighbors=[2, 2], batch_size=5):
        assert torch.equal(part.pe, data.pe[part.n_id])


@pytest.mark.skipif(WITH_PYG_LIB or WITH_TORCH_SPARSE, reason="it has what it needs")
@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler'")
def test_neighbor_loader_without_any_sampler_says_what_it_needs() -> None:
    with pytest.raises(ImportError, match="pyg-lib"):  # as the guide says
        next(iter(NeighborLoader(ring(20), num_neighbors=[2, 2], batch_size=5)))


def test_compiled_models_call_the_encoder_as_it_is() -> None:
    torch.manual_seed(0)
    model, data = Model().eval(), ring(8)
    compiled = torch.compile(model, backend="aot_eager")  # all of torch.compile but the code generator
    assert torch.allclose(compiled(data.x, data.edge_index), model(data.x, data.edge_index))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(model, backend="eager", fullgraph=True)(data.x, data.edge_index)
    torch._dynamo.reset()


def test_mixed_precision_reaches_the_layers_but_not_the_encoder() -> None:
    model, data = Model().eval(), ring(8)
    seen = []
    model.encoder.register_forward_hook(lambda module, args, out: seen.append(out))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(data.x, data.edge_index)
        assert model.head(seen[0][0]).dtype == torch.bfloat16
    assert seen[0].dtype == torch.float32
    assert torch.equal(seen[0], rfp.encode(data, num_channels=3, num_steps=2).flat())


def test_export_takes_the_encoding_as_an_input() -> None:
    model, data = Model().eval(), ring(8)
    with pytest.raises(rfp.ArgumentError, match="takes the encoding as an input"):
        torch.export.export(model, (data.x, data.edge_index))
    encoding = model.encoder(data)[0]
    exported = torch.export.export(model.head, (encoding,))
    assert torch.equal(exported.module()(encoding), model.head(encoding))
