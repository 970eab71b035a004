"""An edge list read in pieces is the one read whole, or is refused as that one is."""

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest

from rfp.edge_table.table import join_tables, load_table
from rfp.errors import FileError, GraphError, RFPError
from rfp.io import LoadedGraph, ReadOptions, read_files
from rfp.io.edge_list_pieces import read_pieces

NUMBERS = "".join(f"{i % 23} {(7 * i + 3) % 31}\n" for i in range(120))
NAMES = "".join(f"n{i % 11},m{i % 7},{0.5 + i % 3}\n" for i in range(60))

GOOD = {
    "numbers": (NUMBERS, {}),
    "tabs": (NUMBERS.replace(" ", "\t"), {}),
    "comments": ("# a comment\n# from to\n" + NUMBERS.replace("\n", "\n# in between\n", 30), {}),
    "named in a comment": ("# from to\n" + NUMBERS, {}),
    "windows": (NUMBERS.replace("\n", "\r\n"), {}),
    "old mac": (NUMBERS.replace("\n", "\r"), {}),
    "mark": ("\ufeff" + NUMBERS, {}),
    "no end": (NUMBERS.rstrip("\n"), {}),
    "empty lines": (NUMBERS.replace("\n", "\n\n \n", 20), {}),
    "names": (NAMES, {"duplicates": "first"}),
    "header": ("source,target,weight\n" + NAMES, {"duplicates": "max"}),
    "other header": ("who,whom,weight\n" + NAMES, {"duplicates": "sum", "source": "who", "target": "2"}),
    "quotes": (NAMES.replace("n1,", '"n, 1",'), {"duplicates": "first"}),
    "text among numbers": (NUMBERS + "x 5\n" + NUMBERS, {}),
    "zeros in front": (NUMBERS + "007 5\n", {}),
    "zeros in front, numbers": (NUMBERS + "007 5\n", {"ids": "int"}),
    "as text": (NUMBERS, {"ids": "text"}),
    "decimal comma": (NAMES.replace(",", ";").replace(".", ","), {"duplicates": "first"}),
    "decimal comma, dots in names": (
        "".join(f"v{i}.x;v{i + 1}.x;{i % 3}\n" for i in range(30)) + "v1.x;v5.x;1,5\n",
        {},
    ),
    "decimal comma, dots elsewhere": (
        "source;target;weight;when\n" + "".join(f"{i};{i + 1};{i % 3};1.5\n" for i in range(30)) + "1;5;1,5;0\n",
        {},
    ),
    "trailing": (NUMBERS.replace(" ", ",").replace("\n", ",\n"), {}),
    "directed column": (
        "source,target,type\n" + "".join(f"{i},{i + 1},Directed\n" for i in range(30)),
        {},
    ),
    "times, unweighted": ("".join(f"{i} {i + 1} {1_500_000_000 + i}\n" for i in range(30)), {"unweighted": True}),
    "times and a weight": ("".join(f"{i} {i + 1} {1_500_000_000 + i}\n" for i in range(30)) + "1 9 3\n", {}),
    "first line again at the end": ("ann bob\n" + "x y\ny z\n" * 20 + "ann x\n", {}),
    "numbered nodes": (NUMBERS, {"num_nodes": 40, "directed": True}),
    "NA among names": ("NA DE\n" + NUMBERS + "DE x\n", {}),
    "a hub of integers and another": ("".join(f"hub {i} 2\n" for i in range(30)) + "x 5 1\n", {}),
    "decimals and names": (NUMBERS + "3.0 4\n" + NUMBERS + "x 5\n", {}),
}
BAD = {
    "columns": (NUMBERS + "1 2 3 4\n" + NUMBERS, {}),
    "weight": (NAMES + "a,b,much\n", {}),
    "not finite": (NAMES + "a,b,nan\n", {"duplicates": "first"}),
    "negative": (NUMBERS + "-4 5\n", {}),
    "too large": (NUMBERS, {"num_nodes": 20}),
    "a quote": (NAMES.replace("n3,", 'n"3,'), {"duplicates": "first"}),
    "doubtful comment": (NAMES + "#jazz,ann,1\n", {"duplicates": "first"}),
    "doubtful header": ("ann bob\n" + "x y\ny z\n" * 20, {}),
    "times": ("".join(f"{i} {i + 1} {1_500_000_000 + i}\n" for i in range(30)), {}),
    "zero byte": (NUMBERS + "1\x00 2\n", {}),
    "mark inside": (NUMBERS + "\ufeff1 2\n", {}),
    "both commas and points": ("".join(f"{i};{i + 1};1,5\n" for i in range(20)) + "1;2;1.5\n", {}),
    "commas and points of whole numbers": (
        "".join(f"{i};{i + 1};1,5\n" for i in range(20)) + "a.b;c.d;2\n" * 20 + "1;2;2.0\n",
        {"duplicates": "first"},
    ),
    "missing": (NUMBERS + "4 nan\n" + NUMBERS, {}),
    "decimals": (NUMBERS + "3.0 4\n" + NUMBERS, {}),
    "a second header": ("source,target,weight\n" + NAMES + "source,target,1\n", {"duplicates": "first"}),
    "an arrow": ("".join(f"{i} -> {i + 1}\n" for i in range(30)), {}),
    "control": (NAMES + "a\x01,b,1\n", {"duplicates": "first"}),
}


def in_pieces(path: Path, options: ReadOptions, size: int) -> LoadedGraph:
    return load_table(join_tables(list(read_pieces(path, options, size))), options, str(path))


@pytest.mark.parametrize("size", [1, 17, 64, 300, 100_000])
@pytest.mark.parametrize("name", GOOD)
def test_pieces_are_the_whole(tmp_path: Path, name: str, size: int) -> None:
    text, arguments = GOOD[name]
    path = tmp_path / "edges.csv"
    path.write_bytes(text.encode())
    options = ReadOptions(**arguments)  # type: ignore[arg-type]
    whole, found = read_files(path, options), in_pieces(path, options, size)
    assert found.graph.num_nodes == whole.graph.num_nodes
    np.testing.assert_array_equal(found.graph.edge_index, whole.graph.edge_index)
    assert (found.graph.edge_weight is None) == (whole.graph.edge_weight is None)
    if whole.graph.edge_weight is not None:
        np.testing.assert_array_equal(found.graph.edge_weight, whole.graph.edge_weight)
    assert (found.node_ids is None) == (whole.node_ids is None)
    if whole.node_ids is not None:
        assert found.node_ids is not None
        assert found.node_ids.tolist() == whole.node_ids.tolist()
    assert found.directed == whole.directed


@pytest.mark.parametrize("size", [1, 17, 64, 300, 100_000])
@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_whole_is_refused_in_pieces(tmp_path: Path, name: str, size: int) -> None:
    text, arguments = BAD[name]
    path = tmp_path / "edges.csv"
    path.write_bytes(text.encode())
    options = ReadOptions(**arguments)  # type: ignore[arg-type]
    with pytest.raises(GraphError) as whole:
        read_files(path, options)
    with pytest.raises(GraphError) as found:
        in_pieces(path, options, size)
    if "commas and points" not in name:  # there it is the file that is named, not the line
        assert str(found.value) == str(whole.value)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_packed_files_are_unpacked_as_they_are_read(tmp_path: Path, suffix: str, pack: object) -> None:
    path = tmp_path / f"edges.txt{suffix}"
    content = pack(NUMBERS.encode())  # type: ignore[operator]
    path.write_bytes(content)
    pieces = list(read_pieces(path, ReadOptions(), 100))
    assert sum(piece.num_rows for piece in pieces) == 120
    assert pieces[0].facts["compression"] == {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}[suffix]
    path.write_bytes(content[:-9])
    with pytest.raises(FileError, match="not a complete"):
        list(read_pieces(path, ReadOptions(), 100))


def test_zstd(tmp_path: Path) -> None:
    import pyarrow as pa

    path = tmp_path / "edges.txt.zst"
    path.write_bytes(pa.compress(NUMBERS.encode(), codec="zstd", asbytes=True))
    assert sum(piece.num_rows for piece in read_pieces(path, ReadOptions(), 100)) == 120


def test_lists_of_networkx_with_dictionaries_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("0 1 {'weight': 2}\n1 2 {'weight': 3}\n")
    with pytest.raises(RFPError, match="NetworkX"):
        list(read_pieces(path, ReadOptions(), 100))
