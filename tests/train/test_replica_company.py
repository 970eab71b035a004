"""Training together equals training alone: a replica depends neither on its company nor on the seeds beside it."""

from typing import Any

import pytest
import torch

from rfp.data import LoadedTask
from rfp.errors import ArgumentError
from rfp.nn.replicated import dropout_masks
from rfp.train.replica_program import ReplicaProgram
from rfp.train.run_history import scheduled_factor
from rfp.train.trained_replicas import Replica
from tests.train.club_replicas import CPU, REPLICAS, RFP, config, made, on_test_part, search_nodes


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
