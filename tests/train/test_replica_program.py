"""A program of replicas equals a run by hand with torch's own optimiser, and keeps no more than it must."""

import gc
import weakref
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import rfp
from rfp.data import LoadedTask, load
from rfp.errors import ArgumentError
from rfp.nn import RFPModel
from rfp.nn.counted_draws import training_seed
from rfp.train.optimizer import ReplicaAdam
from rfp.train.replica_program import ReplicaProgram
from rfp.train.search import SearchSettings
from rfp.train.trained_replicas import Replica
from tests.train.club_replicas import REPLICAS, RFP, config, made, on_test_part, search_nodes


def test_a_trained_program_holds_its_weights_alone(club: LoadedTask) -> None:
    """No moments, kept weights, draws or masks: of a search that does not fit at once all programs stay."""
    program = made(config(), club, REPLICAS, seed=0)
    fixed: list[weakref.ref[torch.Tensor]] = []
    validate = program._validate

    def watched() -> tuple[torch.Tensor, torch.Tensor]:
        if not fixed:  # what an epoch works on
            several = [*program.optimizer.first, *program.optimizer.second, *program.optimizer.kept]
            several += [*program._training_draws.current, *program._fixed_draw, program._dropout._row]
            fixed.extend(weakref.ref(one) for one in several if one is not None)
        return validate()

    program._validate = watched  # type: ignore[method-assign]
    program.fit()
    assert len(fixed) > 3 * len(list(program.model.parameters()))
    assert not any(seen() is not None for seen in fixed)


def test_the_test_part_is_not_looked_at(club: LoadedTask) -> None:
    without = replace(club, masks={**club.masks, "test": torch.zeros_like(club.masks["test"])})
    found, expected = (made(config(), task, REPLICAS, seed=0) for task in (without, club))
    for program in (found, expected):
        program.fit()
    assert [one.best_val for one in found.trained()] == [one.best_val for one in expected.trained()]


@pytest.mark.parametrize("there_is_one", [False, True])
def test_the_kernel_updates_where_it_can(club: LoadedTask, monkeypatch: pytest.MonkeyPatch, there_is_one: bool) -> None:
    asked, updated = [], []
    monkeypatch.setattr(
        "rfp.train.replica_program.kernel_updates", lambda adam: asked.append(adam) is None and there_is_one
    )
    monkeypatch.setattr(ReplicaAdam, "_step_by_kernel", lambda adam, *rest: updated.append(adam))
    program = made(config(), club, REPLICAS, seed=0)
    program.fit()
    assert asked == [program.optimizer] * program.training.epochs
    assert updated == (asked if there_is_one else [])


@pytest.mark.parametrize("cut", [False, True])
def test_nothing_keeps_a_program_alive(club: LoadedTask, cut: bool) -> None:
    """Its memory is free when it is let go, without a search for cycles: the next one may need all there is."""

    def full(epoch: int) -> None:
        if cut and epoch == 2:
            raise torch.OutOfMemoryError("no room")

    gc.collect()
    gc.disable()
    try:
        program = made(config(), club, REPLICAS, seed=0)
        with pytest.raises(torch.OutOfMemoryError) if cut else nullcontext():
            program.fit(full)
        if not cut:
            assert all(p.grad is None for p in program.model.parameters())
        seen = weakref.ref(program)
        del program
        assert seen() is None
    finally:
        gc.enable()


def test_a_learned_operator_has_its_own_learning_rate(club: LoadedTask) -> None:
    encodings = [{**RFP, "operators": ["learned"]}]
    for factor in (0.0, 1.0):
        wanted = config(encodings=encodings, training={"operator_lr": factor})
        program = made(wanted, club, REPLICAS[:1], seed=0)
        before = {name: p.detach().clone() for name, p in program.model.named_parameters()}
        program._training_draws.begin(0)
        program._step()
        changed = {name for name, p in program.model.named_parameters() if not torch.equal(p, before[name])}
        drawn = {name for name in before if name.startswith("drawn.")}
        assert drawn
        assert bool(changed & drawn) == (factor > 0)
        assert changed - drawn


def test_equals_a_plain_loop_with_torch_s_adam(club: LoadedTask) -> None:
    run = config(dropout=0.0, training={"epochs": 4})
    program = made(run, club, [Replica(1, 0.02, 0.01)], seed=3)
    program.fit()
    torch.manual_seed(3)
    model = RFPModel(run.model_config(club, seed=3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=0.01)
    data, rows = club.data(), {part: club.rows(part, 1) for part in ("train", "val")}
    scores = []
    for _ in range(4):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(data)[rows["train"]], club.y[rows["train"]]).backward()
        optimizer.step()
        logits = model.eval()(data)[rows["val"]]
        loss = cross_entropy(logits, club.y[rows["val"]])
        scores.append(((logits.argmax(1) == club.y[rows["val"]]).double().mean().item(), -loss.item()))
    assert program.best_val[0] == pytest.approx(max(scores)[0])
    assert program.best_epoch[0] == scores.index(max(scores))


def test_weights_and_draws_follow_the_seed(club: LoadedTask) -> None:
    programs = [made(config(), club, REPLICAS[:2], seed=seed) for seed in (0, 1, 1)]
    for seed, program in zip((0, 1, 1), programs, strict=True):
        torch.manual_seed(seed)
        fresh = RFPModel(config().model_config(club, seed))
        assert program.model.drawn[0].settings.seed == seed
        for (name, p), expected in zip(program.model.named_parameters(), fresh.parameters(), strict=True):
            assert torch.equal(p[0].flatten(), expected.flatten()), name
            assert torch.equal(p[1].flatten(), expected.flatten()), name
    assert not torch.equal(programs[0].model.embed.weight, programs[1].model.embed.weight)
    assert torch.equal(programs[1].model.embed.weight, programs[2].model.embed.weight)


def test_training_draws_change_with_the_epoch_and_validation_keeps_one(club: LoadedTask) -> None:
    program = made(config(training={"epochs": 4}), club, REPLICAS[:1], seed=2)
    drawn: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    forward = program.model.forward

    def watched(data: Any, **given: Any) -> torch.Tensor:
        drawn[program.model.training].append(given["drawn"][0].clone())
        return forward(data, **given)

    program.model.forward = watched  # type: ignore[method-assign]
    program.fit()
    usual = rfp.encode(club.data(), num_channels=3, num_steps=2, seed=2).flat()
    assert len(drawn[True]) == len(drawn[False]) == 4
    assert all(torch.allclose(t, usual, atol=1e-5) for t in drawn[False])
    for number, t in enumerate(drawn[True]):
        expected = rfp.encode(club.data(), num_channels=3, num_steps=2, seed=training_seed(2, number)).flat()
        assert torch.allclose(t, expected, atol=1e-5)


def test_eval_draws_average_predictions(club: LoadedTask) -> None:
    program = made(config(training={"eval_draws": 3}), club, REPLICAS[:1], seed=0)
    program.fit()
    model = program.model.eval()
    usual = model.drawn[0].settings.seed
    mean = torch.zeros(())
    for seed in (usual, training_seed(usual, -2), training_seed(usual, -3)):
        model.drawn[0].settings = replace(model.drawn[0].settings, seed=seed)
        mean = mean + model(program.data, graph=program.graph).detach().softmax(-1)[0]
    rows = club.rows("test", 0)
    expected = (mean[rows].argmax(-1) == club.y[rows]).double().mean().item()
    model.drawn[0].settings = replace(model.drawn[0].settings, seed=usual)
    assert on_test_part(program, club)[0] == pytest.approx(expected)


def test_draws_are_averaged_as_probabilities(club: LoadedTask) -> None:
    """One draw that is very sure outweighs two others in the mean of logits, (8 - 2 - 2) / 3 > 0, but not in that of
    probabilities, (0.9997 + 0.119 + 0.119) / 3 < 1/2."""
    program = made(config(training={"eval_draws": 3}), club, REPLICAS[:1], seed=0)
    sure = iter([8.0, -2.0, -2.0])

    def answers(data: Any, **given: Any) -> torch.Tensor:
        return torch.tensor([next(sure), 0.0, -99.0, -99.0]).expand(1, club.num_rows, 4)

    program.model.forward = answers  # type: ignore[method-assign]
    assert program.predictions().tolist() == [[1] * club.num_rows]


def test_what_does_not_fit_is_refused() -> None:
    fake = {"class": "torch_geometric.datasets.FakeDataset", "args": {"num_graphs": 4, "avg_num_nodes": 5}}
    graphs = load({**fake, "random_split": [0.5, 0.25, 0.25]})
    with pytest.raises(ArgumentError, match=r'cannot train .*: it is no node task; use "lightning"'):
        made(config(), graphs, REPLICAS, seed=0)


def test_a_split_that_does_not_exist(club: LoadedTask) -> None:
    with pytest.raises(ArgumentError, match="split 3 of 'KarateClub' does not exist; expected 0 to 2"):
        search_nodes(config(), club, splits=[3])


def test_a_large_grid_is_sampled_and_what_cannot_be_built_is_said(club: LoadedTask) -> None:
    search = {"model.hidden_channels": [4, 8, 64], "training.lr": [0.01, 0.1]}
    lines: list[str] = []
    limited = config(search=search, max_parameters=2000, training={"epochs": 1})
    found = search_nodes(limited, club, splits=[0], say=lines.append)
    assert len(lines) == 1
    assert "'model.hidden_channels': 64" in lines[0]
    assert "more than max_parameters=2,000" in lines[0]
    assert [t.values["model.hidden_channels"] for t in found.trials] == [4, 4, 8, 8]
    one = search_nodes(
        config(search=search, training={"epochs": 1}),
        club,
        splits=[0],
        settings=SearchSettings(trials=1),
    )
    assert len({t.values["model.hidden_channels"] for t in one.trials}) == 1
    with pytest.raises(ArgumentError, match="no combination of the search could be trained"):
        search_nodes(limited.with_values({"model.max_parameters": 1}), club, splits=[0])


def test_what_does_not_fit_in_memory_is_trained_in_parts(club: LoadedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    search = {"training.lr": [0.05, 0.01]}
    whole = search_nodes(config(search=search), club, splits=[0, 1, 2])
    fit, sizes = ReplicaProgram.fit, []
    programs: list[weakref.ref[ReplicaProgram]] = []

    def limited(self: ReplicaProgram, *args: Any) -> None:
        sizes.append(len(self.replicas))
        if len(self.replicas) > 2:
            raise torch.OutOfMemoryError
        assert sum(program() is not None for program in programs) == 0  # none has its weights while the others train
        programs.append(weakref.ref(self))
        fit(self, *args)

    monkeypatch.setattr("rfp.train.replica_memory.available_memory", lambda: None)
    monkeypatch.setattr(ReplicaProgram, "fit", limited)
    parts = search_nodes(config(search=search), club, splits=[0, 1, 2])
    assert sizes == [6, 3, 2, 4, 2, 2]  # after one that fits a larger one is tried again, once
    assert [t.val for t in parts.trials] == pytest.approx([t.val for t in whole.trials])
    assert [r.metrics["test"] for r in parts.runs] == pytest.approx([r.metrics["test"] for r in whole.runs])
