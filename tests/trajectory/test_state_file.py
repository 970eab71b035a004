"""What is saved is read back bit for bit; anything else is refused in one line."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import rfp

from .dense_twin import communities, directed_weighted


@pytest.mark.parametrize("storage_dtype", [None, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_loaded_trajectory_goes_on_as_the_saved_one(
    tmp_path: Path, storage_dtype: torch.dtype | None, weighted: bool
) -> None:
    graph = directed_weighted() if weighted else communities()
    n = graph.num_nodes
    t = rfp.encode(graph, num_channels=3, num_steps=2, num_trajectories=2, start="unit", storage_dtype=storage_dtype)
    t = t.extend([[n], [1]])
    t.save(tmp_path / "state.npz")
    loaded = rfp.Trajectory.load(tmp_path / "state.npz")
    assert loaded.settings == t.settings
    assert torch.equal(loaded.storage, t.storage)
    assert torch.equal(loaded.factors, t.factors)
    more = [[n + 1, n + 1], [n, 2]]
    assert torch.equal(loaded.extend(more).storage, t.extend(more).storage)


def test_what_has_no_name_is_not_saved(tmp_path: Path) -> None:
    t = rfp.encode(communities(), num_channels=2, num_steps=1, operators=[torch.eye(40)])
    with pytest.raises(rfp.ArgumentError, match="operators must be given by name"):
        t.save(tmp_path / "state.npz")
    assert not list(tmp_path.iterdir())


def saved(folder: Path) -> Path:
    path = folder / "state.npz"
    rfp.encode(communities(), num_channels=2, num_steps=1).save(path)
    return path


def rewrite(path: Path, **changed: object) -> None:
    """The same file with some arrays replaced (``None``: left out)."""
    with np.load(path) as content:
        arrays = {**dict(content), **changed}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("unpickled"),))


def test_pickles_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path)
    rewrite(path, storage=np.array([Evil()], dtype=object))
    with pytest.raises(rfp.FileError, match="damaged"):
        rfp.Trajectory.load(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(rfp.FileError, match="damaged"):
        rfp.Trajectory.load(path)
    assert not (tmp_path / "unpickled").exists()


def test_a_header_that_claims_more_than_there_is_allocates_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**14,)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("huge.npy", header.getvalue())
    with pytest.raises(rfp.FileError, match="claims more than it holds"):
        rfp.Trajectory.load(path)


def test_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    path = saved(tmp_path)
    whole = path.read_bytes()
    about = json.loads(np.load(path)["about"].tobytes())
    factors = np.load(path)["factors"]
    path.write_bytes(whole[: len(whole) // 2])
    broken = [path.read_bytes()]
    for changed in (
        {"factors": None},
        {"factors": factors[:, :1]},
        {"factors": factors * np.nan},
        {"storage": np.zeros((40, 1, 1, 2, 2))},
        {"edge_index": np.array([[0], [99]])},
        {"about": np.frombuffer(json.dumps({**about, "format": "rfp trajectory 9"}).encode(), np.uint8)},
        {"about": np.frombuffer(b"{", np.uint8)},
        {"about": np.frombuffer(b"[]", np.uint8)},
    ):
        path.write_bytes(whole)
        rewrite(path, **changed)
        broken.append(path.read_bytes())
    with np.load(io.BytesIO(whole)) as content:
        np.savez_compressed(path, **content)
    broken.append(path.read_bytes())
    for content_bytes in broken:
        path.write_bytes(content_bytes)
        with pytest.raises(rfp.FileError) as error:
            rfp.Trajectory.load(path)
        assert str(error.value).startswith(f"{path}: not a trajectory")
        assert "\n" not in str(error.value)
    with pytest.raises(rfp.FileError, match="no such file"):
        rfp.Trajectory.load(tmp_path / "none.npz")
