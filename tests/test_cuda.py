"""The same code on a GPU: the same draws, the same states. Skipped where there is none."""

from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data

import rfp
import rfp.nn
from rfp.bench.gate import gate
from rfp.bench.generated_graphs import molecule_like, power_law, random_batch
from rfp.graph import Graph
from rfp.nn.multiplied_states import kernels_multiply
from rfp.operator_norms import rounding_norm
from rfp.operators import as_operators, from_name
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


@pytest.mark.parametrize("num_channels", [3, 16, 32, 40, 64])
def test_skewed_graphs_of_every_width(num_channels: int) -> None:
    assert gate(power_law(20_000, 150_000).to("cuda"), num_channels=num_channels, num_steps=6).acceptable


def test_a_skewed_graph_with_two_trajectories_normalised_column_by_column() -> None:
    settings = {"num_channels": 16, "num_steps": 6, "normalization": "l2", "num_trajectories": 2}
    assert gate(power_law(5000, 30_000).to("cuda"), **settings).acceptable


@pytest.mark.parametrize("seed", range(20))
def test_small_graphs_by_the_kernels_of_large_ones(seed: int) -> None:
    some = random_batch(1 + seed % 8, 200, seed)
    alone = Graph(some.edge_index, some.num_nodes).to("cuda")
    operators = ("normalized_adjacency", "adjacency")
    assert gate(alone, num_channels=16, num_steps=6, operators=operators, backend="cuda_sparse").acceptable


@pytest.mark.parametrize(("seed", "largest", "num_channels"), [(1, 40, 16), (2, 128, 16), (3, 40, 5)])
def test_thousands_of_graphs_with_four_operators(seed: int, largest: int, num_channels: int) -> None:
    operators = (*OPERATORS_OF_ZINC, "adjacency", "random_walk")
    assert gate(
        random_batch(2000, largest, seed).to("cuda"), num_channels=num_channels, num_steps=6, operators=operators
    ).acceptable


@pytest.mark.parametrize(
    "settings",
    [
        {"num_channels": 40, "num_steps": 4},
        {"num_channels": 16, "num_steps": 6, "normalization": "l2", "num_trajectories": 2},
    ],
)
def test_graphs_of_up_to_150_nodes(settings: dict[str, object]) -> None:
    assert gate(random_batch(500, 150, 4).to("cuda"), **settings, operators=OPERATORS_OF_ZINC).acceptable


def test_auto_chooses_the_kernels() -> None:
    small = rfp.encode(molecule_like(20).to("cuda"))
    assert small.report.backend == "fused"
    large = rfp.encode(power_law(5000, 40_000).to("cuda"))
    assert large.report.backend == "cuda_sparse"


def test_module_on_the_gpu_equals_the_cpu_in_evaluation() -> None:
    graph = molecule_like(50)
    module = rfp.nn.RandomFeaturePropagation(num_channels=8, num_steps=4, num_trajectories=2).eval()
    torch.testing.assert_close(module(graph.to("cuda")).cpu(), module(graph), atol=2e-4, rtol=2e-4)


def loaded_batch(num_graphs: int) -> Batch:
    """Molecules as PyG's loader puts them together."""
    graph = molecule_like(num_graphs)
    edges = graph.batch[graph.edge_index[0]]
    data = [
        Data(edge_index=graph.edge_index[:, edges == i] - start, x=torch.ones(stop - start, 1))
        for i, (start, stop) in enumerate(pairwise(graph.offsets.tolist()))
    ]
    return Batch.from_data_list(data)


ENCODERS = {
    "linear": {"num_channels": 16, "operators": ["normalized_adjacency", "normalized_laplacian"]},
    "products": {
        "num_channels": 64,
        "operators": ["normalized_adjacency", "normalized_laplacian", "random_walk"],
        "normalization": "l2",
    },
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_new_batch_is_encoded_without_waiting(name: str) -> None:
    layer = rfp.nn.RandomFeaturePropagation(num_steps=4, **ENCODERS[name])  # type: ignore[arg-type]
    batch = loaded_batch(50)
    there = batch.clone().to("cuda")
    layer(there)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = layer(there)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    twin = rfp.nn.RandomFeaturePropagation(num_steps=4, **ENCODERS[name])  # type: ignore[arg-type]
    twin(batch)
    torch.testing.assert_close(found.cpu(), twin(batch), atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_new_batch_is_encoded_in_a_cuda_graph(name: str) -> None:
    layer = rfp.nn.RandomFeaturePropagation(num_steps=4, **ENCODERS[name])  # type: ignore[arg-type]
    first, second = (loaded_batch(50).to("cuda") for _ in range(2))
    second.edge_index = second.edge_index.flip(1)  # the same graphs, their edges in another order
    layer(first)  # compiles
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        out = layer(first)
    recorded.replay()
    expected = out.clone()
    first.edge_index.copy_(second.edge_index)
    recorded.replay()
    torch.testing.assert_close(out, expected, atol=2e-5, rtol=2e-5)


PRODUCTS = {
    "gram": {"num_channels": 64, "operators": [*OPERATORS_OF_ZINC, "random_walk"], "normalization": "l2"},
    "weighted": {"num_channels": 32, "operators": OPERATORS_OF_ZINC, "normalize_every": 8, "start": "orthonormal"},
}


@pytest.mark.parametrize("trajectories", [1, 3])
@pytest.mark.parametrize("of_pairs", [False, True])
@pytest.mark.parametrize("form", PRODUCTS)
def test_products_by_kernels_are_the_plain_ones(form: str, of_pairs: bool, trajectories: int) -> None:
    """At ZINC's size against float64; twice to the same bits; without waiting; replayed on another trajectory.

    Errors are held against the sums of absolute values, of which float32 may lose some 1e-7 and TF32 loses 1e-5.
    """
    graph = molecule_like(128).to("cuda")
    settings = {"num_steps": 16, "num_trajectories": trajectories, **PRODUCTS[form]}
    draws = [rfp.encode(graph, seed=seed, **settings).flat() for seed in range(2)]  # type: ignore[arg-type]
    torch.manual_seed(0)
    channels = int(settings["num_channels"])  # type: ignore[call-overload]
    states = draws[0].size(-1) // channels
    module = rfp.nn.TrajectoryProducts(channels, states, 8, channel_weights=form == "weighted").to("cuda")
    if module.alpha is not None:
        torch.nn.init.uniform_(module.alpha, -1, 1)
    rows = graph.num_edges if of_pairs else graph.num_nodes
    assert kernels_multiply(draws[0].view(*draws[0].shape[:-1], states, channels), 64, weighted=form == "weighted")

    def results(module: rfp.nn.TrajectoryProducts, t: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        y = module.pair_products(t, graph.edge_index) if of_pairs else module.node_products(t)
        learned = [p for p in (module.first, module.second, module.alpha) if p is not None]
        return [y.detach(), *torch.autograd.grad((y * weight).sum(), learned)]

    given = torch.randn(trajectories, rows, 64, device="cuda")
    results(module, draws[0], given)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        once, twice = (results(module, draws[0], given) for _ in range(2))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(torch.equal(one, other) for one, other in zip(once, twice, strict=True))
    t = draws[0].clone()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        replayed = results(module, t, given)
    t.copy_(draws[1])
    recorded.replay()
    exact = deepcopy(module).double()
    absolute = deepcopy(exact)
    with torch.no_grad():
        for parameter in absolute.parameters():
            parameter.abs_()
    for found, draw in ((once, draws[0].double()), (replayed, draws[1].double())):
        right, sizes = results(exact, draw, given.double()), results(absolute, draw.abs(), given.double().abs())
        for one, other, size in zip(found, right, sizes, strict=True):
            assert float((one - other).norm()) <= 1e-6 * float(size.norm())


def test_operators_by_kernels_are_those_of_their_rules() -> None:
    awkward = (rfp.as_graph(graph) for graph in awkward_graphs().values())
    for graph in (random_batch(60, 60, 0), power_law(60_000, 300_000), *awkward):
        there = Graph.unchecked(graph.edge_index.cuda(), graph.num_nodes, _cuda(graph.edge_weight), _cuda(graph.ptr))
        names = ["adjacency", "normalized_adjacency", "normalized_laplacian", "random_walk"]
        features = rfp.random_features(graph, num_channels=3, dtype=torch.float64)[0]
        for name, made in zip(names, as_operators(names, there, torch.float64), strict=True):
            torch.testing.assert_close((made @ features.cuda()).cpu(), from_name(name, graph, torch.float64) @ features)
        assert torch.equal(there.keys.cpu(), graph.keys)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("largest", [30, 60, 128])
def test_operators_of_a_small_batch_are_those_of_their_rules(largest: int, weighted: bool) -> None:
    """In one launch: rows, norms and keys too, whatever the order of the edges."""
    batch = random_batch(60, largest, largest)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(batch.num_edges, generator=generator)
    weight = torch.randint(-2, 3, (batch.num_edges,), generator=generator).double() if weighted else None
    graph = Graph(batch.edge_index[:, order], batch.num_nodes, weight, batch.ptr)
    sizes = (int(graph.sizes.min()), int(graph.sizes.max()))
    ptr = _cuda(graph.ptr)
    there = Graph.unchecked(graph.edge_index.cuda(), graph.num_nodes, _cuda(weight), ptr, known_sizes=sizes)
    assert there.is_small_batch
    names = ["adjacency", "normalized_adjacency", "normalized_laplacian", "random_walk"]
    features = rfp.random_features(graph, num_channels=3, dtype=torch.float64)[0]
    for name, made in zip(names, as_operators(names, there, torch.float64), strict=True):
        plain = from_name(name, graph, torch.float64)
        torch.testing.assert_close((made @ features.cuda()).cpu(), plain @ features)
        found, norm = rounding_norm(made, there.offsets), rounding_norm(plain, graph.offsets)
        assert found is not None
        assert norm is not None
        torch.testing.assert_close(found.cpu(), norm)
    assert torch.equal(there.keys.cpu(), graph.keys)


def test_the_norm_of_a_large_graph_counts_its_long_rows() -> None:
    graph = power_law(3000, 20_000)
    there = graph.to("cuda")
    for name in ("normalized_adjacency", "adjacency"):
        (made,) = as_operators([name], there)
        found, norm = rounding_norm(made, there.offsets), rounding_norm(from_name(name, graph), graph.offsets)
        assert found is not None
        assert norm is not None
        torch.testing.assert_close(found.cpu(), norm, rtol=1e-6, atol=0)


def _cuda(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.cuda()


class CutError(Exception):
    """In the middle of a training."""


def cut_after_two_epochs(epoch: int, score: float) -> None:
    if epoch == 1:
        raise CutError


@pytest.mark.parametrize("kind", ["gin", "gps", "link"])  # steps that are recorded, those of neither of the others
def test_a_cut_training_goes_on(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its optimizer, read from the file on the CPU, is on the device again, with all steps that it made."""
    pytest.importorskip("lightning")
    from rfp.data import load
    from rfp.train import checkpoints
    from rfp.train.lightning_run import fit
    from tests.train import test_lightning_run as graphs
    from tests.train import test_link_run as links

    monkeypatch.setattr(checkpoints, "SAVE_EVERY_SECONDS", 0.0)
    settings = links.config(training={"epochs": 4}) if kind == "link" else graphs.config({"backbone": kind})
    loaded = load(settings.data) if kind == "link" else graphs.rings_and_paths()
    arguments = {"seed": 0, "split": 0, "device": torch.device("cuda")}
    whole = fit(settings, loaded, folder=tmp_path / "whole", **arguments)
    with pytest.raises(CutError):
        fit(settings, loaded, folder=tmp_path / "cut", report=cut_after_two_epochs, **arguments)
    said: list[str] = []
    again = fit(settings, loaded, folder=tmp_path / "cut", say=said.append, **arguments)
    assert said[0].startswith("continuing from epoch 2")
    assert again.epochs == whole.epochs == 4
    first, second = (
        checkpoints.read_checkpoint(tmp_path / name / checkpoints.LAST)["optimizer"]["state"]
        for name in ("whole", "cut")
    )
    assert first.keys() == second.keys() != {}
    for number, state in second.items():
        assert int(state["step"]) == int(first[number]["step"]) > 4
        assert float(state["exp_avg_sq"].sum()) > 0 or not float(first[number]["exp_avg_sq"].sum())
