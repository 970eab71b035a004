"""Tensors in huge pages are tensors like others."""

import pytest
import torch

from rfp import pages


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("least", [0, 1 << 40])
def test_holds_what_is_written_and_outlives_its_name(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, least: int):
    monkeypatch.setattr(pages, "LEAST_BYTES", least)
    made = pages.empty(3, 5, 7, dtype=dtype)
    assert (made.shape, made.dtype, made.is_contiguous()) == ((3, 5, 7), dtype, True)
    made.copy_(torch.arange(105).view(3, 5, 7))
    part = made[1:, ::2]
    del made
    assert part[1, 1].tolist() == list(range(84, 91))


def test_states_start_at_a_cache_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LEAST_BYTES", 1)
    assert pages.empty(100, dtype=torch.float32).data_ptr() % 64 == 0


def test_nothing_and_other_devices_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LEAST_BYTES", 1)
    assert pages.empty(0, 4, dtype=torch.float32).shape == (0, 4)
    assert pages.empty(4, dtype=torch.float32, device="meta").device.type == "meta"


def test_a_system_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LEAST_BYTES", 1)
    monkeypatch.delattr("mmap.MADV_HUGEPAGE", raising=False)
    assert pages.empty(4, dtype=torch.float32).zero_().tolist() == [0.0] * 4
