"""Files larger than memory: the same graph, names and encoding as when they are read whole."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

import rfp
from rfp.errors import ArgumentError, FileError, GraphError, RFPError
from rfp.io import ReadOptions, read_files
from rfp.partitioned import PartitionedEncoding, encode, encode_files, open
from rfp.partitioned.checked_files import DamagedFileError
from rfp.partitioned.encode_source import encode_source
from rfp.partitioned.sources import FileSource
from rfp.settings import Settings

ARGUMENTS: dict[str, Any] = {"num_channels": 3, "num_steps": 2}
NUMBERS = "# some edges\n" + "".join(f"{i % 23} {(7 * i + 3) % 31}\n" for i in range(120))
NAMES = "who,whom,weight\n" + "".join(f"n{i % 11},m{i % 7},{0.5 + i % 3}\n" for i in range(60))

TEXTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "numbers": ([NUMBERS], {}),
    "names": ([NAMES], {"duplicates": "first"}),
    "sums": ([NAMES], {"duplicates": "sum", "directed": True}),
    "two files": ([NUMBERS, NUMBERS.replace(" ", ",")], {}),
    "text in the second file": ([NUMBERS, "5 x\nx 3\n"], {}),
    "numbered nodes": ([NUMBERS], {"num_nodes": 50}),
    "as text": ([NUMBERS], {"ids": "text"}),
    "types": (["source,target,type\n0,1,Directed\n1,2,Directed\n2,0,Directed\n"], {}),
}


def same(encoded: PartitionedEncoding, files: Any, options: ReadOptions) -> None:
    loaded = read_files(files, options)
    ids = encoded.node_ids()
    assert (None if ids is None else ids.tolist()) == (None if loaded.node_ids is None else loaded.node_ids.tolist())
    expected = rfp.encode(loaded.graph, backend="sparse", **ARGUMENTS)
    assert torch.equal(encoded.step(0), expected.states[:, :, 0])
    torch.testing.assert_close(encoded.trajectory().storage, expected.storage, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_what_the_reader_in_memory_makes_of_it(tmp_path: Path, name: str) -> None:
    texts, arguments = TEXTS[name]
    options = ReadOptions(**arguments)
    (tmp_path / "parts").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "parts" / f"{number}.txt").write_text(text)
    encoded = encode_files(tmp_path / "parts", tmp_path / "store", options=options, **ARGUMENTS)
    same(encoded, tmp_path / "parts", options)
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["graph", "lock", "manifest.json", "states"]


@pytest.mark.parametrize("ids", ["numbers", "texts", "dictionary"])
def test_a_folder_of_parquet_is_what_the_reader_in_memory_makes_of_it(tmp_path: Path, ids: str) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "parts").mkdir()
    for number in range(3):
        ends = rng.integers(0, 40, (2, 50))
        columns: list[Any] = [pa.array(ends[0]), pa.array(ends[1])]
        if ids != "numbers":
            columns = [column.cast(pa.string()) for column in columns]
        if ids == "dictionary":
            columns = [column.dictionary_encode() for column in columns]
        table = pa.table({"src": columns[0], "dst": columns[1], "weight": pa.array(rng.choice([1, 2, 3], 50))})
        pq.write_table(table, tmp_path / "parts" / f"{number}.parquet", row_group_size=7)
    options = ReadOptions(duplicates="first")
    encoded = encode_files(tmp_path / "parts", tmp_path / "store", options=options, **ARGUMENTS)
    same(encoded, tmp_path / "parts", options)


@pytest.mark.parametrize("folder", ["w=4", "source=7", "s[1]"])
@pytest.mark.parametrize("name", ["a[1].parquet", "a?.parquet", "a[1].csv"])
def test_names_of_files_and_folders_mean_nothing_to_the_database(tmp_path: Path, folder: str, name: str) -> None:
    # Other edges in the file that the name would mean as a pattern; w and source are columns.
    here = tmp_path / folder
    here.mkdir()
    for file, weight in (("a1", 1.0), (Path(name).stem, 2.5)):
        table = pa.table({"source": [0, 1, 2], "target": [1, 2, 3], "weight": [weight, 3.0, 0.5]})
        pq.write_table(table, here / f"{file}.parquet")
        pa.csv.write_csv(table, here / f"{file}.csv")
    same(encode_files(here / name, here / "store", **ARGUMENTS), here / name, ReadOptions())


def test_first_appearance_and_first_weight_follow_the_file_also_in_parallel(tmp_path: Path) -> None:
    # More row groups than threads, ids that appear in scrambled order, duplicates far apart.
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 2_000, (2, 40_000))
    names = [pa.array([f"n{x}" for x in end]) for end in ends.tolist()]
    table = pa.table({"source": names[0], "target": names[1], "weight": pa.array(rng.random(40_000))})
    pq.write_table(table, tmp_path / "edges.parquet", row_group_size=4_000)
    options = ReadOptions(duplicates="first")
    same(
        encode_files(tmp_path / "edges.parquet", tmp_path / "store", options=options, **ARGUMENTS),
        tmp_path / "edges.parquet",
        options,
    )


def test_other_formats_are_read_into_memory_first(tmp_path: Path) -> None:
    import networkx as nx

    nx.write_gml(nx.relabel_nodes(nx.karate_club_graph(), str), tmp_path / "club.gml")
    encoded = encode_files(tmp_path / "club.gml", tmp_path / "store", **ARGUMENTS)
    same(encoded, tmp_path / "club.gml", ReadOptions())


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("0 1\n1 2 3\n", {}, "line 2: 3 columns where the first line has 2"),
        ("0 1\n-1 2\n", {}, "node id -1 is negative"),
        ("0 1\n1 7\n", {"num_nodes": 3}, "node id 7 is out of range for --num-nodes 3"),
        ("0 1 2\n0 1 3\n", {}, "edges of nodes 0 and 1 have different weights"),
        ("0 1\n0 1\n", {"duplicates": "error"}, "nodes 0 and 1 is listed more than once, which --duplicates error"),
        # By their own names, not by the numbers that they have here.
        ("70 90 2\n70 90 3\n", {}, "edges of nodes 70 and 90 have different weights"),
        ("5000000000000 7\n7 5000000000000\n", {"duplicates": "error"}, "nodes 7 and 5000000000000 is listed"),
        ("ann bob 2\nann bob 3\n", {}, "edges of nodes 'ann' and 'bob' have different weights"),
        ("# nothing\n", {}, "holds no edges"),
    ],
)
def test_bad_text_is_one_clear_line_and_leaves_nothing_to_go_on_from(
    tmp_path: Path, text: str, arguments: dict[str, Any], message: str
) -> None:
    (tmp_path / "edges.txt").write_text(text)
    with pytest.raises(RFPError, match=message):
        encode_files(tmp_path / "edges.txt", tmp_path / "store", options=ReadOptions(**arguments), **ARGUMENTS)
    assert not (tmp_path / "store" / "manifest.json").exists()
    assert not (tmp_path / "store" / "preparing").exists()


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        ({"source": [0.5], "target": [1.5]}, {}, "integers or text"),
        ({"source": ["a"], "target": ["b"]}, {"ids": "int"}, "the columns of ids are text"),
        ({"source": ["a"], "target": ["b"]}, {"num_nodes": 4}, "with --num-nodes"),
        ({"source": [0], "target": [1], "weight": ["x"]}, {}, "must be numbers"),
        ({"source": ["a\x01"], "target": ["b"]}, {}, "control character"),
        ({"source": [2**63], "target": [1]}, {}, "larger than 2"),
        (
            {"source": [0, 1], "target": [1, 2], "type": ["Directed", "Undirected"]},
            {},
            "say --directed or --undirected",
        ),
    ],
)
def test_bad_parquet_is_one_clear_line(
    tmp_path: Path, columns: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    arrays = {
        name: pa.array(values, pa.uint64()) if 2**63 in values else pa.array(values) for name, values in columns.items()
    }
    pq.write_table(pa.table(arrays), tmp_path / "edges.parquet")
    with pytest.raises(GraphError, match=message):
        encode_files(tmp_path / "edges.parquet", tmp_path / "store", options=ReadOptions(**arguments), **ARGUMENTS)


def test_parts_with_other_columns_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"target": [0], "source": [1]}), tmp_path / "b.parquet")
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with pytest.raises(GraphError, match="other columns"):
        encode_files(files, tmp_path / "store", **ARGUMENTS)


def test_a_changed_file_or_option_is_refused_with_the_difference(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text(NUMBERS)
    encode_files(path, tmp_path / "store", **ARGUMENTS)
    encode_files(path, tmp_path / "store", **ARGUMENTS)  # nothing is left to do
    with pytest.raises(FileError, match="directed is None there and True here"):
        encode_files(path, tmp_path / "store", options=ReadOptions(directed=True), **ARGUMENTS)
    stat = path.stat()
    path.write_text(NUMBERS.replace("0 3\n", "0 4\n", 1))  # as long as before
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
    with pytest.raises(FileError, match=r"edges\.txt had 639 bytes .* then and has 639 bytes"):
        encode_files(path, tmp_path / "store", **ARGUMENTS)
    path.write_text(NUMBERS + "0 1\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(FileError, match=r"edges\.txt had 639 bytes .* then and has 643 bytes"):
        encode_files(path, tmp_path / "store", **ARGUMENTS)
    path.rename(tmp_path / "other.txt")
    with pytest.raises(FileError, match=r"the files there are edges\.txt, here other\.txt"):
        encode_files(tmp_path / "other.txt", tmp_path / "store", **ARGUMENTS)


def test_a_graph_in_memory_goes_on_with_a_folder_made_from_files_if_its_weights_are_those(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source,target,weight\n0,1,2\n1,2,1\n2,3,-0.5\n3,0,1\n")
    encode_files(path, tmp_path / "store", memory=1_000, **ARGUMENTS)
    graph = rfp.read_graph(path).graph
    assert encode(graph, tmp_path / "store", **ARGUMENTS).complete
    for other in (None, graph.edge_weight * 2):
        with pytest.raises(FileError, match="the edges of the graph there have other weights"):
            encode(rfp.Graph(graph.edge_index, 4, other), tmp_path / "store", **ARGUMENTS)
    manifest = tmp_path / "store" / "manifest.json"
    content = json.loads(manifest.read_text())
    assert isinstance(content["graph"].pop("weights"), int)
    manifest.write_text(json.dumps(content))  # as in folders of earlier versions, which do not say
    assert encode(graph, tmp_path / "store", **ARGUMENTS).complete


def test_a_weight_of_zero_has_no_sign(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    for zero in (0.0, -0.0):
        graph = rfp.Graph(edges, 3, torch.tensor([zero, zero, 2.0, 2.0]))
        assert encode(graph, tmp_path / "store", **ARGUMENTS).complete


def test_names_of_an_attempt_that_failed_are_not_those_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source,target,weight\n3,5,1\n5,3,2\n5,9,1\n")
    with pytest.raises(GraphError, match="different weights"):  # found when the names are stored
        encode_files(path, tmp_path / "store", **ARGUMENTS)
    options = ReadOptions(num_nodes=10, duplicates="sum")
    same(encode_files(path, tmp_path / "store", options=options, **ARGUMENTS), path, options)


@pytest.mark.parametrize("name", ["edges.csv", "edges.gml"])
def test_damaged_names_of_nodes_are_refused_and_never_left_out(tmp_path: Path, name: str) -> None:
    path, store = tmp_path / name, tmp_path / "store"
    if name == "edges.csv":
        path.write_text("source,target\nann,bob\nbob,cy\n")
    else:
        nodes = "".join(f'node [ id {i} label "{label}" ]\n' for i, label in enumerate(("ann", "bob", "cy")))
        path.write_text(f"graph [\n{nodes}edge [ source 0 target 1 ]\n]\n")
    ids = encode_files(path, store, **ARGUMENTS).node_ids()
    assert ids is not None
    assert ids.tolist() == ["ann", "bob", "cy"]
    file = store / "graph" / "node_ids.parquet"
    whole = file.read_bytes()
    for damage in (whole.replace(b"bob", b"bop"), whole[:-9], b"", None):
        file.unlink()
        if damage is not None:
            file.write_bytes(damage)
        with pytest.raises(DamagedFileError, match=r"node_ids.parquet is damaged: .* remove .*store and run"):
            open(store).node_ids()
        with pytest.raises(DamagedFileError, match=r"node_ids.parquet is damaged"):
            encode_files(path, store, **ARGUMENTS)
        file.write_bytes(whole)
    assert encode_files(path, store, **ARGUMENTS).complete


def test_standard_input_and_strange_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="standard input"):
        encode_source(FileSource(("-",)), tmp_path / "store", Settings(), memory=10**6)
    (tmp_path / "edges.txt").write_text(NUMBERS)
    with pytest.raises(FileError, match="no part of an encoding; give a new folder"):
        encode_files(tmp_path / "edges.txt", tmp_path, **ARGUMENTS)
    with pytest.raises(FileError, match="no such file"):
        encode_files(tmp_path / "none.txt", tmp_path / "new", **ARGUMENTS)
    for place in (tmp_path / "edges.txt", tmp_path / "edges.txt" / "inside"):
        with pytest.raises(FileError, match=rf"{place}: cannot be used as a folder \(.*\); give another"):
            encode_files(tmp_path / "edges.txt", place, **ARGUMENTS)


@pytest.mark.parametrize("name", ["graph", "states"])
def test_a_folder_of_somebody_with_a_name_of_ours_is_refused_and_kept(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "project" / name / "edges.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text(NUMBERS)
    with pytest.raises(FileError, match=f"holds '{name}', which is no part of an encoding; give a new folder"):
        encode_files(mine, tmp_path / "project", **ARGUMENTS)
    assert mine.read_text() == NUMBERS
    assert [path.name for path in (tmp_path / "project").iterdir()] == [name]


def test_a_folder_that_nothing_was_put_into_is_gone_again(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir()
    for folder in (new, old):
        with pytest.raises(FileError, match=r"missing.csv: no such file"):
            encode_files(tmp_path / "missing.csv", folder, num_channels=2, num_steps=1)
    assert not new.exists()
    assert old.exists()
