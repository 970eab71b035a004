"""The same code on a GPU: the same draws, the same states. Skipped where there is none."""

import pytest
import torch

import rfp
import rfp.nn
from rfp.bench.gate import gate
from rfp.bench.graphs import molecule_like, power_law, random_batch
from tests.conftest import awkward_graphs
from tests.contracts.backends import OPERATORS, awkward_batch, check_backend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("distribution", ["rademacher", "uniform", "normal"])
def test_draws_are_those_of_the_cpu(distribution: str) -> None:
    graph = molecule_like(200)
    arguments = {"num_channels": 7, "num_trajectories": 3, "distribution": distribution, "seed": 5}
    here = rfp.random_features(graph, **arguments)
    there = rfp.random_features(graph.to("cuda"), **arguments).cpu()
    if distribution == "normal":
        torch.testing.assert_close(there, here, atol=2e-6, rtol=2e-6)
    else:
        assert torch.equal(there, here)


@pytest.mark.parametrize("backend", ["reference", "sparse", "fused"])
@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_awkward_graphs(backend: str, normalization: str, operator: str) -> None:
    check_backend(
        backend,
        awkward_batch(list(awkward_graphs().values())),
        device="cuda",
        num_channels=6,
        num_steps=5,
        num_trajectories=2,
        operators=[operator],
        normalization=normalization,
    )


OPERATORS_OF_ZINC = ["normalized_adjacency", "normalized_laplacian"]


def test_molecules_in_float64() -> None:
    settings = {"num_channels": 16, "num_steps": 16, "operators": OPERATORS_OF_ZINC, "dtype": torch.float64}
    check_backend("sparse", molecule_like(500), device="cuda", **settings)


@pytest.mark.parametrize("num_channels", [16, 40])
def test_molecules_in_the_fused_kernel(num_channels: int) -> None:
    # Over 16 steps rounding grows, and in one of some thousands decides whether a column is dependent. So each state is
    # held against the one before it, with a margin for the rounding of one product.
    settings = {"num_channels": num_channels, "num_steps": 16, "operators": OPERATORS_OF_ZINC, "backend": "fused"}
    errors = gate(molecule_like(500).to("cuda"), **settings)
    assert errors.orthogonality < 1e-6


@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
def test_graphs_of_every_size_and_density(normalization: str) -> None:
    graph = random_batch(600, 150, seed=7).to("cuda")  # the largest take the sparse path
    settings = {"num_channels": 16, "num_steps": 5, "operators": list(OPERATORS), "normalization": normalization}
    assert gate(graph, **settings, backend="fused").acceptable


@pytest.mark.parametrize("backend", ["sparse", "cuda_sparse"])
def test_one_large_graph(backend: str) -> None:
    check_backend(backend, power_law(5000, 40_000), device="cuda", num_channels=32, num_steps=8)


def test_wide_states_in_split_float32_are_orthonormal() -> None:
    errors = gate(power_law(20_000, 150_000).to("cuda"), num_channels=64, num_steps=8, backend="cuda_sparse")
    assert errors.orthogonality < 5e-6


def test_auto_chooses_the_kernels() -> None:
    small = rfp.encode(molecule_like(20).to("cuda"))
    assert small.report.backend == "fused"
    large = rfp.encode(power_law(5000, 40_000).to("cuda"))
    assert large.report.backend == "cuda_sparse"


def test_module_on_the_gpu_equals_the_cpu_in_evaluation() -> None:
    graph = molecule_like(50)
    module = rfp.nn.RandomFeaturePropagation(num_channels=8, num_steps=4, num_trajectories=2).eval()
    torch.testing.assert_close(module(graph.to("cuda")).cpu(), module(graph), atol=2e-4, rtol=2e-4)
