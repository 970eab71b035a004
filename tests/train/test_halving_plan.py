"""The plan of a halving: balanced, resumable, blind to test scores."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest

from rfp.train import RunConfig
from rfp.train.halving import IN_PROGRAM, Halving
from rfp.train.halving_choice import choices
from rfp.train.halving_plan import (
    FINAL,
    LONGER,
    SCREEN,
    HalvingStep,
    design,
    next_step,
    outer_values,
    point_text,
    takes_up,
    tried_values,
)
from rfp.train.results import Trial
from tests.train.halving_config import CONFIG, HALVING, SEARCH


def score(step: HalvingStep, pair: tuple[float, float]) -> float:
    """A made-up validation score: an MLP without norm, 16 wide, and lr 0.1 are best."""
    v = step.values
    val = 0.5 + 0.1 * (v["model.backbone"] == "mlp") + 0.05 * (v["model.norm"] == "none") + 0.02 * v["model.residual"]
    return val + 0.03 * (v["model.hidden_channels"] == 16) + 0.01 * (pair[0] == 0.1) + 0.001 * pair[1]


def searched(
    halving: Halving, trials: list[Trial] | None = None, *, stop: int = 1000, config: RunConfig = CONFIG
) -> list[Trial]:
    done = list(trials or [])
    while (
        len(done) < stop
        and (step := next_step(config, halving, done, splits=tuple(range(10)), seeds=(0, 1, 2))) is not None
    ):
        scores = sorted(((*pair, score(step, pair)) for pair in step.pairs), key=lambda p: -p[2])
        values = {**step.values, "training.lr": scores[0][0], "training.weight_decay": scores[0][1]}
        runs = len(step.splits) * len(step.seeds)
        done.append(Trial(values, scores[0][2], runs, step.stage, step.epochs or 0, tuple(scores)))
    return done


def test_every_value_comes_up_equally_often() -> None:
    points = design(CONFIG, HALVING)
    assert len(points) == 4
    for key in ("model.backbone", "model.norm", "model.residual"):
        assert set(Counter(point[key] for point in points).values()) == {2}
    assert {point["model.hidden_channels"] for point in points} == {8}  # held
    assert len({str(point) for point in points}) == 4
    # A method without one of the keys shares the others.
    fewer = replace(CONFIG, search={k: v for k, v in CONFIG.search.items() if k != "model.norm"}, halving=None)
    same = design(fewer, replace(HALVING, apart=""))
    assert [p["model.backbone"] for p in same] == [p["model.backbone"] for p in points]
    assert len(design(CONFIG, Halving(tries=99, designed=99))) == 24  # no more than there are


def test_stages_and_what_they_train() -> None:
    trials = searched(HALVING)
    assert Counter(trial.stage for trial in trials) == {SCREEN: 8, LONGER: 3, FINAL: 2}
    # The two best points are pairs of one combination; the other program is the best with a norm.
    screen, longer, final = ([t for t in trials if t.stage == stage] for stage in (SCREEN, LONGER, FINAL))
    assert {(t.num_runs, t.epochs, len(t.pairs)) for t in screen} == {(3, 60, 4)}
    assert {(t.num_runs, t.epochs, len(t.pairs)) for t in longer} == {(10, 150, 4)}
    assert {(t.num_runs, t.epochs) for t in final} == {(30, 0)}
    assert len({str(t.values) for t in screen}) == 8
    # Neighbours of the best found the width, which the design holds.
    best = max(screen, key=lambda t: t.val).values
    assert (best["model.backbone"], best["model.norm"], best["model.hidden_channels"]) == ("mlp", "none", 16)
    chosen, other = choices(CONFIG, HALVING, trials)
    assert chosen.values == best
    assert list(chosen.values) == list(SEARCH)
    assert (chosen.among, other.among) == ("model.norm=none", "model.norm=layer")
    assert other.values["model.norm"] == "layer"
    assert other.val < chosen.val


def test_a_search_that_was_cut_goes_on() -> None:
    whole = searched(HALVING)
    for stop in (1, 5, 9, 12):
        assert searched(HALVING, searched(HALVING, stop=stop)) == whole
    assert next_step(CONFIG, HALVING, whole, splits=tuple(range(10)), seeds=(0, 1, 2)) is None


def test_ordered_values_change_by_one_step() -> None:
    for trial in searched(replace(HALVING, tries=12))[4:12]:
        assert trial.stage == SCREEN
    widths = [trial.values["model.hidden_channels"] for trial in searched(replace(HALVING, tries=12))[:12]]
    assert widths.index(16) < widths.index(32)  # never from 8 to 32


def test_neighbours_are_smaller_values_too() -> None:
    """From the largest width, which the design holds, the search comes down to the best."""
    downward = replace(CONFIG, search={**SEARCH, "model.hidden_channels": [32, 16, 8]})
    screen = [trial for trial in searched(HALVING, config=downward) if trial.stage == SCREEN]
    assert [trial.values["model.hidden_channels"] for trial in screen[:4]] == [32] * 4
    assert max(screen, key=lambda trial: trial.val).values["model.hidden_channels"] == 16


def test_refused_points_are_passed_over() -> None:
    trials = searched(HALVING, stop=4)
    trials = [Trial(t.values, math.nan, 3, SCREEN, 60, refused="too large") for t in trials[:3]] + trials[3:]
    assert all(not t.refused for t in searched(HALVING, trials) if t.stage != SCREEN)


def test_without_a_middle_stage() -> None:
    assert Counter(trial.stage for trial in searched(replace(HALVING, longer=0))) == {SCREEN: 8, FINAL: 2}


def test_what_short_runs_cannot_judge_is_carried_on() -> None:
    """Without a skip the score is lower after every number of epochs, so nothing but ``carried`` brings one further."""
    usual, carried = (searched(replace(HALVING, apart="", carried=keys)) for keys in ((), ("model.residual",)))

    def longer(trials: list[Trial]) -> list[Trial]:
        return [trial for trial in trials if trial.stage == LONGER]

    assert {trial.values["model.residual"] for trial in longer(usual)} == {True}
    assert longer(carried)[:-1] == longer(usual)
    without = [t for t in carried if t.stage == SCREEN and not t.values["model.residual"]]
    assert longer(carried)[-1].values == max(without, key=lambda trial: trial.val).values


def test_what_is_tried_also() -> None:
    """A corner that four tries miss: with some of its values given, every value of the other keys is tried."""
    few = replace(HALVING, tries=4)
    corner = {"model.hidden_channels": 16, "model.residual": True}
    usual, more = searched(few), searched(replace(few, also=corner))
    screen = [outer_values(trial.values) for trial in more if trial.stage == SCREEN]
    assert screen[:4] == [outer_values(trial.values) for trial in usual if trial.stage == SCREEN]
    others = [{**corner, "model.backbone": b, "model.norm": n} for b in ("mlp", "gcn") for n in ("none", "layer")]
    assert screen[4:] == others
    assert max(trial.val for trial in more) > max(trial.val for trial in usual)
    # From the trials of the search without it: only what is new is tried.
    further = searched(replace(few, also=corner), usual)
    assert further[: len(usual)] == usual
    assert [t.stage for t in further[len(usual) :]] == [SCREEN] * 4 + [LONGER] * 2 + [FINAL] * 2
    config = replace(CONFIG, halving=replace(few, also=corner))
    assert choices(config, few, further)[0] == choices(config, few, more)[0]
    assert takes_up(config, replace(CONFIG, halving=few))
    assert not takes_up(config, replace(CONFIG, halving=replace(few, screen_epochs=7)))  # trained otherwise
    assert not takes_up(config, replace(config, model={"num_layers": 3}))
    assert not takes_up(replace(CONFIG, halving=None), CONFIG)
    assert not takes_up(CONFIG, config)  # which tried more
    assert not takes_up(replace(CONFIG, halving=replace(few, tries=3)), replace(CONFIG, halving=few))
    fewer = {key: tried for key, tried in CONFIG.search.items() if key != "model.norm"}
    assert not takes_up(config, replace(CONFIG, search=fewer, halving=Halving(tries=4)))  # as a sweep's, of its name


def test_several_also_with_keys_of_their_own_that_are_kept_apart() -> None:
    """A key that only some combinations have: the best with it reaches the end beside the best without."""
    corner = {"model.hidden_channels": 16, "model.residual": True}
    beyond = {"model.backbone": "gcnii", "model.initial_residual": 0.5, "model.residual": False}
    few = replace(HALVING, tries=4, also=(corner, beyond), apart=("model.norm", "model.initial_residual"))
    config = replace(CONFIG, halving=few)
    usual = searched(replace(few, also=corner, apart="model.norm"))
    trials = searched(few, usual, config=config)
    assert trials[: len(usual)] == usual
    screen = [outer_values(t.values) for t in trials[len(usual) :] if t.stage == SCREEN]
    widths = [(norm, width) for norm in ("none", "layer") for width in (8, 16, 32)]
    assert screen == [{**beyond, "model.norm": norm, "model.hidden_channels": width} for norm, width in widths]
    found = {point.among: point for point in choices(config, few, trials)}
    assert set(found) == {
        *("model.norm=none", "model.norm=layer"),
        *("model.norm=none, model.initial_residual=0.5", "model.norm=layer, model.initial_residual=0.5"),
    }
    best = found["model.norm=none, model.initial_residual=0.5"].values
    assert (best["model.hidden_channels"], best["model.initial_residual"]) == (16, 0.5)
    # What was chosen without it stays what it was, so its runs can be taken up.
    assert found["model.norm=none"] == choices(CONFIG, replace(few, apart="model.norm"), usual)[0]
    assert tried_values(config)["model.backbone"] == ("mlp", "gcn", "gcnii")
    assert tried_values(config)["model.initial_residual"] == (0.5,)
    assert tried_values(CONFIG) == CONFIG.search
    assert RunConfig.from_dict(config.to_dict()) == config


def test_a_trial_has_no_place_for_a_test_score() -> None:
    assert not any("test" in f.name or f.name == "metrics" for f in fields(Trial))
    with pytest.raises(TypeError, match="test"):
        Trial({}, 0.5, test=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("also", [{"model.hidden_channels": 48}, {"model.num_layers": 3}])
def test_what_is_tried_also_has_no_neighbours_and_takes_no_tries(also: dict[str, Any]) -> None:
    """Whether the space has fewer combinations than tries, or a larger search takes up a smaller one."""
    few = replace(HALVING, tries=4, designed=2, also=also, apart=())
    before = searched(few)
    after = searched(replace(few, tries=8), before)
    own = [trial for trial in after if trial.stage == SCREEN and not also.items() <= trial.values.items()]
    assert len(own) == 8
    assert all(outer_values(trial.values).keys() == {*SEARCH} - {*IN_PROGRAM} for trial in own)
    small = {**SEARCH, "model.hidden_channels": [8, 16], "model.backbone": ["mlp"], "model.residual": [True]}
    plain = {"data": "texas", "search": small, "halving": replace(few, tries=36).to_dict()}
    screened = [t for t in searched(few, config=RunConfig.from_dict(plain)) if t.stage == SCREEN]
    assert len({point_text(outer_values(t.values)) for t in screened}) == len(screened)
