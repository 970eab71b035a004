"""An epoch of replicas asks for nothing that is computed, nor brings anything: it can be recorded as a CUDA graph.

Seen without a GPU: the epoch runs on a CPU along the way it takes on a GPU, and whoever asks a tensor for a number, for
how many elements are not zero, or makes one of numbers of the host, gets an error in place of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rfp.backends.sparse import segments
from rfp.data import LoadedTask, load
from rfp.nn import learned_operator, replicated
from rfp.nn.replicated import dropout_masks
from rfp.train import RunConfig
from rfp.train.replica_program import ReplicaProgram
from rfp.train.trained_replicas import Replica

CLUB = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.4, 0.3, 0.3], "num_splits": 3}
MODEL = {"backbone": "gcn", "norm": "layer", "hidden_channels": 8, "num_layers": 2, "dropout": 0.5}
RFP = {"name": "rfp", "num_channels": 3, "num_steps": 3}
BOTH = {**RFP, "operators": ["normalized_laplacian", "normalized_adjacency"]}
LEARNED = {**RFP, "operators": ["learned"], "learned_heads": 1, "learned_form": "dense"}
ASKING = {
    *(getattr(Tensor, name) for name in ("tolist", "item", "numpy", "cpu", "nonzero", "masked_select", "unique")),
    *(getattr(Tensor, name) for name in ("__bool__", "__int__", "__float__", "__index__", "new_tensor")),
    *(getattr(torch, name) for name in ("nonzero", "masked_select", "unique", "bincount", "tensor", "as_tensor")),
}
REPEATING = {torch.repeat_interleave, Tensor.repeat_interleave}
INDEXING = {Tensor.__getitem__, Tensor.__setitem__}


class AskedError(AssertionError):
    """Somebody would have waited for a GPU."""


class NoAnswers(TorchFunctionMode):
    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in ASKING or (function in REPEATING and kwargs.get("output_size") is None):
            raise AskedError(str(function))
        if function in INDEXING and any(_is_chosen(part) for part in _parts(args[1])):
            raise AskedError(f"{function}: {args[1]}")
        return function(*args, **kwargs)


def _parts(index: Any) -> Iterable[Any]:
    return index if isinstance(index, tuple) else (index,)


def _is_chosen(part: Any) -> bool:
    """Whether an index is a mask, of unknown length, or a list, which is brought from the host."""
    return isinstance(part, list) or (isinstance(part, Tensor) and part.dtype == torch.bool)


@pytest.fixture(scope="module")
def club() -> LoadedTask:
    return load(CLUB)


def run_an_epoch(club: LoadedTask, num_seeds: int = 1, **changes: Any) -> ReplicaProgram:
    training = {"epochs": 3, "lr": 0.01, "gradient_clip": 1.0, **changes.pop("training", {})}
    values = {"data": CLUB, "model": {**MODEL, "encodings": [RFP], **changes}, "training": training}
    replicas = [Replica(split, 0.02, 0.01, seed) for seed in range(num_seeds) for split in (0, 1)]
    program = ReplicaProgram(RunConfig.from_dict(values), club, replicas, device=torch.device("cpu"))
    program.model.align(8)
    program.optimizer = program._adam()
    epoch, calls = program._epoch, 0

    def watched() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:  # makes what is kept, as do the epochs before a recording
            epoch()
        else:
            with NoAnswers():
                epoch()

    program._epoch = watched  # type: ignore[method-assign]
    program.fit()
    assert calls == 3
    return program


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_seeds": 2, "input_dropout": 0.5},
        {"num_seeds": 2, "trajectories": "dss", "encodings": [{**BOTH, "num_trajectories": 2}]},
        {"embed": "products", "backbone": "mlp", "residual": False},
        {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 3}], "training": {"optimizer": "adamw"}},
        {"encodings": [BOTH, LEARNED], "input_dropout": 0.5, "training": {"operator_lr": 0.1}},
        {"encodings": [BOTH, {**LEARNED, "normalization": "l2"}]},
        {"encodings": [{**LEARNED, "operators": ["normalized_adjacency", "learned"], "normalization": "none"}]},
        {"trajectories": "dss", "encodings": [{**one, "num_trajectories": 2} for one in (BOTH, LEARNED)]},
        {"embed": "products", "encodings": [BOTH, {**LEARNED, "start": "unit"}]},
        {"encodings": [{**LEARNED, "learned_form": "implicit", "learned_heads": 2}]},
    ],
    ids=lambda changes: " ".join(changes) or "plain",
)
def test_nothing_is_waited_for(club: LoadedTask, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_COPIES_ON", ("cpu",))
    monkeypatch.setattr(replicated, "_ROWS_FIRST_ON", ("cpu",))
    monkeypatch.setattr(learned_operator, "_GATHERED_ON", ("cpu",))
    monkeypatch.setattr(learned_operator, "LEARNED_MAX_NODES", 8)  # graphs of the tables are larger than those
    program = run_an_epoch(club, **changes)
    assert program._recordable
    assert len(set(program.best_val)) >= 1
    assert all(p.isfinite().all() for p in program.model.parameters())


def test_the_ladder_would_ask(club: LoadedTask) -> None:
    with pytest.raises(AskedError):
        run_an_epoch(club, encodings=[LEARNED])


@pytest.mark.parametrize(
    ("changes", "num_replicas"),
    [
        ({"num_channels": 65}, 2),
        ({"normalization": "inverse_gram"}, 2),
        ({"backend": "reference"}, 2),
        ({}, 1),
    ],
)
def test_what_cannot_be_recorded_is_not_tried(club: LoadedTask, changes: dict[str, Any], num_replicas: int) -> None:
    values = {"data": CLUB, "model": {**MODEL, "encodings": [{**LEARNED, **changes}]}, "training": {"lr": 0.01}}
    replicas = [Replica(split, 0.02, 0.01) for split in range(num_replicas)]
    assert not ReplicaProgram(RunConfig.from_dict(values), club, replicas, device=torch.device("cpu"))._recordable


def test_orthonormal_copies_give_the_same_training(club: LoadedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and gradients of the first step, along the way of a GPU and that of a CPU."""
    encodings = [{**one, "num_trajectories": 2} for one in (BOTH, LEARNED)]
    values = {"data": CLUB, "model": {**MODEL, "encodings": encodings, "trajectories": "dss"}, "training": {"lr": 0.01}}
    replicas = [Replica(split, 0.02, 0.01) for split in range(3)]
    found = []
    for on in (("cuda",), ("cpu",)):
        monkeypatch.setattr(segments, "_COPIES_ON", on)
        program = ReplicaProgram(RunConfig.from_dict(values), club, replicas, device=torch.device("cpu"))
        with torch.no_grad():  # S of a fresh operator is nearly of rank one, and then QR turns rounding into columns
            for operator in program.model.encoders[1].learned:
                operator.query.weight.mul_(8)
                operator.key.weight.mul_(8)
        program._training_draws.begin(0)
        program._dropout.begin(0)
        with dropout_masks(program._dropout):
            loss = program._step()
        found.append([loss, *(p.grad for p in program.model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=3e-5 * float(other.abs().max()))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_seeds": 2, "input_dropout": 0.5},
        {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 3}]},
        {"encodings": [BOTH, LEARNED]},
        {"trajectories": "dss", "encodings": [{**one, "num_trajectories": 2} for one in (BOTH, LEARNED)]},
    ],
    ids=lambda changes: " ".join(changes) or "plain",
)
def test_recorded_epochs_on_a_gpu(
    club: LoadedTask, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Recorded, launched one by one, and on a CPU: the same losses, from draws and masks that change every epoch."""
    for module in ("rfp.backends.learned", "rfp.nn.learned_operator"):
        monkeypatch.setattr(f"{module}.LEARNED_MAX_NODES", 8)  # as graphs of the tables, which are larger
    changes = dict(changes)
    num_seeds = changes.pop("num_seeds", 1)
    model = {**MODEL, "encodings": [RFP], **changes}
    replicas = [Replica(split, 0.01, 0.001, seed) for seed in range(num_seeds) for split in range(3)]
    config = RunConfig.from_dict({"data": CLUB, "model": model, "training": {"epochs": 8, "choose_by": "loss"}})
    losses, refused = [], []
    for device, recorded in (("cuda", True), ("cuda", False), ("cpu", False)):
        program = ReplicaProgram(config, club, replicas, device=torch.device(device))
        program._recordable = program._recordable and recorded
        with torch.no_grad():
            for operator in (one for encoder in program.model.encoders for one in encoder.learned):
                operator.query.weight.mul_(8)
                operator.key.weight.mul_(8)
        monkeypatch.setattr("rfp.train.replica_program._PRECISION", "highest")
        program.fit()
        losses.append(program._best_loss.cpu())
        refused.append(program.not_recorded)
    assert refused == ["", "not tried", "not tried"]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=0)
    torch.testing.assert_close(losses[0], losses[2], rtol=2e-2, atol=0)
    assert not [one for one in recwarn if "is wrong on" in str(one.message)]
