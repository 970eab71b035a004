"""Link tasks: splits that do not leak, from every kind of data."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from rfp.data import LoadedTask, load
from rfp.data.link_metrics import SHARED
from rfp.errors import ArgumentError, FileError, GraphError

CLUB = {"class": "torch_geometric.datasets.KarateClub", "level": "link"}


def edge_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {(min(u, v), max(u, v)) for u, v in pairs.T.tolist()}


def positives(task: LoadedTask, part: str) -> set[tuple[int, int]]:
    assert task.held_out is not None
    judged = task.held_out.judged[part]
    return edge_set(judged.pairs[:, judged.label[:, 0] == 1])


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def ring(count: int) -> str:
    return "source,target\n" + "".join(f"{i},{(i + 1) % count}\n" for i in range(count))


def test_a_random_split_shows_training_edges_alone() -> None:
    task = load({**CLUB, "num_splits": 3})
    graph = nx.karate_club_graph()
    assert task.graphs.num_edges == 0  # before a split is chosen there is nothing to leak
    assert task.num_splits == 3
    assert [int(task.masks[part][:, 0].sum()) for part in ("train", "val", "test")] == [66, 4, 8]
    seen = []
    for split in range(3):
        at = task.at_split(split)
        train = edge_set(at.graphs.edge_index)
        assert at.graphs.num_edges == 2 * 66
        val, test = positives(at, "val"), positives(at, "test")
        assert not train & val
        assert not (train | val) & test
        assert train | val | test == edge_set(torch.tensor(list(graph.edges)).T)
        seen.append(test)
    assert seen[0] != seen[1]
    assert positives(load({**CLUB, "num_splits": 3}).at_split(1), "test") == seen[1]


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
def test_before_a_split_is_chosen_the_answers_are_links_alone_which_is_no_error(metric: str) -> None:
    task = load({**CLUB, "metric": metric})
    assert task.y.unique().tolist() == [1]
    task.check_parts(0)  # its negatives come later
    assert task.at_split(0).held_out is not None


def test_a_k_beyond_the_number_of_negatives_is_noted() -> None:
    """Of 78 edges 4 are for validation and 8 for the test, each with as many negatives: all are among the best 100."""
    for metric, says in (("hits@100", "val (4) and test (8)"), ("hits@10", "val (4) and test (8)"), ("roc_auc", "")):
        (note,) = load({**CLUB, "metric": metric}).notes or ("",)
        assert says in note
        assert note.startswith(metric if says else "")
    for more in ({"negatives": "hard"}, {"metric": "hits@10", "random_split": [0.6, 0.2, 0.2]}):  # 16 of each
        assert not load({**CLUB, **more}).notes


def test_negatives_are_no_edges_of_any_part() -> None:
    graph = nx.karate_club_graph()
    for negatives, kinds in (("both", {True, False}), ("uniform", {True}), ("hard", {False})):
        task = load({**CLUB, "negatives": negatives, "hard_negatives": 10}).at_split(0)
        assert task.held_out is not None
        for judged in task.held_out.judged.values():
            no = judged.label[:, 0] == 0
            assert not any(graph.has_edge(u, v) or u == v for u, v in judged.pairs[:, no].T.tolist())
            assert set((judged.label[no, 1] == SHARED).tolist()) == kinds
            assert judged.only("uniform").label.size(0) <= judged.label.size(0)


def test_every_split_and_part_has_negatives_of_its_own() -> None:
    task = load({**CLUB, "num_splits": 2, "random_split": [0.6, 0.2, 0.2], "negatives": "uniform"})
    drawn = []
    for split in range(2):
        held = task.at_split(split).held_out
        assert held is not None
        drawn += [judged.pairs[:, judged.label[:, 0] == 0][:, :10] for judged in held.judged.values()]
    assert [pairs.size(1) for pairs in drawn] == [10] * 4
    assert len({str(pairs.tolist()) for pairs in drawn}) == 4


def test_named_data_sets(data_root: Path, tmp_path: Path) -> None:
    air = load("usair", data_root=data_root, cache=tmp_path)
    assert air.summary() == (
        "usair: link link (hits@50), 1 output, 1 graph, 332 nodes, 2126 edges, 1 feature, split 1807/106/213"
    )
    cora = load({"name": "cora", "level": "link", "metric": "mrr"}, data_root=data_root, cache=tmp_path)
    assert (cora.task.metric, cora.graphs.num_nodes, cora.num_rows) == ("mrr", 2708, 5278)
    assert cora.graphs.x is not None
    assert cora.graphs.x.size(1) == 1433
    own = load({"name": "usair", "identity_features": True}, data_root=data_root, cache=tmp_path)
    assert own.graphs.x is not None
    assert torch.equal(own.graphs.x, torch.eye(332))
    with pytest.raises(ArgumentError, match="metric is fixed for 'cora'"):
        load({"name": "cora", "metric": "mrr"}, data_root=data_root, cache=tmp_path)


def test_a_mat_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    path = tmp_path / "links" / "USAir.mat"
    path.write_bytes(b"not matlab")
    with pytest.raises(FileError, match="expected a MATLAB file"):
        load("usair", data_root=tmp_path, cache=tmp_path / "cache")
    scipy.io.savemat(path, {"other": np.eye(3)})
    with pytest.raises(FileError, match="there is no 'net'"):
        load("usair", data_root=tmp_path, cache=tmp_path / "cache")
    scipy.io.savemat(path, {"net": sp.csc_matrix(np.ones((3, 3)) - np.eye(3))})
    with pytest.raises(FileError, match="3 nodes and not 332"):
        load("usair", data_root=tmp_path, cache=tmp_path / "cache")


def test_a_folder_with_a_column_of_parts(tmp_path: Path) -> None:
    text = "source,target,split\na,b,train\nb,c,train\nc,d,val\nd,a,test\nb,a,train\na,a,train\n"
    task = load({"path": str(write(tmp_path / "f", edges=text)), "level": "link"})
    at = task.at_split(0)
    assert task.links is not None
    assert task.links.names is not None
    name = task.links.names
    assert {tuple(sorted((name[u], name[v]))) for u, v in at.graphs.edge_index.T.tolist()} == {("a", "b"), ("b", "c")}
    assert {tuple(sorted((name[u], name[v]))) for u, v in positives(at, "test")} == {("a", "d")}


def test_files_of_parts_nodes_and_negatives(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "f",
        train="source,target\n3,1\n1,4\n",
        valid="source,target\n4,3\n",
        test="source,target\n5,1\n",
        nodes="node,size\n5,0.5\n4,0.25\n3,1\n1,2\n7,3\n",
        negatives="source,target,split\n7,1,val\n7,3,test\n5,4,test\n",
    )
    config = {"path": str(folder), "level": "link", "negatives": "uniform"}
    with pytest.raises(ArgumentError, match="num_splits=2 is of random splits, and this data comes with its split"):
        load({**config, "num_splits": 2})
    again = load({**config, "random_split": [0.5, 0.25, 0.25], "num_splits": 2})  # which are not those of the files
    assert (again.num_splits, again.num_rows) == (2, 4)
    task = load(config)
    assert task.links is not None
    assert task.links.names == (5, 4, 3, 1, 7)
    assert task.graphs.x is not None
    assert task.graphs.x.flatten().tolist() == [0.5, 0.25, 1, 2, 3]
    at = task.at_split(0)
    assert at.held_out is not None
    test = at.held_out.judged["test"]
    assert test.label.tolist() == [[1, 0], [0, SHARED], [0, SHARED]]
    assert test.pairs.T.tolist() == [[0, 3], [4, 2], [0, 1]]


def test_a_split_by_time(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i + 1},{1000 + i}\n" for i in range(20))
    text = f"source,target,when\n{rows}1,0,5000\n"  # an old edge again: its first time counts
    task = load({"path": str(write(tmp_path / "f", edges=text)), "level": "link", "time": "when"})
    at = task.at_split(0)
    assert positives(at, "test") == {(18, 19), (19, 20)}
    assert positives(at, "val") == {(17, 18)}
    assert (0, 1) in edge_set(at.graphs.edge_index)
    with pytest.raises(ArgumentError, match="column of times 'date' cannot be made: it has source, target, when"):
        load({"path": str(tmp_path / "f"), "level": "link", "time": "date"})
    with pytest.raises(ArgumentError, match="num_splits=3 is of random splits, and this data is split by time; leave"):
        load({"path": str(tmp_path / "f"), "level": "link", "time": "when", "num_splits": 3})
    same = "source,target,when\n" + "".join(f"{i},{i + 1},7\n" for i in range(20))
    with pytest.raises(ArgumentError, match="by time the val part is empty"):
        load({"path": str(write(tmp_path / "g", edges=same)), "level": "link", "time": "when"})


def test_a_split_that_leaks_is_refused_with_both_places(tmp_path: Path) -> None:
    text = "source,target,split\n0,1,train\n1,2,train\n2,3,val\n1,0,test\n"
    with pytest.raises(
        ArgumentError, match=r"the split leaks: one edge is in train \(.*row 1\) and in test \(.*row 4\)"
    ):
        load({"path": str(write(tmp_path / "f", edges=text)), "level": "link"})
    folder = write(tmp_path / "g", train=ring(5), val="source,target\n0,2\n", test="source,target\n2,3\n")
    with pytest.raises(ArgumentError, match=r"in train \(.*train\.csv, row 3\) and in test \(.*test\.csv, row 1\)"):
        load({"path": str(folder), "level": "link"})
    bad = write(tmp_path / "h", edges=ring(30), negatives="source,target,split\n0,1,val\n0,2,test\n")
    with pytest.raises(ArgumentError, match="of val is an edge of the graph"):
        load({"path": str(bad), "level": "link"})


def test_other_bad_input(tmp_path: Path) -> None:
    complete = "source,target\n" + "".join(f"{i},{j}\n" for i in range(6) for j in range(i))
    with pytest.raises(ArgumentError, match="every pair of the 6 nodes is an edge"):
        load({"path": str(write(tmp_path / "a", edges=complete)), "level": "link"})
    with pytest.raises(GraphError, match="node 9 is not in nodes"):
        load({"path": str(write(tmp_path / "b", edges="source,target\n0,9\n", nodes="node\n0\n")), "level": "link"})
    with pytest.raises(ArgumentError, match=r"random_split .* leaves a part empty"):
        load({"path": str(write(tmp_path / "c", edges=ring(4))), "level": "link"})
    with pytest.raises(FileError, match="there is no test file"):
        load({"path": str(write(tmp_path / "d", train=ring(9), val=ring(4))), "level": "link"})
    with pytest.raises(ArgumentError, match="column 'split' must be train or val or test, got 'dev'"):
        load({"path": str(write(tmp_path / "e", edges="source,target,split\n0,1,dev\n")), "level": "link"})
    with pytest.raises(ArgumentError, match="links have no direction"):
        load({**CLUB, "undirected": False})
    with pytest.raises(ArgumentError, match="negatives must be one of"):
        load({**CLUB, "negatives": "easy"})
    with pytest.raises(ArgumentError, match="split 3 of 'KarateClub' does not exist"):
        load(CLUB).at_split(3)
    torch.save([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)] * 2, tmp_path / "two.pt")
    with pytest.raises(GraphError, match="one graph, got 2"):
        load({"path": str(tmp_path / "two.pt"), "level": "link"})
