"""The streamed file equals the encoding in memory, bit for bit."""

import io
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.conversion import as_graph
from rfp.encode import encode
from rfp.errors import NumericalError
from rfp.graph import Graph
from rfp.settings import Settings
from rfp.streaming import graph_blocks, stream


def streamed(settings: Settings, graph: Graph, **arguments: object) -> np.ndarray:
    file = io.BytesIO()
    stream(graph, file, settings, **arguments)  # type: ignore[arg-type]
    return np.load(io.BytesIO(file.getvalue()))


def in_memory(settings: Settings, graph: Graph) -> np.ndarray:
    return encode(graph, settings).node_first().numpy()


@pytest.mark.parametrize("backend", ["reference", "sparse", "auto"])
def test_equals_memory_on_awkward_graphs(awkward: nx.Graph, backend: str) -> None:
    settings = Settings(
        num_channels=3,
        num_steps=4,
        num_trajectories=2,
        operators=("normalized_adjacency", "random_walk"),
        backend=backend,
    )
    assert np.array_equal(streamed(settings, as_graph(awkward)), in_memory(settings, as_graph(awkward)))


@pytest.mark.parametrize("backend", ["reference", "sparse", "auto"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"num_channels": 4, "num_steps": 0},
        {"num_channels": 40, "num_steps": 2, "normalization": "l2", "normalize_every": 2, "dtype": torch.float64},
        {"num_channels": 2, "num_steps": 3, "storage_dtype": torch.float16, "normalization": "none"},
        {"num_channels": 2, "num_steps": 3, "distribution": "rademacher", "seed": 4, "num_trajectories": 3},
    ],
)
def test_equals_memory_for_every_argument(arguments: dict[str, Any], backend: str) -> None:
    graph = as_graph(nx.karate_club_graph())
    settings = Settings(**arguments, backend=backend)
    result, expected = streamed(settings, graph), in_memory(settings, graph)
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_batches(directed: Graph, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.streaming._BLOCK_BYTES", 1000)  # several blocks of graphs
    rings = [as_graph(nx.cycle_graph(n)) for n in (3, 1, 8, 5)]
    graph = as_graph([*rings, directed, rings[2]])
    settings = Settings(num_channels=3, num_steps=4, num_trajectories=2, backend=backend)
    assert np.array_equal(streamed(settings, graph), in_memory(settings, graph))


def test_steps_are_contiguous_in_the_file_and_can_be_mapped(tmp_path: Path) -> None:
    graph = as_graph(nx.path_graph(6))
    with open(tmp_path / "a.npy", "wb") as file:
        stream(graph, file, Settings(num_channels=2, num_steps=3, backend="reference"))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert mapped.shape == (6, 8)
    assert mapped.flags.f_contiguous
    assert mapped[:, 2:4].flags.f_contiguous  # step 1


def test_only_one_step_is_held() -> None:
    graph = as_graph(nx.path_graph(1000))
    sizes: list[int] = []

    class Sink(io.RawIOBase):
        def write(self, data: object) -> int:
            sizes.append(memoryview(data).nbytes)  # type: ignore[arg-type]
            return sizes[-1]

    settings = Settings(num_channels=4, num_steps=20, backend="reference")
    stream(graph, Sink(), settings)  # type: ignore[arg-type]
    assert sizes[1:] == [1000 * 4 * 4] * 21


def test_progress_adds_up() -> None:
    operators = ("adjacency", "random_walk")
    for backend in ("reference", "auto"):
        calls: list[int] = []
        settings = Settings(num_channels=2, num_steps=5, operators=operators, backend=backend)
        streamed(settings, as_graph([nx.path_graph(4)] * 3), progress=calls.append)
        assert sum(calls) == 10


def test_report_counts_and_strict_raises() -> None:
    star = as_graph(nx.star_graph(9))
    settings = Settings(num_channels=4, num_steps=3, operators=("adjacency",), backend="reference")
    report = stream(star, io.BytesIO(), settings)
    assert report.backend == "reference"
    assert (
        report.dependent_columns
        == rfp.encode(
            star, num_channels=4, num_steps=3, operators=["adjacency"], backend="reference"
        ).report.dependent_columns
    )
    assert report.dependent_columns > 0
    with pytest.raises(NumericalError, match="dependent"):
        stream(star, io.BytesIO(), settings, strict=True)


def test_blocks_keep_graphs_whole() -> None:
    parts = [as_graph(nx.path_graph(n)) for n in (4, 4, 9, 1)]
    edges = as_graph(parts)
    order = torch.randperm(edges.num_edges, generator=torch.Generator().manual_seed(0))
    shuffled = Graph(edges.edge_index[:, order], edges.num_nodes, torch.rand(edges.num_edges)[order], edges.ptr)
    blocks = list(graph_blocks(shuffled, 8))
    assert [block.sizes.tolist() for block, _ in blocks] == [[4, 4], [9], [1]]
    assert [done for _, done in blocks] == [8, 17, 18]
    whole = shuffled.to_scipy().toarray()
    assert np.array_equal(blocks[1][0].to_scipy().toarray(), whole[8:17, 8:17])
    assert sum(block.num_edges for block, _ in blocks) == edges.num_edges


def test_graphs_that_have_the_draw_of_others_keep_it() -> None:
    named = rfp.encode(nx.path_graph(4), num_channels=2, num_steps=1, graph_keys=torch.tensor([7]))
    together = rfp.encode([nx.cycle_graph(5), named.graph], num_channels=2, num_steps=1)
    assert torch.equal(together.storage[5:], named.storage)
    weighted = rfp.encode(named.graph, weight=torch.full((6,), 2.0), num_channels=2, num_steps=1)
    assert torch.equal(weighted.storage[:, :, :, 0], named.storage[:, :, :, 0])
    for trajectory in (named, together):
        stream(trajectory.graph, file := io.BytesIO(), num_channels=2, num_steps=1)
        assert np.array_equal(np.load(io.BytesIO(file.getvalue())), trajectory.node_first())


def test_a_block_is_full_to_the_node() -> None:
    graph = as_graph([nx.path_graph(n) for n in (3, 4, 2, 9, 1)])
    assert [done for _, done in graph_blocks(graph, 7)] == [7, 9, 18, 19]
    assert [done for _, done in graph_blocks(graph, 6)] == [3, 9, 18, 19]


def test_the_report_of_graph_after_graph_counts_what_happened_in_all() -> None:
    graph = as_graph([nx.star_graph(5) for _ in range(3)])  # A of a star has rank two
    settings = {"num_channels": 4, "num_steps": 2, "operators": ["adjacency"], "backend": "compiled"}
    report = stream(graph, io.BytesIO(), **settings)
    assert report.dependent_columns == rfp.encode(graph, **settings).report.dependent_columns == 3 * 2 * 2
