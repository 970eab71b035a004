"""The settings print whole and know their width."""

import torch

from rfp.settings import Settings


def test_text_names_every_field() -> None:
    text = Settings(num_channels=3, operators=("adjacency",), storage_dtype=torch.float16).as_text()
    for part in ("num_channels=3", "num_steps=16", "operators=('adjacency',)", "normalize_every=1", "seed=0"):
        assert part in text
    assert "storage_dtype=torch.float16" in text
    assert text.count("=") == len(Settings.__dataclass_fields__)


def test_width() -> None:
    assert Settings(num_channels=3, num_steps=4, operators=("adjacency", "random_walk")).width == 30
