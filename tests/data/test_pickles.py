"""Tensors come through; anything that could run does not."""

import os
import pickle
from pathlib import Path

import pytest
import torch

from rfp.data.pickles import UnsafePickleError, load_tensors


def test_tensors_in_containers(tmp_path: Path) -> None:
    content = [{"x": torch.arange(6).view(2, 3), "n": 2}, {"x": torch.tensor([0.5]), "n": 1}]
    (tmp_path / "ok.pickle").write_bytes(pickle.dumps(content))
    read = load_tensors(tmp_path / "ok.pickle")
    assert torch.equal(read[0]["x"], content[0]["x"])
    assert read[1]["x"].item() == 0.5
    assert [row["n"] for row in read] == [2, 1]


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
