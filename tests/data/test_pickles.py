"""Tensors come through; anything that could run does not."""

import os
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rfp.data.pickles import UnsafePickleError, load_arrays, load_tensors
from rfp.errors import FileError


def test_tensors_in_containers(tmp_path: Path) -> None:
    content = [{"x": torch.arange(6).view(2, 3), "n": 2}, {"x": torch.tensor([0.5]), "n": 1}]
    (tmp_path / "ok.pickle").write_bytes(pickle.dumps(content))
    read = load_tensors(tmp_path / "ok.pickle")
    assert torch.equal(read[0]["x"], content[0]["x"])
    assert read[1]["x"].item() == 0.5
    assert [row["n"] for row in read] == [2, 1]


def test_items_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "ok.pickle").write_bytes(pickle.dumps([torch.tensor([i]) for i in range(5)]))
    assert [x.item() for x in load_tensors(tmp_path / "ok.pickle", items=[3, 0])] == [3, 0]
    with pytest.raises(UnsafePickleError, match=r"cannot be read .*index out of range"):
        load_tensors(tmp_path / "ok.pickle", items=[5])


class Malicious:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("made-by-a-pickle",)


def test_code_is_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.pickle").write_bytes(pickle.dumps([Malicious()]))
    with pytest.raises(UnsafePickleError, match=r"mkdir"):
        load_tensors("bad.pickle")
    assert not Path("made-by-a-pickle").exists()


def test_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "cut.pickle").write_bytes(pickle.dumps([torch.ones(100)])[:60])
    with pytest.raises(UnsafePickleError, match="cannot be read"):
        load_tensors(tmp_path / "cut.pickle")


@pytest.mark.data
def test_zinc_reads(data_root: Path) -> None:
    molecules = load_tensors(data_root / "ZINC" / "raw" / "val.pickle")
    assert len(molecules) == 1000
    # The first validation molecule has 35 atoms (data README).
    assert int(molecules[0]["num_atom"]) == 35


def test_arrays_and_sparse_matrices_come_through(tmp_path: Path) -> None:
    dense = np.array([[0, 2.5, 0], [1, 0, 0]])
    (tmp_path / "csr").write_bytes(pickle.dumps(sp.csr_matrix(dense), protocol=4))
    assert load_arrays(tmp_path / "csr").to_matrix().toarray().tolist() == dense.tolist()
    (tmp_path / "array").write_bytes(pickle.dumps(np.arange(4, dtype=np.int32), protocol=4))
    assert load_arrays(tmp_path / "array").tolist() == [0, 1, 2, 3]
    (tmp_path / "graph").write_bytes(pickle.dumps(defaultdict(list, {0: [1], 1: [0]}), protocol=4))
    assert dict(load_arrays(tmp_path / "graph")) == {0: [1], 1: [0]}


def test_arrays_refuse_code_and_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad").write_bytes(pickle.dumps(defaultdict(list, {0: Malicious()}), protocol=4))
    with pytest.raises(UnsafePickleError, match=r"bad asks for .*mkdir"):
        load_arrays("bad")
    assert not Path("made-by-a-pickle").exists()
    Path("cut").write_bytes(pickle.dumps(np.ones(100), protocol=4)[:200])
    with pytest.raises(FileError, match="cut cannot be read"):
        load_arrays("cut")


def test_a_sparse_matrix_with_wrong_indices_is_refused(tmp_path: Path) -> None:
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices[0] = 7  # beyond the three columns: would be read out of bounds
    (tmp_path / "csr").write_bytes(pickle.dumps(matrix, protocol=4))
    with pytest.raises(ValueError, match=r"indices|index"):
        load_arrays(tmp_path / "csr").to_matrix()
