"""Checkpoint files: whole, plain, and of the right run."""

from pathlib import Path

import pytest
import torch

from rfp.errors import FileError
from rfp.train.checkpoints import check_identity, identity, read_checkpoint, write_checkpoint
from rfp.train.run_config import RunConfig


def config(**training: object) -> RunConfig:
    return RunConfig.from_dict(
        {"data": "counting-generated", "model": {"encodings": [{"name": "rfp"}]}, "training": training}
    )


def test_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "last.ckpt"
    write_checkpoint({"rfp": identity(config(), 3, 0), "weights": torch.arange(4)}, path)
    content = read_checkpoint(path)
    assert content["weights"].tolist() == [0, 1, 2, 3]
    assert content["rfp"]["seed"] == 3
    assert [file.name for file in path.parent.iterdir()] == ["last.ckpt"]


def test_a_failed_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    write_checkpoint({"rfp": identity(config(), 0, 0)}, path)
    with pytest.raises(Exception, match="pickle"):
        write_checkpoint({"rfp": lambda: None}, path)
    assert read_checkpoint(path)["rfp"]["split"] == 0
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"broken", b"PK\x03\x04" + bytes(100)])
def test_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "last.ckpt"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"last\.ckpt: damaged checkpoint .* remove the file"):
        read_checkpoint(path)


def test_no_code_is_run(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    torch.save({"rfp": config()}, path)  # a class that plain loading refuses to build
    with pytest.raises(FileError, match="damaged checkpoint"):
        read_checkpoint(path)


@pytest.mark.parametrize("content", [{"state_dict": {}}, {"rfp": 1}, [1]])
def test_of_something_else(tmp_path: Path, content: object) -> None:
    path = tmp_path / "other.ckpt"
    torch.save(content, path)
    with pytest.raises(FileError, match="not a checkpoint of this version"):
        read_checkpoint(path)


def test_identity() -> None:
    content = {"rfp": identity(config(lr=0.1), 1, 2)}
    check_identity(Path("a"), content, config(lr=0.1), 1, 2)
    with pytest.raises(FileError, match=r"another run: training\.lr is 0\.1 there and 0\.2 here\. Choose"):
        check_identity(Path("a"), content, config(lr=0.2), 1, 2)
    with pytest.raises(FileError, match=r"seed is 1 there and 5 here; split is 2 there and 0 here; .* and 1 more"):
        check_identity(Path("a"), content, config(lr=0.2, epochs=9), 5, 0)


def test_a_checkpoint_from_before_an_option_was_added_is_continued() -> None:
    """An option that a checkpoint does not have was at its default, as in the key of its config."""
    own = identity(config(lr=0.1), 1, 2)
    older = {**own["config"], "training": {"lr": 0.1}}
    older["data"] = {"name": own["config"]["data"]["name"]}
    content = {"rfp": {**own, "config": older}}
    check_identity(Path("a"), content, config(lr=0.1), 1, 2)
    with pytest.raises(FileError, match=r"another run: training\.operator_lr is 1\.0 there and 0\.5 here\. Choose"):
        check_identity(Path("a"), content, config(lr=0.1, operator_lr=0.5), 1, 2)


@pytest.mark.parametrize("unknown", [{"trainig": {}}, {"training": {"momentum": 1}}, {"data": 3}, {"training": 3}])
def test_a_checkpoint_of_a_config_that_is_not_known(unknown: dict[str, object]) -> None:
    own = identity(config(), 0, 0)
    content = {"rfp": {**own, "config": {**own["config"], **unknown}}}
    with pytest.raises(FileError, match=r"a: the config of this checkpoint cannot be read \(.*Choose another folder"):
        check_identity(Path("a"), content, config(), 0, 0)
