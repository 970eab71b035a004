"""Every baseline transform: equal to its function, the same alone, in a list and in a batch; full repr; right width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch.utils.data import IterDataPipe
from torch_geometric.data import Batch, Data
from torch_geometric.data.datapipes import DatasetAdapter
from torch_geometric.utils import from_networkx

from rfp import baselines, transforms
from rfp.errors import ArgumentError
from rfp.transforms import BASELINES, NodeEncodingTransform

# name -> (arguments, the function's answer on one graph)
CASES: dict[str, tuple[dict[str, Any], Callable[[Data], Tensor]]] = {
    "rnf": ({"num_channels": 3, "seed": 4}, lambda d: baselines.rnf(d, num_channels=3, seed=4)[0]),
    "eigenvectors": ({"num_eigenvectors": 6}, lambda d: baselines.eigenvectors(d, num_eigenvectors=6)),
    "random_walk": ({"walk_length": 5}, lambda d: baselines.random_walk_pe(d, walk_length=5)),
    "estimated_random_walk": ({"walk_length": 5}, lambda d: baselines.random_walk_pe(d, walk_length=5)),
    "nfp": ({"num_steps": 2}, lambda d: baselines.nfp(d, num_steps=2)),
    "sign": ({"num_steps": 2}, lambda d: baselines.sign(d, num_steps=2)),
    "sgc": ({"num_steps": 2}, lambda d: baselines.sgc(d, num_steps=2)),
    "power_embed": ({"num_steps": 2}, lambda d: baselines.power_embed(d, num_steps=2)),
    "substructures": (
        {"cycles": (3, 4), "cliques": (4,)},
        lambda d: baselines.substructure_counts(d, cycles=[3, 4], cliques=[4]),
    ),
}


def graphs() -> list[Data]:
    torch.manual_seed(0)
    made = [from_networkx(g) for g in (nx.wheel_graph(6), nx.random_labeled_tree(9, seed=1), nx.complete_graph(5))]
    for data in made:
        data.x = torch.randn(data.num_nodes, 2)
    return made


def test_every_name_has_a_case() -> None:
    assert set(CASES) == set(BASELINES)


@pytest.mark.parametrize("name", CASES)
def test_alone_list_and_batch(name: str) -> None:
    arguments, function = CASES[name]
    transform = BASELINES[name](**arguments)
    expected = [function(data) for data in graphs()]
    attribute = str(transform.attr_name)
    listed = transform(graphs())
    batch = transform(Batch.from_data_list(graphs()))
    for g, (data, answer) in enumerate(zip(graphs(), expected, strict=True)):
        assert torch.allclose(transform(data)[attribute], answer, atol=1e-5)
        assert torch.allclose(listed[g][attribute], answer, atol=1e-4)
        assert torch.allclose(batch[g][attribute], answer, atol=1e-4)
        assert answer.shape[1] == transform.width(2)


@pytest.mark.parametrize("name", CASES)
def test_concatenation_and_repr(name: str) -> None:
    arguments, function = CASES[name]
    joined = BASELINES[name](**arguments, attr_name=None)
    data = graphs()[0]
    assert torch.allclose(joined(data).x, torch.cat([data.x, function(data)], dim=1), atol=1e-5)
    text = repr(joined)
    for key, value in {**arguments, "attr_name": None}.items():
        assert f"{key}={value!r}" in text
    assert text.startswith(type(joined).__name__)


def test_functional_names() -> None:
    pipe = DatasetAdapter(graphs())
    assert isinstance(pipe, IterDataPipe)
    assert next(iter(pipe.add_random_walk_return_pe(walk_length=3))).random_walk_return_pe.shape == (6, 3)
    assert next(iter(pipe.add_eigenvector_pe(num_eigenvectors=3))).eigenvector_pe.shape == (6, 3)


def test_several_trajectories_of_rnf_are_node_first() -> None:
    data = graphs()[0]
    out = transforms.AddRandomNodeFeatures(num_channels=3, num_trajectories=4)(data).random_node_features
    assert torch.equal(out.transpose(0, 1), baselines.rnf(data, num_channels=3, num_trajectories=4))


@pytest.mark.parametrize("name", ["nfp", "sign", "sgc", "power_embed"])
def test_missing_node_features(name: str) -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    for given in (data, [data, data]):
        with pytest.raises(ArgumentError, match="the graph has no x"):
            BASELINES[name]()(given)


def test_all_eigenvectors_have_no_fixed_width() -> None:
    with pytest.raises(ArgumentError, match="num_eigenvectors=None"):
        transforms.AddEigenvectorPE(num_eigenvectors=None).width(0)


def test_base_class_cannot_be_used_alone() -> None:
    with pytest.raises(TypeError, match="abstract"):
        NodeEncodingTransform()  # type: ignore[abstract]
