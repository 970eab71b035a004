"""The partitioned encoding is that of memory, with any blocks, panels and executor, and after any damage."""

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.errors import ArgumentError, FileError, GraphError, NumericalError
from rfp.partitioned import Serial, Threads, encode, open
from rfp.partitioned.checked_files import DamagedFileError

# So little that every block holds a few rows and a panel a few channels.
TINY = 880


def graph_of(name: str) -> rfp.Graph:
    made: dict[str, Callable[[], Any]] = {
        "random": lambda: nx.gnp_random_graph(24, 0.2, seed=1),
        "directed": lambda: nx.gnp_random_graph(22, 0.15, seed=2, directed=True),
        "star": lambda: nx.star_graph(12),
        "loops": lambda: nx.Graph([(i, i) for i in range(9)] + [(i, i + 1) for i in range(8)]),
        "isolated": lambda: nx.disjoint_union(nx.empty_graph(8), nx.cycle_graph(5)),
        "one": lambda: nx.empty_graph(1),
    }
    if name == "weighted":
        graph = nx.gnp_random_graph(20, 0.2, seed=3)
        for number, (u, v) in enumerate(graph.edges):
            graph[u][v]["weight"] = 0.5 + number % 3
        return rfp.as_graph(graph)
    return rfp.as_graph(made[name]())


CASES: list[dict[str, Any]] = [
    {"num_channels": 6, "num_steps": 5},
    {"num_channels": 5, "num_steps": 6, "normalization": "l2", "num_trajectories": 3, "distribution": "rademacher"},
    {"num_channels": 4, "num_steps": 4, "normalization": "none", "operators": ["random_walk", "adjacency"]},
    {"num_channels": 6, "num_steps": 6, "normalize_every": 3, "start": "orthonormal"},
    {"num_channels": 6, "num_steps": 4, "operators": ["normalized_laplacian", "normalized_adjacency^2"]},
    {"num_channels": 4, "num_steps": 3, "start": "unit", "dtype": "float64", "seed": 9},
    {"num_channels": 3, "num_steps": 0},
    {"num_channels": 4, "num_steps": 3, "operators": ["adjacency.T", "random_walk.T", "normalized_adjacency.sym^2"]},
    {"num_channels": 6, "num_steps": 4, "operators": ["random_walk.sym.T"], "dtype": "float64", "num_trajectories": 2},
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("name", ["random", "directed", "star", "loops", "isolated", "one", "weighted"])
def test_the_same_answer_as_in_memory(tmp_path: Path, name: str, case: int) -> None:
    graph, arguments = graph_of(name), CASES[case]
    encoded = encode(graph, tmp_path, memory=TINY, **arguments)
    expected = rfp.encode(graph, backend="sparse", **arguments)
    assert encoded.complete
    if graph.num_nodes > 20:
        assert encoded.manifest.graph.num_blocks > 2
        assert encoded.manifest.panel < arguments["num_channels"] or arguments["num_channels"] < 6 or name == "directed"
    drawn = encoded.step(0) if arguments.get("start") is None else None
    if drawn is not None:
        assert torch.equal(drawn, expected.states[:, :, 0, : drawn.size(2)])  # the same numbers, not only alike
    # Directions that a QR knows only to rounding differ by its amplification.
    torch.testing.assert_close(encoded.trajectory().storage, expected.storage, rtol=1e-4, atol=2e-5)
    assert encoded.report.dependent_columns == expected.report.dependent_columns


def test_well_conditioned_states_agree_to_rounding(tmp_path: Path) -> None:
    graph = rfp.as_graph(nx.random_regular_graph(6, 200, seed=0))
    arguments: dict[str, Any] = {"num_channels": 8, "num_steps": 6, "num_trajectories": 2}
    encoded = encode(graph, tmp_path, memory=15_000, **arguments)
    expected = rfp.encode(graph, backend="reference", **arguments).storage
    assert (encoded.trajectory().storage - expected).abs().max() <= 1e-6


def test_executors_agree_bit_for_bit(tmp_path: Path) -> None:
    graph = graph_of("random")
    arguments: dict[str, Any] = {"num_channels": 6, "num_steps": 4, "num_trajectories": 2}
    serial = encode(graph, tmp_path / "serial", memory=TINY, executor=Serial(), **arguments)
    threads = encode(graph, tmp_path / "threads", memory=TINY, executor=Threads(3), **arguments)
    assert torch.equal(serial.trajectory().storage, threads.trajectory().storage)


def test_a_round_of_tasks_is_told_of_when_it_begins(tmp_path: Path) -> None:
    """Before its first task is done: the clock and the bar would else be one part of a step late."""
    told: list[tuple[str, str, int, int]] = []
    encode(graph_of("random"), tmp_path, num_channels=6, num_steps=1, memory=TINY, tick=lambda *one: told.append(one))
    begun = [(step, what) for step, what, done, _ in told if done == 0]
    assert begun[:4] == [("start", "drawing"), ("0/1", "values"), ("0/1", "multiplying"), ("0/1", "Gram matrices")]
    assert begun[4:6] == [("0/1", "norms"), ("0/1", "applying")]
    for (step, what, done, total), after in zip(told, [*told[1:], ("", "", 0, 0)], strict=True):
        assert after == (step, what, done + 1, total) if done < total else after[2] == 0


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted((folder / "states").rglob("*.npy"))}


@cache
def undisturbed(name: str, **arguments: Any) -> dict[str, bytes]:
    """The files of an encoding that nothing happens to, made once for all that is compared with it."""
    with tempfile.TemporaryDirectory() as folder:
        encode(graph_of(name), folder, memory=TINY, **arguments)
        return files(Path(folder))


class KilledError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 3, 8, 20, 47, 76, 100])
def test_a_run_that_was_cut_goes_on_and_ends_the_same(tmp_path: Path, after: int) -> None:
    graph = graph_of("random")
    arguments: dict[str, Any] = {"num_channels": 6, "num_steps": 3}
    done = 0

    def cut(step: str, what: str, number: int, total: int) -> None:
        nonlocal done
        done += 1
        if done == after:
            raise KilledError

    with pytest.raises(KilledError):
        encode(graph, tmp_path / "cut", tick=cut, memory=TINY, **arguments)
    encode(graph, tmp_path / "cut", memory=TINY, **arguments)
    assert files(tmp_path / "cut") == undisturbed("random", **arguments)


@pytest.mark.parametrize("harm", ["bit", "cut", "gone"])
@pytest.mark.parametrize("step", ["start", "0/0001", "0/0002"])
def test_damaged_blocks_are_computed_again_never_used(tmp_path: Path, step: str, harm: str) -> None:
    graph = graph_of("random")
    arguments: dict[str, Any] = {"num_channels": 6, "num_steps": 5, "normalize_every": 2, "start": "orthonormal"}

    def until_third(name: str, what: str, number: int, total: int) -> None:
        if name == "0/3" and what == "multiplying" and number == total:
            raise KilledError

    with pytest.raises(KilledError):
        encode(graph, tmp_path / "hurt", memory=TINY, tick=until_third, **arguments)
    for path in sorted((tmp_path / "hurt" / "states" / step).glob("panel-*.npy"))[1:3]:
        data = bytearray(path.read_bytes())
        data[-3] ^= 4
        if harm == "gone":
            path.unlink()
        else:
            path.write_bytes(data if harm == "bit" else data[:-5])
    # What was computed of the third step from whole files is still right; make it be computed anew.
    for path in (tmp_path / "hurt" / "states" / "0" / "0003").rglob("*.npy"):
        path.unlink()
    said: list[str] = []
    encode(graph, tmp_path / "hurt", memory=TINY, say=said.append, **arguments)
    assert len(said) == 2
    assert all("is damaged: " in line and line.endswith("; it is computed again") for line in said)
    assert files(tmp_path / "hurt") == undisturbed("random", **arguments)


@pytest.mark.parametrize("executor", [Serial(), Threads(3)])
def test_what_is_damaged_in_a_finished_folder_is_refused_and_the_same_call_mends_it(
    tmp_path: Path, executor: Any
) -> None:
    graph, arguments = graph_of("random"), {"num_channels": 6, "num_steps": 3, "memory": TINY}
    encoded = encode(graph, tmp_path / "a", **arguments)
    whole = files(tmp_path / "a")
    # The first step and the last, all panels of a block and one of another.
    hurt = sorted((tmp_path / "a" / "states" / "start").glob("panel-*.block-00002.npy"))
    hurt += [tmp_path / "a" / "states" / "0" / "0003" / "panel-001.block-00000.npy"]
    for number, path in enumerate(hurt):
        data = bytearray(path.read_bytes())
        data[-3] ^= 4
        path.write_bytes(data if number else data[:-5])
    with pytest.raises(DamagedFileError, match="the command that made the folder computes it again"):
        encoded.trajectory()
    said: list[str] = []
    again = encode(graph, tmp_path / "a", executor=executor, say=said.append, **arguments)
    assert sorted(line.split(" is damaged")[0] for line in said) == sorted(map(str, hurt))
    assert files(tmp_path / "a") == whole
    assert again.manifest == encoded.manifest
    assert again.trajectory().storage.isfinite().all()


@pytest.mark.parametrize("normalization", ["qr", "l2"])
@pytest.mark.parametrize("lost", ["factor-0.npy", "all"])
def test_a_block_whose_factor_is_lost_is_refused_never_made_without_it(
    tmp_path: Path, normalization: str, lost: str
) -> None:
    graph, arguments = graph_of("random"), {"num_channels": 6, "num_steps": 3, "memory": TINY}
    encode(graph, tmp_path, normalization=normalization, **arguments)
    there = tmp_path / "states" / "0" / "0002"
    if lost == "all":
        shutil.rmtree(there)
    else:
        (there / lost).unlink()
        (there / "panel-000.block-00000.npy").unlink()
    for _ in range(2):  # nor by the same call once more
        with pytest.raises(FileError, match=r"factor-0\.npy is damaged: .*; nothing here can make it again: remove"):
            encode(graph, tmp_path, normalization=normalization, **arguments)


def test_values_of_other_blocks_that_a_repair_of_a_power_needs_are_computed_again(tmp_path: Path) -> None:
    graph, arguments = graph_of("random"), {"num_channels": 6, "num_steps": 2, "memory": TINY}
    encode(graph, tmp_path, operators=["normalized_adjacency^2"], **arguments)
    whole = files(tmp_path)
    for path in ("states/0/0002/panel-000.block-00000.npy", "graph/operator-0.block-00003.npy"):
        data = bytearray((tmp_path / path).read_bytes())
        data[-3] ^= 4
        (tmp_path / path).write_bytes(data)
    encode(graph, tmp_path, operators=["normalized_adjacency^2"], **arguments)
    assert files(tmp_path) == whole


def test_a_damaged_graph_is_refused(tmp_path: Path) -> None:
    graph = graph_of("random")

    def stop(name: str, what: str, number: int, total: int) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        encode(graph, tmp_path, memory=TINY, tick=stop)
    path = next((tmp_path / "graph").glob("block-*.col.npy"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileError, match=r"remove .* and run the command once more"):
        encode(graph, tmp_path, memory=TINY)


def test_other_arguments_and_graphs_are_refused_with_the_difference(tmp_path: Path) -> None:
    graph = graph_of("random")
    encode(graph, tmp_path, num_channels=3, num_steps=2)
    with pytest.raises(FileError, match="num_steps is 2 there and 4 here; seed is 0 there and 1 here"):
        encode(graph, tmp_path, num_channels=3, num_steps=4, seed=1)
    with pytest.raises(FileError, match="the graph there has 24 nodes and other edges"):
        encode(graph_of("star"), tmp_path, num_channels=3, num_steps=2)


def test_a_graph_without_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="the graph has no nodes, so there is nothing to encode"):
        encode(rfp.Graph(torch.zeros(2, 0, dtype=torch.long), 0), tmp_path / "a", num_channels=2, num_steps=2)
    assert not (tmp_path / "a").exists()


def test_a_self_loop_of_weight_0_is_none(tmp_path: Path) -> None:
    """As in memory: the node gets the loop of weight 1 that every node without one gets."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 1], [1, 0, 2, 1, 3, 2, 1]])
    graph = rfp.Graph(edges, 4, torch.tensor([1.0, 1, 2, 2, 1, 1, 0]))
    arguments: dict[str, Any] = {"num_channels": 2, "num_steps": 2, "normalization": "none"}
    encode(graph, tmp_path, memory=TINY, **arguments)
    found = open(tmp_path).trajectory().states
    expected = rfp.encode(graph, backend="reference", **arguments).states
    assert torch.allclose(torch.as_tensor(found), expected, atol=1e-6)


@pytest.mark.parametrize("memory", [TINY, 1 << 30])
def test_the_same_edges_with_other_weights_are_another_graph(tmp_path: Path, memory: int) -> None:
    edges = graph_of("random").edge_index
    weight = torch.linspace(0.5, 2.0, edges.size(1), dtype=torch.float64)
    arguments: dict[str, Any] = {"num_channels": 3, "num_steps": 2}
    encode(rfp.Graph(edges, 24, weight), tmp_path, memory=TINY, **arguments)
    # Whatever the order of the edges and the size of the blocks, these are the weights.
    encode(rfp.Graph(edges.flip(1), 24, weight.flip(0)), tmp_path, memory=memory, **arguments)
    for other in (None, weight.flip(0), weight.clone().index_fill_(0, torch.tensor([7]), 1.0)):
        with pytest.raises(FileError, match="the edges of the graph there have other weights"):
            encode(rfp.Graph(edges, 24, other), tmp_path, memory=memory, **arguments)


def test_two_drivers_do_not_share_a_folder(tmp_path: Path) -> None:
    graph = graph_of("random")

    def intrude(name: str, what: str, number: int, total: int) -> None:
        with pytest.raises(FileError, match="being written by another process"):
            encode(graph, tmp_path, num_channels=3, num_steps=1)

    encode(graph, tmp_path, num_channels=3, num_steps=1, tick=intrude)


def test_reading_rows_steps_and_exports(tmp_path: Path) -> None:
    graph = graph_of("weighted")
    arguments: dict[str, Any] = {"num_channels": 4, "num_steps": 3, "operators": ["adjacency", "random_walk"]}
    encoded = encode(graph, tmp_path / "store", memory=TINY, normalization="l2", **arguments)
    whole = encoded.trajectory().storage
    nodes = [19, 0, 17, 17]
    assert torch.equal(encoded.rows(nodes), whole[nodes])
    assert torch.equal(encoded.step(-1, 1), whole[:, :, 1, -1].transpose(0, 1))
    encoded.export(tmp_path / "all.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), whole.flatten(1).numpy())
    encoded.export(tmp_path / "all.parquet")
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "all.parquet")
    assert table["node"].to_pylist() == list(range(20))
    assert table.schema.names == ["node", "encoding"]
    np.testing.assert_array_equal(np.stack(table["encoding"].to_pylist()), whole.flatten(1).numpy())
    with pytest.raises(ArgumentError, match="nodes must be 0 to 19"):
        encoded.rows([20])
    mask = np.arange(20) == 7
    assert torch.equal(encoded.rows(np.flatnonzero(mask)), whole[7:8])
    for wrong in (mask, torch.from_numpy(mask), [1.5]):
        with pytest.raises(ArgumentError, match="nodes must be integers, got"):
            encoded.rows(wrong)
    with pytest.raises(ArgumentError, match="there is no step 4 of operator 0"):
        encoded.step(4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operators": [torch.eye(24)]}, "given by name"),
        ({"normalization": "inverse_gram"}, "normalizations qr, l2, none"),
        ({"storage_dtype": torch.float16}, "stored as it is computed"),
    ],
)
def test_what_cannot_be_partitioned_is_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        encode(graph_of("random"), tmp_path, **arguments)


def test_states_that_overflow_name_their_step(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"operators": ["adjacency"], "normalization": "none", "num_steps": 60}
    with pytest.raises(NumericalError, match=r"of step 4[56]"):
        encode(rfp.as_graph(nx.complete_graph(8)), tmp_path, **arguments)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_columns_that_gram_matrices_cannot_tell_apart_take_the_last_rung(tmp_path: Path, dtype: str) -> None:
    # Steps without normalisation drive the columns together: κ beyond what a Gram matrix in float64 resolves.
    graph = graph_of("random")
    arguments: dict[str, Any] = {"num_channels": 6, "num_steps": 30, "normalize_every": 30, "dtype": dtype}
    encoded = encode(graph, tmp_path / "a", memory=TINY, num_trajectories=2, **arguments)
    if dtype == "float64":
        assert encoded.report.events["gram_schmidt"] > 0
        assert (tmp_path / "a" / "states" / "0" / "0030" / "vectors.npy").exists()
    q = encoded.step(30).double()
    lengths = q.square().sum(1)  # of each column 1, or 0 where it was dependent
    torch.testing.assert_close(q.mT @ q, torch.diag_embed(lengths.round()), rtol=0, atol=1e-5)
    expected = rfp.encode(graph, backend="reference", num_trajectories=2, **arguments)
    assert encoded.report.dependent_columns == expected.report.dependent_columns
    # Both orthonormalise the same columns: spans of the first columns agree.
    ours, theirs = encoded.step(30)[:, :, :3].double(), expected.states[:, :, 30, :3].double()
    torch.testing.assert_close(ours @ ours.mT, theirs @ theirs.mT, rtol=0, atol=1e-5 if dtype == "float64" else 1e-2)


def cut_in_the_third_step(graph: rfp.Graph, folder: Path, **arguments: Any) -> None:
    """Two steps are finished, of the third nothing is there."""

    def until_third(name: str, what: str, number: int, total: int) -> None:
        if name == "0/3":
            raise KilledError

    with pytest.raises(KilledError):
        encode(graph, folder, tick=until_third, memory=TINY, **arguments)
    assert not (folder / "states" / "0" / "0003").exists()


def test_a_block_of_the_last_rung_is_computed_again_from_what_was_stored(tmp_path: Path) -> None:
    graph = graph_of("star")
    arguments: dict[str, Any] = {"num_channels": 6, "num_steps": 3, "operators": ["adjacency"], "dtype": "float64"}
    encode(graph, tmp_path / "whole", memory=TINY, **arguments)
    assert (tmp_path / "whole" / "states" / "0" / "0002" / "vectors.npy").exists()
    cut_in_the_third_step(graph, tmp_path / "hurt", **arguments)
    for path in (tmp_path / "hurt" / "states" / "0" / "0002").glob("panel-*.npy"):
        path.unlink()
    encode(graph, tmp_path / "hurt", memory=TINY, **arguments)
    assert files(tmp_path / "hurt") == files(tmp_path / "whole")


def test_a_block_of_a_power_is_computed_again_from_the_blocks_it_needs(tmp_path: Path) -> None:
    """S (S a): a block of the second product needs all rows of the first."""
    graph = graph_of("random")
    arguments: dict[str, Any] = {"num_channels": 6, "num_steps": 3, "operators": ["normalized_adjacency^2"]}
    encode(graph, tmp_path / "whole", memory=TINY, **arguments)
    cut_in_the_third_step(graph, tmp_path / "hurt", **arguments)
    (tmp_path / "hurt" / "states" / "0" / "0002" / "panel-000.block-00001.npy").unlink()
    said: list[str] = []
    encode(graph, tmp_path / "hurt", memory=TINY, say=said.append, **arguments)
    assert files(tmp_path / "hurt") == files(tmp_path / "whole")
    assert len(said) == 1


@pytest.mark.parametrize("harm", ["bit", "gone"])
def test_values_of_an_operator_that_are_hurt_during_a_run_are_written_again(tmp_path: Path, harm: str) -> None:
    graph = graph_of("random")
    arguments: dict[str, Any] = {"num_channels": 6, "num_steps": 3, "memory": TINY}
    encode(graph, tmp_path / "whole", **arguments)
    hurt = tmp_path / "hurt" / "graph" / "operator-0.block-00001.npy"

    def hurt_it(name: str, what: str, number: int, total: int) -> None:
        if (name, what, number) == ("0/1", "applying", total):
            data = bytearray(hurt.read_bytes())
            data[-3] ^= 4
            hurt.unlink()
            if harm == "bit":
                hurt.write_bytes(data)

    said: list[str] = []
    encode(graph, tmp_path / "hurt", tick=hurt_it, say=said.append, **arguments)
    assert files(tmp_path / "hurt") == files(tmp_path / "whole")
    assert any("operator-0.block-00001.npy is damaged" in line for line in said)
    assert hurt.read_bytes() == (tmp_path / "whole" / "graph" / hurt.name).read_bytes()


def test_the_products_that_a_gpu_takes_give_the_same_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = rfp.as_graph(nx.random_regular_graph(4, 40, seed=0))
    arguments: dict[str, Any] = {"num_channels": 4, "num_steps": 3, "num_trajectories": 2}
    expected = encode(graph, tmp_path / "compiled", memory=4_000, **arguments).trajectory().storage
    # Without a GPU the CPU stands in for it, with the products that a GPU would do.
    monkeypatch.setattr("rfp.partitioned.block_products._compiled", lambda device: False)
    found = encode(graph, tmp_path / "library", memory=4_000, device="cuda", **arguments).trajectory().storage
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
def test_a_gpu_gives_the_same_encoding(tmp_path: Path, normalization: str) -> None:
    arguments: dict[str, Any] = {"num_channels": 4, "num_steps": 3, "normalization": normalization, "memory": 4_000}
    graph = rfp.as_graph(nx.random_regular_graph(4, 40, seed=0))
    here, there = (
        encode(graph, tmp_path / device, device=device, **arguments).trajectory().storage for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(there, here, atol=1e-5, rtol=1e-5)
