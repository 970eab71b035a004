"""Training together equals training alone, and a run by hand with torch's own optimiser."""

import gc
import math
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import rfp
from rfp.data import LoadedTask, load
from rfp.errors import ArgumentError, NumericalError
from rfp.nn import RFPModel
from rfp.nn.counted_draws import training_seed
from rfp.nn.replicated import dropout_masks
from rfp.train import RunConfig, node_grid
from rfp.train.node_grid import NodeTrainer, Searched, train_nodes
from rfp.train.replica_program import Replica, ReplicaProgram, examine
from rfp.train.run_history import RunHistory, scheduled_factor
from rfp.train.search import SearchSettings

CPU = torch.device("cpu")
CLUB = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.4, 0.3, 0.3], "num_splits": 3}
MODEL = {"backbone": "gcn", "norm": "none", "hidden_channels": 8, "num_layers": 2, "dropout": 0.5}
RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2}


@pytest.fixture(scope="module")
def club() -> LoadedTask:
    return load(CLUB)


def config(*, search: dict[str, Any] | None = None, **changes: Any) -> RunConfig:
    training = {"epochs": 6, "lr": 0.01, **changes.pop("training", {})}
    model = {**MODEL, "encodings": [RFP], **changes}
    return RunConfig.from_dict({"data": CLUB, "model": model, "training": training, "search": search or {}})


def made(run: RunConfig, task: LoadedTask, replicas: Sequence[Replica], *, seed: int) -> ReplicaProgram:
    return ReplicaProgram(run, task, [replace(replica, seed=seed) for replica in replicas], device=CPU)


def search_nodes(run: RunConfig, task: LoadedTask, *, splits: list[int], **more: Any) -> Searched:
    return train_nodes(NodeTrainer(run, task, CPU), seeds=more.pop("seeds", [0]), splits=splits, **more)


def on_test_part(program: ReplicaProgram, task: LoadedTask) -> list[float]:
    return examine(program, program.predictions(), task, range(len(program.replicas)))


REPLICAS = [Replica(split, lr, decay) for split in (0, 2) for lr, decay in ((0.05, 0.0), (0.01, 0.1))]


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
    expected = program.predictions()
    program.rest()
    assert torch.equal(program.predictions(), expected)


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


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training": {"optimizer": "adamw", "schedule": "cosine", "warmup_epochs": 2, "gradient_clip": 0.1}},
        {"trajectories": "dss", "encodings": [{**RFP, "num_trajectories": 2, "operators": ["learned"]}]},
        {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 3}], "input_dropout": 0.3},
    ],
    ids=["plain", "schedule and clipping", "learned and dss", "eigenvectors"],
)
def test_a_replica_does_not_depend_on_its_company(club: LoadedTask, changes: dict[str, Any]) -> None:
    """Step by step: from equal weights, the loss and the gradient of a replica are those it would have alone.

    Weights are handed over after every step: Adam divides a gradient by its own size, so the order of a sum, which is
    all that company changes, would grow to a whole step wherever a gradient is nothing but rounding.
    """
    together, *alone = (
        sharpened(made(config(**changes), club, replicas, seed=5))
        for replicas in (REPLICAS, *([replica] for replica in REPLICAS))
    )
    for epoch in range(4):
        losses = steps(together, alone, epoch)
        assert torch.allclose(losses[0], losses[1], rtol=1e-5)
        for (name, p), *ones in zip(
            together.model.named_parameters(), *(a.model.parameters() for a in alone), strict=True
        ):
            grads = torch.cat([one.grad for one in ones]) if p.grad is not None else None
            assert all((one.grad is None) == (p.grad is None) for one in ones)
            if grads is not None:
                # Relative to the largest of the tensor: a sum of terms that cancel is known to their rounding only.
                assert torch.allclose(p.grad, grads, rtol=1e-4, atol=3e-5 * float(grads.abs().max())), name
            with torch.no_grad():
                for r, one in enumerate(ones):
                    one[0].copy_(p[r])
        validated = []
        for program in (together, *alone):
            program._fixed_draw = program._evaluation_draws.number(0)
            validated.append(torch.stack(program._validate()))
        assert torch.allclose(validated[0], torch.cat(validated[1:], dim=1), rtol=1e-5)


def sharpened(program: ReplicaProgram) -> ReplicaProgram:
    """With attention that is far from uniform: S of a fresh operator is nearly of rank one, and then QR turns rounding
    into columns."""
    with torch.no_grad():
        for operator in (op for encoder in program.model.drawn for op in encoder.learned):
            operator.query.weight.mul_(8)
            operator.key.weight.mul_(8)
    return program


def steps(together: ReplicaProgram, alone: list[ReplicaProgram], epoch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One update of each; the losses ``[R]``, which came of the same masks and draws."""
    losses = []
    for program in (together, *alone):
        program._training_draws.begin(epoch)
        program._signs.begin()
        program._dropout.begin(epoch)
        program.optimizer.factor.fill_(scheduled_factor(program.training, epoch))
        with dropout_masks(program._dropout):
            losses.append(program._step())
    return losses[0], torch.cat(losses[1:])


def test_what_is_chosen_does_not_depend_on_company(club: LoadedTask) -> None:
    """Whole runs, where every gradient is more than rounding: no learned operator, no unused input."""
    together = made(config(), club, REPLICAS, seed=5)
    together.fit()
    for r, replica in enumerate(REPLICAS):
        alone = made(config(), club, [replica], seed=5)
        alone.fit()
        assert alone.best_epoch[0] == together.best_epoch[r]
        assert alone.best_val[0] == pytest.approx(together.best_val[r])
        assert on_test_part(alone, club)[0] == pytest.approx(on_test_part(together, club)[r])
        for p, q in zip(alone.model.parameters(), together.model.parameters(), strict=True):
            assert torch.allclose(p[0], q[r], atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"input_dropout": 0.3},
        {"trajectories": "dss", "encodings": [{**RFP, "num_trajectories": 2}]},
        {"encodings": []},
        {"embed": "products"},
        {"embed": "both", "trajectories": "dss", "encodings": [{**RFP, "num_trajectories": 2}]},
    ],
    ids=["plain", "dss", "no encoding", "products", "products and dss"],
)
def test_a_seed_does_not_depend_on_the_seeds_beside_it(club: LoadedTask, changes: dict[str, Any]) -> None:
    seeds = (4, 0, 9)
    replicas = [Replica(split, 0.02, 0.01, seed) for seed in seeds for split in (0, 2)]
    together = ReplicaProgram(config(**changes, training={"eval_draws": 2}), club, replicas, device=CPU)
    together.fit()
    classes = together.predictions()
    for number, seed in enumerate(seeds):
        here = slice(2 * number, 2 * number + 2)
        alone = ReplicaProgram(config(**changes, training={"eval_draws": 2}), club, replicas[here], device=CPU)
        alone.fit()
        assert alone.seeds == [seed]
        assert alone.best_epoch == together.best_epoch[here]
        assert torch.equal(alone.predictions(), classes[here])
        for p, q in zip(alone.model.parameters(), together.model.parameters(), strict=True):
            assert torch.allclose(p, q[here], atol=1e-4)
    assert not torch.allclose(*(p[:2] for p in list(together.model.parameters())[:1] for p in (p, p[2:])))


def test_seeds_come_one_by_one_where_draws_are_made_inside(club: LoadedTask) -> None:
    with pytest.raises(ArgumentError, match="replicas must come seed by seed, as many of each"):
        ReplicaProgram(
            config(), club, [Replica(0, 0.1, 0.0, 1), Replica(0, 0.1, 0.0), Replica(1, 0.1, 0.0, 1)], device=CPU
        )
    eigenvectors = config(encodings=[{"name": "eigenvectors", "num_eigenvectors": 3}])
    with pytest.raises(ArgumentError, match="has one seed in a program"):
        ReplicaProgram(eigenvectors, club, [Replica(0, 0.1, 0.0, 1), Replica(0, 0.1, 0.0)], device=CPU)
    found = search_nodes(eigenvectors, club, splits=[0, 1], seeds=[0, 1])
    assert [(run.seed, run.split) for run in found.runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]


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


def test_patience_ends_a_replica_without_ending_the_others(club: LoadedTask) -> None:
    # A learning rate of (almost) zero never improves after the first epoch.
    replicas = [Replica(0, 1e-12, 0.0), Replica(0, 0.02, 0.0)]
    program = made(config(dropout=0.0, encodings=[], training={"epochs": 60, "patience": 5}), club, replicas, seed=0)
    program.fit()
    assert program.epochs_each[0] < 60
    assert program.best_epoch[0] < 10
    assert program.epochs_each[1] > program.epochs_each[0]


def scripted(program: ReplicaProgram, scores: torch.Tensor, losses: torch.Tensor) -> ReplicaProgram:
    """Validation gives what is written down, ``[epochs, R]``; a step writes its epoch into all weights."""

    def step(better: torch.Tensor) -> torch.Tensor:
        program.optimizer.keep(better)
        with torch.no_grad():
            for p in program.model.parameters():
                p.fill_(int(program._now))
        return torch.zeros(len(program.replicas))

    def validate() -> tuple[torch.Tensor, torch.Tensor]:
        return scores[program._now], losses[program._now]

    program._step, program._validate = step, validate  # type: ignore[method-assign]
    return program


@pytest.mark.parametrize("choose_by", ["score", "loss"])
@pytest.mark.parametrize("patience", [1, 4, None])
def test_best_epoch_and_end_are_those_of_a_run_alone(club: LoadedTask, choose_by: str, patience: int | None) -> None:
    """Forty random courses at once, with ties and losses that are NaN, against the history of each."""
    generator = torch.Generator().manual_seed(1)
    epochs, count = 25, 40
    scores = torch.randint(0, 6, (epochs, count), generator=generator).double() / 6
    losses = torch.randint(1, 5, (epochs, count), generator=generator).double()
    losses[1:][torch.rand(epochs - 1, count, generator=generator) < 0.1] = torch.nan
    training = {"epochs": epochs, "patience": patience, "choose_by": choose_by}
    settings = config(encodings=[], training=training)
    program = scripted(made(settings, club, REPLICAS[:1] * count, seed=0), scores, losses)
    program.fit()
    for r in range(count):
        history = RunHistory(True)
        for score, loss in zip(scores[:, r].tolist(), losses[:, r].tolist(), strict=True):
            history.observe(settings.training, score, {"val_loss": loss}, 1.0)
            if history.finished:
                break
        assert program.best_epoch[r] == history.best_epoch
        assert program.best_val[r] == history.best_score
        assert program.epochs_each[r] == history.epochs
        for p in program.model.parameters():
            assert bool((p[r] == history.best_epoch).all())


def test_a_loss_that_is_not_a_number_never_wins(club: LoadedTask) -> None:
    """A model of NaN answers class 0 everywhere: where that is always right, it must still not be chosen."""
    first = replace(club, y=torch.where(club.masks["train"].any(1) & ~club.masks["val"].any(1), club.y, 0))
    search = {"training.lr": [1e38, 0.01]}
    found = search_nodes(config(encodings=[], dropout=0.0, search=search, training={"epochs": 3}), first, splits=[0])
    wild, tame = found.trials
    assert wild.val <= tame.val
    assert found.runs[0].values == {"training.lr": 0.01}
    program = made(config(encodings=[], training={"epochs": 4}), club, [Replica(0, 0.01, 0.0)] * 2, seed=0)
    nan = math.nan
    scripted(
        program,
        torch.tensor([[0.2, 0.9], [0.9, 0.1], [0.3, 0.9], [0.1, 0.9]]),
        torch.tensor([[1.0, nan], [nan, 1.0], [1.0, nan], [1.0, nan]]),
    )
    program.fit()
    assert program.best_epoch == [2, 1]
    assert program.best_val == pytest.approx([0.3, 0.1])


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ((0.9, 0.1, 0.2), (0.6, 0.6, 0.5), 1),  # the highest single score is the first's
        ((0.9, 0.5, 0.5), (0.6, 0.6, 0.6), 0),  # the higher median and lowest are the second's
        ((0.1, 0.9, 0.9), (0.7, 0.6, 0.5), 0),  # so is the score of split 0
        ((0.9, 0.9, 0.1), (0.5, 0.6, 0.9), 1),  # and of the last
    ],
)
def test_values_are_chosen_by_the_mean_over_splits(
    club: LoadedTask, monkeypatch: pytest.MonkeyPatch, first: tuple[float, ...], second: tuple[float, ...], chosen: int
) -> None:
    rates = (0.01, 0.02)
    table = {(split, lr): row[split] for lr, row in zip(rates, (first, second), strict=True) for split in range(3)}

    def fit(self: ReplicaProgram, tick: Any) -> None:
        self.best_val = [table[r.split, r.lr] for r in self.replicas]
        self.best_epoch = self.epochs_each = [1] * len(self.replicas)

    monkeypatch.setattr(ReplicaProgram, "fit", fit)

    # On the test part the other one is better.
    def tested(program: ReplicaProgram, predictions: Any, task: LoadedTask, which: Sequence[int]) -> list[float]:
        return [float(program.replicas[r].lr != rates[chosen]) for r in which]

    monkeypatch.setattr(node_grid, "examine", tested)
    found = search_nodes(config(search={"training.lr": list(rates)}), club, splits=[0, 1, 2])
    assert [run.values for run in found.runs] == [{"training.lr": rates[chosen]}] * 3
    assert [trial.val for trial in found.trials] == pytest.approx([sum(first) / 3, sum(second) / 3])
    assert {trial.num_runs for trial in found.trials} == {3}


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


def test_test_labels_do_not_enter_training_or_selection(club: LoadedTask) -> None:
    search = {"training.lr": [0.05, 0.001], "model.num_layers": [1, 2]}
    found = search_nodes(config(search=search), club, splits=[0, 1])
    wrong = club.y.clone()
    only_test = club.masks["test"].any(1) & ~club.masks["train"].any(1) & ~club.masks["val"].any(1)
    test_of_0 = club.masks["test"][:, 0] & ~(club.masks["train"] | club.masks["val"])[:, 0]
    wrong[test_of_0] = (wrong[test_of_0] + 1) % 4
    assert bool(test_of_0.any())
    assert only_test.sum() <= test_of_0.sum()
    again = search_nodes(config(search=search), replace(club, y=wrong), splits=[0])
    before = search_nodes(config(search=search), club, splits=[0])
    assert [t.val for t in again.trials] == [t.val for t in before.trials]
    assert again.runs[0].values == before.runs[0].values
    assert again.runs[0].metrics["test"] != before.runs[0].metrics["test"]
    assert len(found.trials) == 4
    assert {run.split for run in found.runs} == {0, 1}
    best = max(found.trials, key=lambda trial: trial.val)
    assert found.runs[0].values == best.values


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


def test_divergence_of_all_is_an_error_and_of_one_is_not(club: LoadedTask) -> None:
    plain = config(encodings=[], dropout=0.0, training={"epochs": 30})
    wild, tame = Replica(0, 1e38, 0.0), Replica(0, 0.01, 0.0)
    with pytest.raises(NumericalError, match=r"NaN or infinite by epoch \d+; lower training.lr"):
        made(plain, club, [wild], seed=0).fit()
    program = made(plain, club, [wild, tame], seed=0)
    program.fit()
    assert math.isfinite(on_test_part(program, club)[1])


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

    def limited(self: ReplicaProgram, *args: Any) -> None:
        sizes.append(len(self.replicas))
        if len(self.replicas) > 2:
            raise torch.OutOfMemoryError
        fit(self, *args)

    resting: list[int] = []
    monkeypatch.setattr(ReplicaProgram, "fit", limited)
    monkeypatch.setattr(ReplicaProgram, "rest", lambda self: resting.append(len(self.replicas)))
    parts = search_nodes(config(search=search), club, splits=[0, 1, 2])
    assert sizes == [6, 3, 2, 2, 2]
    assert resting == [2, 2, 2]  # none is on the device while the others train
    assert [t.val for t in parts.trials] == pytest.approx([t.val for t in whole.trials])
    assert [r.metrics["test"] for r in parts.runs] == pytest.approx([r.metrics["test"] for r in whole.runs])
