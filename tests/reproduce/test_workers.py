"""Training in other processes: the same result files, and errors that arrive as one line."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from rfp.errors import ArgumentError, FileError
from rfp.reproduce.execute import NoRoomError
from rfp.reproduce.workers import _ERRORS, _share_memory, _train, workers
from rfp.train import RunConfig, Workspace, run

CLUB = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.4, 0.3, 0.3], "num_splits": 2}
MODEL = {"backbone": "gcn", "norm": "none", "hidden_channels": 4, "num_layers": 1, "encodings": []}
CONFIG = RunConfig.from_dict({"name": "a", "data": CLUB, "model": MODEL, "training": {"epochs": 2}})


@pytest.mark.parametrize(("device", "number"), [("cuda", 0), ("cuda:1", 1)])
def test_processes_share_the_memory_of_a_gpu(device: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, int]] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *given: asked.append(given))
    _share_memory(torch.device(device), 1 / 4)
    _share_memory(torch.device("cpu"), 1 / 4)
    ((share, where),) = asked
    assert 0 < 4 * share < 1
    assert type(where) is int  # torch refuses "cuda" without its number
    assert where == number


def test_too_little_memory_is_one_line_and_what_was_kept_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch says it on a GPU that others use too."""
    said = (
        "CUDA out of memory. Tried to allocate 1.45 GiB. GPU 0 has a total capacity of 139.80 GiB of which 6.21 GiB is "
        "free. Process 510 has 66.00 MiB memory in use. Including non-PyTorch memory, this process has 64.07 GiB."
    )

    def fails(*args: Any, **more: Any) -> None:
        raise errors.pop(0)

    errors = [
        torch.OutOfMemoryError(said),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("a bug"),
    ]
    emptied: list[bool] = []
    monkeypatch.setattr("rfp.reproduce.workers.run", fails)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    kind, reason = _train(CONFIG.to_dict(), [0], [0], {}, 1.0) or ("", "")
    assert reason == f"{said[: said.index('. Process')]}; use fewer --jobs, or lower rfp.reproduce.hyperparameters"
    assert emptied == [True]
    assert _ERRORS[kind] is NoRoomError
    kind, _ = _train(CONFIG.to_dict(), [0], [0], {}, 1.0) or ("", "")
    assert _ERRORS[kind] is NoRoomError
    with pytest.raises(RuntimeError, match="a bug"):
        _train(CONFIG.to_dict(), [0], [0], {}, 1.0)


def test_processes_share_memory_until_one_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float]] = []

    class Pool:
        def __init__(self, *given: Any, **named: Any) -> None: ...

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *error: object) -> None: ...

        def submit(self, train: Any, config: Any, seeds: Any, splits: Any, where: Any, share: float) -> Future[None]:
            asked.append((Workspace(**where).memory_share, share))
            run(CONFIG, splits=[0], workspace=Workspace(**where))
            done: Future[None] = Future()
            done.set_result(None)
            return done

    monkeypatch.setattr("rfp.reproduce.workers.ProcessPoolExecutor", Pool)
    with workers(4, Workspace(results=tmp_path, device="cpu", memory_share=0.5)) as train:
        train(CONFIG, [0], [0])
        train(CONFIG, [0], [0], alone=True)
    assert asked == [(0.125, 0.25), (0.5, 1.0)]


def write_down(path: Path, what: str, done: int, total: int) -> None:
    with open(path, "a") as file:
        file.write(f"{what}: {done} of {total}\n")


@pytest.mark.slow
def test_results_and_errors_come_back_and_how_far_it_is(tmp_path: Path) -> None:
    here = run(CONFIG, workspace=Workspace(device="cpu"))
    tick = partial(write_down, tmp_path / "ticks")
    with workers(1, Workspace(results=tmp_path, device="cpu", tick=tick)) as train:
        there = train(CONFIG, [0], [0, 1])
        with pytest.raises(ArgumentError, match="split 5 of 'KarateClub' does not exist"):
            train(CONFIG, [0], [5])
        missing = CONFIG.with_values({"data": {"path": str(tmp_path / "none")}})
        with pytest.raises(FileError, match="no such file or folder"):
            train(missing, [0], [0])
    assert [r.metrics for r in there.runs] == [r.metrics for r in here.runs]
    assert len(list(tmp_path.rglob("*.json"))) == 1
    assert (tmp_path / "ticks").read_text() == "KarateClub a: 1 of 2\nKarateClub a: 2 of 2\n"


def test_replicas_that_find_too_little_memory_on_a_cpu_are_tried_again(tmp_path: Path) -> None:
    kind, reason = _train(CONFIG.to_dict(), [0], [0], {"results": tmp_path, "device": "cpu", "memory_share": 1e-9}, 1.0)
    assert _ERRORS[kind] is NoRoomError
    assert reason.startswith("out of memory: a model alone needs more than")
