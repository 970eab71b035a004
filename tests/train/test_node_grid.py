"""Which combinations of a grid are tried when not all are."""

from rfp.train.node_grid import _sampled
from rfp.train.search import SearchSettings


def test_a_part_of_a_grid_is_a_random_choice_that_a_longer_search_contains() -> None:
    grid = [{"model.num_layers": layers, "model.dropout": p} for layers in range(1, 9) for p in (0.0, 0.2, 0.4, 0.6)]
    assert _sampled(grid, None) == grid
    few, more = (_sampled(grid, SearchSettings(trials=trials)) for trials in (4, 12))
    assert (len(few), len(more)) == (4, 12)
    assert all(point in more for point in few)
    assert [grid.index(point) for point in more] == sorted(grid.index(point) for point in more)
    # Not the first of the grid, which would all have one value of its first key.
    assert more != grid[:12]
    assert len({point["model.num_layers"] for point in more}) > 3
    assert more == _sampled(grid, SearchSettings(trials=12)) != _sampled(grid, SearchSettings(trials=12, seed=1))
