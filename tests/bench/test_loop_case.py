"""The bench of one's own loop: every contender does the steps it is said to do."""

from __future__ import annotations

import itertools

import pytest
import torch

from rfp.bench import loop_case
from rfp.bench.generated_graphs import molecule_like
from rfp.bench.measure import Timing, interleaved
from rfp.bench.molecule_task import drawn_task


def test_interleaved_works_take_turns() -> None:
    """A clock of its own, which each work moves by its length."""
    now, order = 0.0, []

    def work(name: str, seconds: float) -> None:
        nonlocal now
        now += seconds
        order.append(name)

    works = {"short": lambda: work("short", 1.0), "long": lambda: work("long", 3.0)}
    times = interleaved(works, rounds=2, warm_up=1, clock=lambda: now)
    assert times == {"short": [1.0, 1.0], "long": [3.0, 3.0]}
    assert order == ["short", "long", "long", "short", "short", "long"]


def test_timing_of_given_repeats() -> None:
    timing = Timing.of([3.0, 1.0, 1.0, 1.0])
    assert (timing.seconds, timing.fastest, timing.slowest, timing.repeats, timing.noisy) == (1.0, 1.0, 3.0, 4, True)


def test_every_contender_of_the_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_case, "BATCH", 4)
    data = drawn_task(molecule_like(10)).data_list()
    contenders = list(loop_case.contenders(data, "cpu", rounds=2, num_layers=1, width=8))
    assert len({contender.name for contender in contenders}) == len(contenders) == 5
    assert all(contender.share == 3 for contender in contenders)  # batches of 4, 4 and 2
    for contender in contenders:
        assert contender.run is not None
        found = contender.run()
        if contender.own_times:
            assert isinstance(found, list)
            assert len(found) == 2
            assert min(found) > 0


@pytest.mark.parametrize("products", [False, True])
def test_the_model_of_the_loop_trains_on_its_encoding(products: bool) -> None:
    """The embedding of the trajectory gets a gradient, and each step draws anew."""
    torch.manual_seed(0)
    settings = loop_case.WITH_PRODUCTS if products else loop_case.LINEAR_SETTINGS
    model = loop_case.PlainGINE(settings, products=products, num_layers=1, width=8)
    batch = drawn_task(molecule_like(6)).batch(torch.arange(6))
    batch.num_graphs = 6
    model(batch).sum().backward()
    assert model.embed is not None
    assert all(p.grad is not None and bool(p.grad.any()) for p in itertools.islice(model.embed.parameters(), 1))
    assert model.encode is not None
    assert model.encode.num_draws == 1


def test_drawn_molecules_are_a_task_of_their_structures() -> None:
    graph = molecule_like(24)
    loaded = drawn_task(graph)
    assert [len(loaded.rows(part)) for part in ("train", "val", "test")] == [20, 2, 2]
    loaded.graphs.check()
    one = loaded.data(3)
    assert one.num_nodes == int(graph.sizes[3])
    assert one.x.shape == (one.num_nodes, 1)
    assert int(one.edge_attr.min()) >= 1
