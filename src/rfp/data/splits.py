"""Train, validation and test as masks ``[rows, num_splits]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rfp.data.tasks import PARTS
from rfp.errors import ArgumentError


def masks_of_rows(rows: Mapping[str, Tensor], count: int, source: str) -> dict[str, Tensor]:
    """One split from the numbers of its rows; raises if one is out of range or in two parts.

    Example:
        >>> masks = masks_of_rows({"train": torch.tensor([2, 0]), "val": torch.tensor([1]), "test": torch.tensor([3])},
        ...                       count=4, source="example")
        >>> masks["train"].squeeze(1).tolist()
        [True, False, True, False]
    """
    masks = {}
    for part in PARTS:
        index = rows[part].long()
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= count):
            raise ArgumentError(f"{source}: {part} holds row {int(index.max())}, expected 0 to {count - 1}")
        masks[part] = torch.zeros(count, 1, dtype=torch.bool)
        masks[part][index] = True
    check_disjoint(masks, source)
    return masks


def masks_of_consecutive(sizes: Sequence[int]) -> dict[str, Tensor]:
    """One split of rows that come in the order train, val, test.

    Example:
        >>> {part: mask.squeeze(1).tolist() for part, mask in masks_of_consecutive([1, 0, 1]).items()}
        {'train': [True, False], 'val': [False, False], 'test': [False, True]}
    """
    number = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    return {part: (number == i)[:, None] for i, part in enumerate(PARTS)}


def random_masks(
    count: int, fractions: Sequence[float], *, num_splits: int = 1, seed: int = 0, usable: Tensor | None = None
) -> dict[str, Tensor]:
    """Random splits; the same seed gives the same ones, and more of them begin with those of fewer.

    Args:
        count: Number of rows.
        fractions: Fractions of train, val and test; they may leave rows out.
        num_splits: How many.
        seed: Any integer.
        usable: ``[count]`` bool, rows that have a label; ``None`` for all.

    Example:
        >>> {part: int(mask.sum()) for part, mask in random_masks(10, (0.6, 0.2, 0.2)).items()}
        {'train': 6, 'val': 2, 'test': 2}
    """
    if len(fractions) != 3 or min(fractions) <= 0 or sum(fractions) > 1 + 1e-9:
        raise ArgumentError(
            f"random_split must be three positive fractions of at most 1 in all, such as [0.8, 0.1, 0.1], got "
            f"{list(fractions)}"
        )
    if num_splits < 1:
        raise ArgumentError(f"num_splits must be at least 1, got {num_splits}")
    rows = torch.arange(count) if usable is None else usable.nonzero().squeeze(1)
    ends = [round(len(rows) * sum(fractions[: i + 1])) for i in range(3)]
    starts = [0, *ends[:2]]
    if any(start == end for start, end in zip(starts, ends, strict=True)):
        raise ArgumentError(f"random_split {list(fractions)} of {len(rows)} labelled rows leaves a part empty")
    masks = {part: torch.zeros(count, num_splits, dtype=torch.bool) for part in PARTS}
    generator = torch.Generator().manual_seed(seed)
    for split in range(num_splits):
        order = rows[torch.randperm(len(rows), generator=generator)]
        for part, start, end in zip(PARTS, starts, ends, strict=True):
            masks[part][order[start:end], split] = True
    return masks


def check_disjoint(masks: Mapping[str, Tensor], source: str) -> None:
    """Raise if a row is in two parts of a split, or a split has an empty part."""
    times = sum(masks[part].long() for part in PARTS)
    twice = torch.as_tensor(times > 1).nonzero()
    if len(twice):
        row, split = twice[0].tolist()
        raise ArgumentError(f"{source}: row {row} is in two of train, val and test of split {split}")
    for part in PARTS:
        if not bool(masks[part].any(dim=0).all()):
            raise ArgumentError(f"{source}: a split has no {part} rows; every split needs train, val and test")
