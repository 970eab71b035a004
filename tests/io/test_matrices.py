"""Adjacency matrices from SciPy and Matrix Market files."""

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from rfp.errors import FileError, GraphError
from rfp.io.matrices import read_matrix_market, read_npz
from rfp.io.options import ReadOptions

DIRECTED = np.array([[0.0, 2.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.csr_matrix])
def test_npz_is_read_as_stored(tmp_path: Path, kind: type) -> None:
    sp.save_npz(tmp_path / "a.npz", kind(DIRECTED))
    loaded = read_npz(tmp_path / "a.npz", ReadOptions())
    assert loaded.directed
    assert loaded.graph.to_scipy().toarray().tolist() == DIRECTED.tolist()
    both = read_npz(tmp_path / "a.npz", ReadOptions(directed=False))
    assert both.graph.to_scipy().toarray().tolist() == [[0, 2, 0], [2, 1.5, 0], [0, 0, 0]]


def test_ones_are_no_weights(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(np.array([[0, 1], [1, 0]], dtype=np.int8)))
    loaded = read_npz(tmp_path / "a.npz", ReadOptions())
    assert loaded.graph.edge_weight is None
    assert loaded.weights is None


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", format=np.array([{"a": 1}], dtype=object))
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    for name in ("evil", "text", "other"):
        with pytest.raises(FileError, match=f"{name}.npz: not a sparse matrix") as error:
            read_npz(tmp_path / f"{name}.npz", ReadOptions())
        assert "unsafely" not in str(error.value)


def test_matrix_market(tmp_path: Path) -> None:
    text = "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 2.5\n3 3 1.0\n"
    (tmp_path / "a.mtx").write_text(text)
    (tmp_path / "b.mtx.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.mtx", "b.mtx.gz"):
        loaded = read_matrix_market(tmp_path / name, ReadOptions())
        assert loaded.graph.to_scipy().toarray().tolist() == [[0, 2.5, 0], [2.5, 0, 0], [0, 0, 1]]


def test_matrix_market_pattern_and_dense(tmp_path: Path) -> None:
    (tmp_path / "p.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    assert read_matrix_market(tmp_path / "p.mtx", ReadOptions()).graph.edge_index.tolist() == [[0], [1]]
    scipy.io.mmwrite(tmp_path / "d.mtx", np.array([[0.0, 3.0], [0.0, 0.0]]))
    dense = read_matrix_market(tmp_path / "d.mtx", ReadOptions())
    assert dense.graph.to_scipy().toarray().tolist() == [[0, 3], [0, 0]]


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (np.ones((2, 3)), ReadOptions(), "must be square, got shape \\(2, 3\\)"),
        (np.array([[0, np.nan], [1, 0]]), ReadOptions(), "entry \\(0, 1\\) is nan"),
        (np.array([[0, 1j], [1, 0]]), ReadOptions(), "is complex"),
        (np.ones((2, 2)), ReadOptions(num_nodes=3), "has 2 nodes, but --num-nodes is 3"),
    ],
)
def test_mistakes(tmp_path: Path, matrix: np.ndarray, options: ReadOptions, message: str) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.coo_array(matrix))
    with pytest.raises(GraphError, match=message):
        read_npz(tmp_path / "a.npz", options)


def test_nan_weights_can_be_ignored(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.coo_array(np.array([[0, np.nan], [2, 0]])))
    loaded = read_npz(tmp_path / "a.npz", ReadOptions(unweighted=True))
    assert loaded.graph.edge_weight is None
    assert loaded.graph.num_edges == 2


def test_another_file(tmp_path: Path) -> None:
    (tmp_path / "x.mtx").write_text("1 2\n")
    with pytest.raises(FileError, match="not a Matrix Market file"):
        read_matrix_market(tmp_path / "x.mtx", ReadOptions())


def archive(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


CSR = {"format": "csr", "shape": [2, 2], "data": [1.0], "indices": [1], "indptr": [0, 1, 1]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"indices": [5]},
        {"indices": [-1]},
        {"indptr": [0, 10**9, 10**9]},  # compiled code would read far beyond the arrays
        {"indptr": [0, -3, 1]},
        {"indptr": [0, 1]},
        {"indptr": [[0, 1, 1]]},
        {"data": ["a"]},
        {"data": [1.0, 2.0]},
        {"shape": [2]},
        {"shape": [2, 2, 2]},
        {"shape": [-2, 2]},
        {"shape": [2.5, 2]},
        {"shape": "ab"},
        {"format": "bsr"},
        {"format": "nonsense"},
        {"format": 7},
        {"format": ["csr", "csr"]},
    ],
)
def test_a_damaged_archive_is_one_line(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises((FileError, GraphError), match=r"a\.npz"):
        read_npz(archive(tmp_path / "a.npz", **{**CSR, **wrong}), ReadOptions())
    assert read_npz(archive(tmp_path / "a.npz", **CSR), ReadOptions()).graph.edge_index.tolist() == [[0], [1]]


@pytest.mark.parametrize("kind", ["bsr", "dia", "csc", "coo"])
def test_every_format_of_scipy(tmp_path: Path, kind: str) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(DIRECTED).asformat(kind))
    loaded = read_npz(tmp_path / "a.npz", ReadOptions())
    assert loaded.graph.to_scipy().toarray().tolist() == DIRECTED.tolist()


def test_any_flipped_byte_of_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    sp.save_npz(path, sp.csr_array(DIRECTED))
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x21]) + whole[place + 1 :])
        try:
            matrix = read_npz(path, ReadOptions()).graph.to_scipy().toarray()
        except (FileError, GraphError) as error:
            outcome: object = str(error).startswith(str(path))
        else:
            outcome = matrix.tolist() == DIRECTED.tolist()  # the sums of the archive notice everything else
        assert outcome is True


def test_an_archive_that_promises_too_much_allocates_nothing(tmp_path: Path) -> None:
    import zipfile

    path = archive(tmp_path / "a.npz", **CSR)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, header.getvalue() if name == "data.npy" else content)
    with pytest.raises(FileError, match="not a sparse matrix"):
        read_npz(path, ReadOptions())
