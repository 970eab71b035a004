"""Every output format read back with the tools its users have."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from rfp.errors import FileError
from rfp.io.writers import EncodedNodes, find_writer, write_node_ids, write_npy, write_npz, write_parquet, write_pt

METADATA = json.dumps({"arguments": {"seed": 7}})
ONE = torch.arange(12.0).view(3, 4)
TWO = torch.arange(24.0).view(3, 2, 4)
NAMES = np.array(["ann", "bob, the", "zoë"], dtype=object)
PTR = torch.tensor([0, 2, 3])


def encoding(array: torch.Tensor = ONE, ids: np.ndarray | None = None, ptr: torch.Tensor | None = None) -> EncodedNodes:
    return EncodedNodes(array, ids, ptr, METADATA)


def written(write: object, content: EncodedNodes) -> io.BytesIO:
    file = io.BytesIO()
    write(file, content)  # type: ignore[operator]
    file.seek(0)
    return file


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("array", [ONE, TWO, ONE[:, ::2], torch.zeros(0, 4)])
def test_npy(array: torch.Tensor, dtype: torch.dtype) -> None:
    read = np.load(written(write_npy, encoding(array.to(dtype))))
    assert read.dtype == array.to(dtype).numpy().dtype
    assert np.array_equal(read, array.numpy())


def test_npz() -> None:
    read = np.load(written(write_npz, encoding(TWO, NAMES)), allow_pickle=False)
    assert np.array_equal(read["encoding"], TWO.numpy())
    assert read["node_ids"].tolist() == NAMES.tolist()
    assert json.loads(str(read["metadata"]))["arguments"]["seed"] == 7
    assert "ptr" not in read
    batch = np.load(written(write_npz, encoding(ptr=PTR)), allow_pickle=False)
    assert batch["ptr"].tolist() == [0, 2, 3]
    assert batch["node_ids"].tolist() == [0, 1, 0]


def test_pt() -> None:
    read = torch.load(written(write_pt, encoding(TWO, NAMES)), weights_only=True)
    assert torch.equal(read["encoding"], TWO)
    assert read["node_ids"] == NAMES.tolist()
    assert json.loads(read["metadata"])["arguments"]["seed"] == 7
    numbers = torch.load(written(write_pt, encoding(ids=np.array([5, 3, 9]), ptr=PTR)), weights_only=True)
    assert numbers["node_ids"].tolist() == [5, 3, 9]
    assert numbers["ptr"].tolist() == [0, 2, 3]


def test_pt_stores_a_view_alone() -> None:
    large = torch.zeros(1000, 1000)
    assert len(written(write_pt, encoding(large[:, 0])).getvalue()) < 20_000


def test_parquet() -> None:
    file = written(write_parquet, encoding(ids=NAMES))
    frame = pd.read_parquet(file)
    assert frame["node"].tolist() == NAMES.tolist()
    assert np.array_equal(np.stack(frame["encoding"]), ONE.numpy())
    assert json.loads(pq.read_schema(file).metadata[b"rfp"])["arguments"]["seed"] == 7


def test_parquet_of_a_batch_with_several_trajectories() -> None:
    frame = pd.read_parquet(written(write_parquet, encoding(TWO, ptr=PTR)))
    assert list(frame.columns) == ["graph", "node", "encoding_0", "encoding_1"]
    assert frame["graph"].tolist() == [0, 0, 1]
    assert frame["node"].tolist() == [0, 1, 0]
    assert np.array_equal(np.stack(frame["encoding_1"]), TWO[:, 1].numpy())


def test_parquet_in_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.io.writers._ROW_GROUP_BYTES", 2 * 16)
    file = written(write_parquet, encoding())
    assert pq.ParquetFile(file).num_row_groups == 2
    assert np.array_equal(np.stack(pd.read_parquet(file)["encoding"]), ONE.numpy())


def test_node_ids_as_csv() -> None:
    assert pd.read_csv(written(write_node_ids, encoding(ids=NAMES)))["node"].tolist() == NAMES.tolist()
    batch = pd.read_csv(written(write_node_ids, encoding(ptr=PTR)))
    assert batch.to_dict("list") == {"graph": [0, 0, 1], "node": [0, 1, 0]}


@pytest.mark.parametrize("ids", [None, np.array([7, 8, 10**12]), np.array(['say "hi"', "", "a,b\nc"], dtype=object)])
@pytest.mark.parametrize("ptr", [None, PTR])
def test_few_node_ids_are_written_as_arrow_writes_them(
    ids: np.ndarray | None, ptr: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = written(write_node_ids, encoding(ids=ids, ptr=ptr)).read()
    monkeypatch.setattr("rfp.io.writers._FEW_ROWS", -1)
    assert few == written(write_node_ids, encoding(ids=ids, ptr=ptr)).read()


def test_suffixes() -> None:
    assert find_writer(Path("a.NPY")) is write_npy
    with pytest.raises(FileError, match=r"must end in .npy, .npz, .parquet, .pt"):
        find_writer(Path("a.csv"))


class FullDisk(io.RawIOBase):
    """Takes a few bytes, then has no space."""

    def __init__(self) -> None:
        self.room = 100

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data: object) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        if size > self.room:
            raise OSError(28, "No space left on device")
        self.room -= size
        return size


@pytest.mark.parametrize("write", [write_npy, write_npz, write_parquet, write_pt, write_node_ids])
def test_a_full_disk_is_an_os_error_from_every_writer(write: object) -> None:
    large = EncodedNodes(torch.randn(1000, 100), np.arange(1000) * 7, None, METADATA)
    with pytest.raises(OSError, match="No space left on device") as error:
        write(FullDisk(), large)  # type: ignore[operator]
    assert error.value.errno == 28
