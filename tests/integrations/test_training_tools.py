"""The encoder among the tools people train with: loaders, compilation, mixed precision, export."""

from __future__ import annotations

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


def sampled(data: Data, seeds: Tensor, num_hops: int) -> Data:
    """What ``NeighborLoader`` yields with all neighbours kept, which needs a package of its own: the seeds first, then
    the nodes around them, edges towards the seeds, node attributes sliced, and where they come from."""
    around, _, _, _ = k_hop_subgraph(seeds, num_hops - 1, data.edge_index, num_nodes=data.num_nodes)
    subset, _, _, kept = k_hop_subgraph(seeds, num_hops, data.edge_index, num_nodes=data.num_nodes)
    kept = kept & torch.isin(data.edge_index[1], around)
    n_id = torch.cat([seeds, subset[~torch.isin(subset, seeds)]])
    place = torch.full((data.num_nodes,), -1).index_put((n_id,), torch.arange(len(n_id)))
    part = Data(edge_index=place[data.edge_index[:, kept]], num_nodes=len(n_id), n_id=n_id, batch_size=len(seeds))
    part.e_id, part.input_id = kept.nonzero()[:, 0], seeds
    for name in ("x", "pe"):
        if name in data:
            part[name] = data[name][n_id]
    return part


def test_sampled_neighbourhoods_keep_the_encoding_of_the_whole_graph() -> None:
    data = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")(ring(20))
    part = sampled(data, torch.tensor([7, 2]), num_hops=2)
    assert part.n_id[:2].tolist() == [7, 2]
    assert sorted(part.n_id.tolist()) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert torch.equal(part.pe[: part.batch_size], data.pe[[7, 2]])


def test_the_transform_and_the_module_encode_a_sampled_neighbourhood_as_the_graph_it_is() -> None:
    part = sampled(ring(20), torch.tensor([7, 2]), num_hops=2)
    expected = rfp.encode((part.edge_index, part.num_nodes), num_channels=3, num_steps=2).flat()[0]
    added = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")(part.clone())
    assert torch.equal(added.pe, expected)
    assert (added.batch_size, added.n_id.tolist()) == (
        2,
        part.n_id.tolist(),
    )  # left alone
    assert torch.equal(RandomFeaturePropagation(3, num_steps=2).eval()(part)[0], expected)
    out = Model()(part.x, part.edge_index)[: part.batch_size]
    out.sum().backward()
    assert out.shape == (2, 2)


@pytest.mark.skipif(not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="NeighborLoader needs pyg-lib or torch-sparse")
def test_neighbor_loader_slices_the_encoding() -> None:  # pragma: no cover - where one of them is installed
    data = AddRandomFeaturePropagationPE(num_channels=3, num_steps=2, attr_name="pe")(ring(20))
    for part in NeighborLoader(data, num_neighbors=[2, 2], batch_size=5):
        assert torch.equal(part.pe, data.pe[part.n_id])


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
