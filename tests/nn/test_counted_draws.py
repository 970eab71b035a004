"""Draws that are counted: one seed each, restored with the module."""

from __future__ import annotations

from rfp.nn.counted_draws import CountedDraws, training_seed
from rfp.settings import Settings


class Drawing(CountedDraws):
    def __init__(self, seed: int) -> None:
        self.settings, self.num_draws = Settings(seed=seed, cache="somewhere"), 0


def test_training_seeds_of_neighbouring_streams_do_not_meet() -> None:
    seeds = {training_seed(seed, draw) for seed in range(20) for draw in range(50)}
    assert len(seeds) == 1000


def test_every_draw_has_a_seed_of_its_own_and_is_not_cached() -> None:
    module = Drawing(3)
    drawn = [module.next_training_settings() for _ in range(4)]
    assert [one.seed for one in drawn] == [training_seed(3, draw) for draw in range(4)]
    assert {one.cache for one in drawn} == {None}
    assert module.settings.seed == 3


def test_what_is_restored_goes_on_with_the_same_sequence() -> None:
    module, restored = Drawing(3), Drawing(5)
    module.next_training_settings()
    restored.set_extra_state(module.get_extra_state())
    assert restored.next_training_settings() == module.next_training_settings()
