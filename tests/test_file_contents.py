"""What a file holds: an encoding or FastRP's embedding, by the faces of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import rfp
from rfp.baselines.fastrp import FastRP, fast_random_projection
from rfp.errors import ArgumentError, FileError
from rfp.file_contents import Contents, EncodingContents, FastRPContents

RING = rfp.Graph(torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]]), num_nodes=4)
SETTINGS = rfp.Settings(num_channels=2, num_steps=3, num_trajectories=2, backend="reference")
PARAMETERS = FastRP(embedding_dimension=6, iteration_weights=(0.0, 1.0, 0.5), seed=3)


def rows(contents: Contents) -> tuple[torch.Tensor, int]:
    """The rows, and how many steps were told of."""
    told: list[int] = []
    array, _ = contents.rows(RING, told.append)
    return array, sum(told)


@pytest.mark.parametrize(("keep", "steps"), [("all", [0, 1, 2, 3]), ("last", [3]), ((2, 0), [0, 2])])
def test_an_encoding_holds_the_steps_that_are_kept(keep: str | tuple[int, ...], steps: list[int]) -> None:
    contents = EncodingContents(SETTINGS, keep)
    assert contents.kept == steps
    array, told = rows(contents)
    whole = rfp.encode(RING, SETTINGS).states  # [B, n, P + 1, k]
    assert torch.equal(array, whole[:, :, steps].flatten(2).transpose(0, 1))
    assert told == 3
    about, output = contents.describe(4, "ring.npy")
    assert output["shape"] == [4, 2, 2 * len(steps)]
    assert [block["step"] for block in output["layout"]] == steps
    assert about.get("steps_kept") == (None if keep == "all" else steps)


def test_one_trajectory_has_no_axis_of_its_own() -> None:
    array, _ = rows(EncodingContents(rfp.Settings(num_channels=2, num_steps=1)))
    assert array.shape == (4, 4)


def test_steps_that_are_not_there_are_refused() -> None:
    with pytest.raises(ArgumentError, match="keep"):
        EncodingContents(SETTINGS, (7,)).kept  # noqa: B018


def test_fastrp_holds_the_sum_of_its_steps() -> None:
    contents = FastRPContents(PARAMETERS, rfp.Settings(storage_dtype=torch.float16))
    array, told = rows(contents)
    assert torch.equal(array, fast_random_projection(RING, PARAMETERS).half())
    assert told == 3
    about, output = contents.describe(4, "ring.npy")
    assert (output["shape"], output["dtype"]) == ([4, 6], "float16")
    assert output["layout"] == [{"operator": "fastrp", "step": "weighted sum", "start": 0, "stop": 6}]
    assert (about["preset"], about["iteration_weights"], about["seed"]) == ("fastrp", [0.0, 1.0, 0.5], 3)
    assert "operators" not in about


def test_fastrp_starts_from_features_in_a_file(tmp_path: Path) -> None:
    file, own = tmp_path / "x.npy", FastRP(embedding_dimension=4, iteration_weights=(1.0,), property_ratio=0.5)
    np.save(file, np.arange(8.0).reshape(4, 2))
    array, _ = rows(FastRPContents(own, rfp.Settings(), str(file)))
    x = torch.arange(8.0, dtype=torch.float64).view(4, 2)
    assert torch.equal(array, fast_random_projection(RING, own, x=x))
    np.save(file, np.ones((3, 2)))
    with pytest.raises(FileError, match="a row for each of the 4 nodes"):
        rows(FastRPContents(own, rfp.Settings(), str(file)))
