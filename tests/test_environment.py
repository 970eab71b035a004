"""The device by its name: one rule for every verb and every run."""

import pytest
import torch

from rfp.environment import find_device
from rfp.errors import ArgumentError


def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda:1")
    assert find_device("cpu") == torch.device("cpu")
    with pytest.raises(ArgumentError, match="device cuda:2 is not available: torch sees 2 GPUs here; use --device cpu"):
        find_device("cuda:2")


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")
    with pytest.raises(ArgumentError, match="device cuda is not available: torch sees 0 GPUs"):
        find_device("cuda")


@pytest.mark.parametrize("name", ["toaster", "mps", "cuda:x", ""])
def test_what_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="device must be auto, cpu, cuda or cuda:N, got "):
        find_device(name)
