"""Replicas on a CPU take no more memory than they may: how much they need is known before they are made."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rfp.data import LoadedTask
from rfp.nn import ModelConfig, RFPModel
from rfp.train import Workspace, run
from rfp.train.node_grid import NodeTrainer, train_nodes
from rfp.train.replica_memory import (
    LiveBytes,
    ReplicaMemoryError,
    ReplicaRoom,
    extrapolated,
    generous_guess,
    quick_number,
)
from rfp.train.replica_program import ReplicaProgram
from rfp.train.run_config import RunConfig
from rfp.train.trained_replicas import Replica, validation_scores
from tests.train.club_replicas import CPU, REPLICAS, RFP, config, made, search_nodes

SEARCH = {"training.lr": [0.05, 0.01]}
# So that weights are most of the memory.
WIDE = {"hidden_channels": 64}
PLENTY = 1 << 40


def test_what_is_alive_is_counted_once_and_let_go() -> None:
    before = torch.ones(100)
    with LiveBytes(PLENTY) as counted:
        weight = torch.ones(10, 10, requires_grad=True)  # 400 bytes
        same = weight.view(-1)[3:].detach()
        assert counted.now == 400
        hidden = (weight * 2).exp()  # 800: what is multiplied is not needed again, its exponential is
        assert counted.now == 800
        hidden.sum().backward()
        assert counted.now == 1200  # the gradient
        del hidden
        weight.grad = None
        assert counted.now == 400
        del weight, same
        before.clone()
    assert counted.now == 0
    assert max(counted.after) >= 1200


def test_it_stops_where_there_is_no_more() -> None:
    with LiveBytes(1000):
        held = [torch.zeros(100), torch.ones(100)]
        with pytest.raises(ReplicaMemoryError):
            held[0] + held[1]


def trained(run_config: RunConfig, task: LoadedTask) -> Callable[[int], None]:
    short = replace(run_config, training=replace(run_config.training, epochs=2))
    encodings: dict[str, torch.Tensor] = {}

    def train(count: int) -> None:
        ReplicaProgram(short, task, [Replica(0, 0.0, 0.0)] * count, device=CPU, encodings=encodings).fit()

    return train


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"input_dropout": 0.5, "encodings": [{"name": "sign", "num_steps": 3}], "backbone": "mlp", "norm": "layer"},
        {"trajectories": "dss", "encodings": [{**RFP, "num_trajectories": 2}], "embed": "both"},
        {"encodings": [{**RFP, "operators": ["learned"]}], "training": {"gradient_clip": 0.1, "optimizer": "adamw"}},
        {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 3}], "backbone": "graph_conv", "num_layers": 4},
    ],
    ids=["plain", "wide", "products and dss", "learned", "eigenvectors"],
)
def test_the_memory_of_many_follows_from_that_of_two_and_three(club: LoadedTask, changes: dict[str, Any]) -> None:
    wanted = config(**{**WIDE, **changes})
    train = trained(wanted, club)
    room = ReplicaRoom(train)
    for count in (1, 2, 5, 40):
        with LiveBytes(PLENTY) as counted:
            train(count)
        # The collector of garbage comes when it likes.
        assert room.needed(count) == pytest.approx(max(counted.after), rel=0.02, abs=30_000), count
        assert count * generous_guess(RFPModel(wanted.model_config(club)), club.num_rows) > 5 * max(counted.after)


def test_moments_that_do_not_match_are_taken_for_the_worst() -> None:
    assert extrapolated([10, 8], [11, 15, 9], 6) == 30
    assert extrapolated([10, 8, 5], [11, 15, 9], 6) == 8 + 4 * 7
    assert extrapolated([float("inf")], [float("inf")], 6) == float("inf")


def limited(monkeypatch: pytest.MonkeyPatch, room_for: int, task: LoadedTask) -> list[int]:
    """Leave memory for so many replicas; returns a list that gets the size of every program that is trained."""
    needed = ReplicaRoom(trained(config(**WIDE), task)).needed(room_for)
    monkeypatch.setattr("rfp.train.replica_memory.available_memory", lambda: int(1.2 * needed / 0.6))
    return sizes_of_programs(monkeypatch)


def sizes_of_programs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the size of every program that is trained."""
    sizes: list[int] = []
    fit = ReplicaProgram.fit

    def watched(self: ReplicaProgram, *tick: Any) -> None:
        if tick:  # not while it is counted
            sizes.append(len(self.replicas))
        fit(self, *tick)

    monkeypatch.setattr(ReplicaProgram, "fit", watched)
    return sizes


@pytest.mark.parametrize(
    ("room_for", "share", "expected"), [(6, 1.0, [6]), (4, 1.0, [3, 3]), (6, 0.5, [3, 3]), (1, 1.0, [1] * 6)]
)
def test_replicas_are_cut_to_the_memory_that_is_free(
    club: LoadedTask, monkeypatch: pytest.MonkeyPatch, room_for: int, share: float, expected: list[int]
) -> None:
    whole = search_nodes(config(search=SEARCH, **WIDE), club, splits=[0, 1, 2])
    sizes = limited(monkeypatch, room_for, club)
    trainer = NodeTrainer(config(search=SEARCH, **WIDE), club, CPU, memory_share=share)
    parts = train_nodes(trainer, seeds=[0], splits=[0, 1, 2])
    assert sizes == expected
    assert [t.val for t in parts.trials] == pytest.approx([t.val for t in whole.trials])
    assert [r.metrics for r in parts.runs] == [pytest.approx(r.metrics) for r in whole.runs]


def test_seeds_come_one_by_one_where_all_are_too_many(club: LoadedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = limited(monkeypatch, 4, club)
    found = search_nodes(config(**WIDE), club, splits=[0, 1, 2], seeds=[0, 1])
    assert sizes == [3, 3]
    assert [(r.seed, r.split) for r in found.runs] == [(seed, split) for seed in (0, 1) for split in range(3)]


def test_a_model_that_does_not_fit_ends_the_search_with_one_line(
    club: LoadedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not left out as a bad combination: with more memory it might be the best."""
    monkeypatch.setattr("rfp.train.replica_memory.available_memory", lambda: 50_000)
    with pytest.raises(ReplicaMemoryError, match=r"a model alone needs more than 3e-05 GB .* fewer --jobs$") as raised:
        search_nodes(config(search={"model.num_layers": [1, 2]}), club, splits=[0, 1])
    assert "\n" not in str(raised.value)
    with pytest.raises(ReplicaMemoryError):
        run(config(), workspace=Workspace(device="cpu"))


@pytest.mark.parametrize("free", [None, PLENTY], ids=["nobody knows", "surely enough"])
def test_counting_is_left_out_where_it_tells_nothing_and_changes_no_result(
    club: LoadedTask, monkeypatch: pytest.MonkeyPatch, free: int | None
) -> None:
    monkeypatch.setattr("rfp.train.node_grid.generous_guess", lambda model, num_nodes: PLENTY)
    counted = search_nodes(config(search=SEARCH), club, splits=[0, 1])
    monkeypatch.undo()
    monkeypatch.setattr("rfp.train.replica_memory.available_memory", lambda: free)
    monkeypatch.setattr(LiveBytes, "__torch_dispatch__", None)
    plain = search_nodes(config(search=SEARCH), club, splits=[0, 1])
    assert [(t.values, t.val) for t in counted.trials] == [(t.values, t.val) for t in plain.trials]
    assert [r.metrics for r in counted.runs] == [r.metrics for r in plain.runs]


def test_a_hopeless_learning_rate_does_not_keep_the_others_from_being_counted(club: LoadedTask) -> None:
    hopeless = config(search={"training.lr": [1e30, 0.01]}, training={"optimizer": "adamw", "weight_decay": 1.0})
    found = search_nodes(hopeless, club, splits=[0])
    assert found.runs[0].values == {"training.lr": 0.01}


@pytest.mark.parametrize("changes", [{}, {"encodings": [{**RFP, "operators": ["learned"]}]}])
def test_of_a_program_that_was_trained_no_weights_stay(club: LoadedTask, changes: dict[str, Any]) -> None:
    program = made(config(**changes), club, REPLICAS, seed=0)
    program.fit()
    weights = [weakref.ref(p) for p in program.model.parameters()]
    expected = program.predictions()
    trained = program.trained()
    assert [one.best_val for one in trained] == program.best_val
    del program
    assert not any(weight() is not None for weight in weights)
    assert torch.equal(torch.stack([one.predictions for one in trained]), expected)
    in_part = [club.masks["val"][:, one.replica.split] for one in trained]
    right = [(row == club.y)[mask].double().mean().item() for row, mask in zip(expected, in_part, strict=True)]
    assert validation_scores(trained, club) == pytest.approx(right)


def test_a_cpu_trains_as_many_together_as_have_states_that_are_not_fresh_every_time() -> None:
    def number(num_nodes: int, **model: Any) -> int:
        given = {"task": "node", "in_channels": 3, "out_channels": 2, "encodings": [RFP], **model}
        return quick_number(RFPModel(ModelConfig.from_dict(given)), num_nodes)

    # 2,708 nodes x 128 x 4 bytes are 1.39 MB: 24 of them are below 32 MiB, 25 are not.
    assert number(2_708, hidden_channels=128) == 24
    five = {"trajectories": "dss", "encodings": [{**RFP, "num_trajectories": 5}]}
    assert number(2_708, hidden_channels=128, **five) == 4
    assert number(65_536, hidden_channels=128) == 1  # exactly 32 MiB is too much for any, and one must be trained
    assert number(65_536, hidden_channels=64) == 1  # two of them would be exactly as much
    assert number(65_535, hidden_channels=64) == 2


@pytest.mark.parametrize(("quick", "expected"), [(12, [12]), (11, [6, 6]), (4, [4, 2, 4, 2])])
def test_what_is_quick_in_parts_is_trained_in_parts_with_the_same_scores(
    club: LoadedTask, monkeypatch: pytest.MonkeyPatch, quick: int, expected: list[int]
) -> None:
    splits, seeds = [0, 1, 2], [0, 1]
    whole = search_nodes(config(search=SEARCH), club, splits=splits, seeds=seeds)
    monkeypatch.setattr("rfp.train.node_grid.quick_number", lambda model, num_nodes: quick)
    sizes, ticks = sizes_of_programs(monkeypatch), list[tuple[int, int]]()
    trainer = NodeTrainer(config(search=SEARCH), club, CPU, lambda what, *far: ticks.append(far))
    parts = train_nodes(trainer, seeds=seeds, splits=splits)
    assert sizes == expected
    assert [t.val for t in parts.trials] == pytest.approx([t.val for t in whole.trials])
    assert [r.metrics for r in parts.runs] == [pytest.approx(r.metrics) for r in whole.runs]
    # How far it is counts all of them: it never falls back, and ends where all are done.
    assert ticks == sorted(ticks)
    assert ticks[-1] == (6, 6)


@pytest.mark.parametrize(("device", "expected"), [("cpu", [2, 2, 2]), ("meta", [6])])
def test_a_gpu_trains_all_together(
    club: LoadedTask, monkeypatch: pytest.MonkeyPatch, device: str, expected: list[int]
) -> None:
    """What is quick is so for a CPU; any other device has the largest program that fits."""
    sizes: list[int] = []

    class Program:
        def __init__(self, replicas: Sequence[Replica]) -> None:
            self.replicas = list(replicas)

        def fit(self, tick: Callable[[int], None]) -> None:
            sizes.append(len(self.replicas))

        def trained(self, *, predict: bool) -> list[Replica]:
            return self.replicas

    monkeypatch.setattr("rfp.train.node_grid.quick_number", lambda model, num_nodes: 2)
    monkeypatch.setattr(NodeTrainer, "_builder", lambda trainer, config, group: Program)
    trainer = NodeTrainer(config(search=SEARCH), club, torch.device(device))
    done = trainer.train({}, pairs=trainer.pairs, splits=[0, 1, 2], seeds=[0])
    assert [one.split for one in done] == [0, 1, 2, 0, 1, 2]
    assert sizes == expected
