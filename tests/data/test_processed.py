"""What was kept comes back the same; what is damaged is made again; a closed cache is no obstacle."""

from pathlib import Path

import pytest
import torch

from rfp.data.loaded import LoadedTask
from rfp.data.processed import content_key, load_or_read

from .test_loaded import graph_task


def must_not_read() -> LoadedTask:
    raise AssertionError("the raw files were read again")


def test_everything_comes_back(tmp_path: Path) -> None:
    made = graph_task()
    path = tmp_path / "new" / "entry.pt"
    assert load_or_read(path, made.task, lambda: made) is made
    again = load_or_read(path, made.task, must_not_read)
    assert again.source == made.source
    assert torch.equal(again.y, made.y)
    assert torch.equal(again.graphs.edge_index, made.graphs.edge_index)
    assert torch.equal(again.rows("test"), made.rows("test"))
    assert again.y_scale is not None
    assert again.y_scale.tolist() == [2.0, 4.0]
    torch.load(path, weights_only=True)  # plain tensors


def test_a_damaged_entry_is_made_again(tmp_path: Path) -> None:
    made = graph_task()
    path = tmp_path / "entry.pt"
    path.write_bytes(b"cut")
    with pytest.warns(UserWarning, match="made again"):
        assert load_or_read(path, made.task, lambda: made) is made
    assert torch.equal(load_or_read(path, made.task, must_not_read).y, made.y)


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="read but not kept.*RFP_CACHE"):
        load_or_read(tmp_path / "file" / "entry.pt", graph_task().task, graph_task)


def test_the_key_follows_name_and_content() -> None:
    keys = {content_key("a", {"f": "1"}), content_key("b", {"f": "1"}), content_key("a", {"f": "2"})}
    assert len(keys) == 3
    assert content_key("a", {"f": "1", "g": "2"}) == content_key("a", {"g": "2", "f": "1"})
