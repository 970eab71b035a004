"""Checkpoints: written whole or not at all, read without running any code in them, checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rfp.atomic import atomic_files
from rfp.errors import ArgumentError, FileError
from rfp.train.run_config import RunConfig

LAST, BEST = "last.ckpt", "best.ckpt"
CHECKPOINT_FORMAT = "rfp-checkpoint-2"
# A run killed between two savings repeats the epochs since the last one, with the same result.
SAVE_EVERY_SECONDS = 15.0
# Key of what a checkpoint is of; beside it the weights and the state of the optimiser.
OWN = "rfp"


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The plain values and tensors of a checkpoint, on the CPU.

    Raises:
        FileError: It cannot be read, is damaged, or is of something else.
    """
    content = _plain_content(path)
    own = content.get(OWN) if isinstance(content, dict) else None
    if not isinstance(own, dict) or own.get("format") != CHECKPOINT_FORMAT:
        raise FileError(f"{path}: not a checkpoint of this version of rfp; remove it, or choose another folder")
    return dict(content)


def _plain_content(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load names no exception type: what is no pickle fails in any way
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(
            f"{path}: damaged checkpoint ({reason}); remove the file to start this run from the beginning"
        ) from error


def write_checkpoint(content: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint; until it is complete, a file of that name stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_files([path]) as (file,):
        torch.save(dict(content), file)


def identity(config: RunConfig, seed: int, split: int, data: str = "") -> dict[str, Any]:
    """What a checkpoint must have been made with to be continued.

    Args:
        config: Of the run.
        seed: Of the run.
        split: Of the run.
        data: Digest of data of one's own.
    """
    return {"format": CHECKPOINT_FORMAT, "config": config.to_dict(), "seed": seed, "split": split, "data": data}


def check_data(path: Path, there: str, here: str) -> None:
    """Raise if what a file holds was made with other data than there are now under the same name.

    Args:
        path: The file.
        there: Digest of its data; of a file that is older than digests none.
        here: Digest of the data.

    Raises:
        FileError: They differ.
    """
    if there and here and there != here:
        raise FileError(
            f"{path}: made with other data: the files that data.path names have changed since. Begin anew with "
            "--no-resume (resume=False), or choose another folder"
        )


def check_identity(
    path: Path, content: Mapping[str, Any], config: RunConfig, seed: int, split: int, data: str = ""
) -> None:
    """Raise if a checkpoint is of another run.

    Raises:
        FileError: Naming what differs.
    """
    own = content[OWN]
    check_data(path, own.get("data", ""), data)
    there = {**_flat(_with_defaults(path, own["config"])), "seed": own["seed"], "split": own["split"]}
    here = {**_flat(config.to_dict()), "seed": seed, "split": split}
    there.pop("name", None), here.pop("name", None)
    missing = "nothing"
    different = [
        f"{key} is {there.get(key, missing)!r} there and {here.get(key, missing)!r} here"
        for key in sorted({*there, *here})
        if there.get(key, missing) != here.get(key, missing)
    ]
    if different:
        raise FileError(
            f"{path}: the checkpoint is of another run: {'; '.join(different[:3])}"
            f"{f' and {len(different) - 3} more' if len(different) > 3 else ''}. Choose another folder, or remove it"
        )


def _with_defaults(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """A config as this version writes it: options that were added since are at their defaults, as in its key."""
    try:
        return RunConfig.from_dict(values).to_dict()
    except (ArgumentError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: the config of this checkpoint cannot be read ({error}). Choose another folder, or remove it"
        ) from error


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings and lists as dotted keys."""
    if isinstance(values, Mapping):
        items = values.items()
    elif isinstance(values, list | tuple):
        items = enumerate(values)  # type: ignore[assignment]
    else:
        return {prefix: values}
    flat: dict[str, Any] = {}
    for key, value in items:
        flat |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return flat
