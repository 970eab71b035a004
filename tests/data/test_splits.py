"""Masks are disjoint, of the right size, and repeatable."""

import pytest
import torch

from rfp.data.splits import check_disjoint, masks_of_rows, random_masks
from rfp.errors import ArgumentError


def test_random_splits_repeat_and_extend() -> None:
    one = random_masks(50, (0.6, 0.2, 0.2), seed=3)
    three = random_masks(50, (0.6, 0.2, 0.2), num_splits=3, seed=3)
    assert all(torch.equal(one[part][:, 0], three[part][:, 0]) for part in one)
    assert not torch.equal(three["train"][:, 0], three["train"][:, 1])
    assert not torch.equal(one["train"], random_masks(50, (0.6, 0.2, 0.2), seed=4)["train"])
    assert [int(three[part].sum()) for part in ("train", "val", "test")] == [90, 30, 30]
    check_disjoint(three, "random")


def test_random_splits_keep_to_labelled_rows_and_may_leave_some_out() -> None:
    usable = torch.arange(20) % 2 == 0
    masks = random_masks(20, (0.5, 0.2, 0.1), usable=usable)
    assert [int(masks[part].sum()) for part in ("train", "val", "test")] == [5, 2, 1]
    assert not bool(masks["train"][~usable].any())


@pytest.mark.parametrize("fractions", [(0.8, 0.2), (0.8, 0.3, 0.1), (1.0, 0.0, 0.0), (0.5, -0.1, 0.2)])
def test_wrong_fractions(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match="three positive fractions"):
        random_masks(10, fractions)


def test_too_few_rows() -> None:
    with pytest.raises(ArgumentError, match="leaves a part empty"):
        random_masks(3, (0.9, 0.05, 0.05))
    with pytest.raises(ArgumentError, match="num_splits"):
        random_masks(30, (0.8, 0.1, 0.1), num_splits=0)


def rows(**parts: list[int]) -> dict[str, torch.Tensor]:
    return {part: torch.tensor(index) for part, index in parts.items()}


def test_given_rows_are_checked() -> None:
    assert masks_of_rows(rows(train=[2], val=[1], test=[0]), 4, "x")["train"].tolist() == [[0], [0], [1], [0]]
    with pytest.raises(ArgumentError, match="x: test holds row 4, expected 0 to 3"):
        masks_of_rows(rows(train=[2], val=[1], test=[4]), 4, "x")
    with pytest.raises(ArgumentError, match="row 1 is in two of train, val and test of split 0"):
        masks_of_rows(rows(train=[2, 1], val=[1], test=[0]), 4, "x")
    with pytest.raises(ArgumentError, match="no val rows"):
        masks_of_rows(rows(train=[2, 1], val=[], test=[0]), 4, "x")
