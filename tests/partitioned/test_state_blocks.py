"""Blocks with all channels from files of panels, in memory that is used again."""

from pathlib import Path

import numpy as np
import pytest

from rfp.partitioned.checked_files import DamagedFileError
from rfp.partitioned.layout import StoredGraph
from rfp.partitioned.plan import Plan
from rfp.partitioned.state_blocks import StateBlocks


def plan_of(folder: Path, panel: int) -> Plan:
    graph = StoredGraph(9, 0, 0, 0, False, True, (0, 2, 7, 9))
    return Plan(str(folder), graph, 7, 2, panel, "normal", 0, "float64", ())


@pytest.mark.parametrize("panel", [1, 4, 7])  # 7 channels: the last panel of 4 has fewer
def test_what_is_written_is_read_whatever_was_in_the_memory_before(tmp_path: Path, panel: int) -> None:
    plan = plan_of(tmp_path, panel)
    states = StateBlocks(plan)
    drawn = np.random.default_rng(0).standard_normal((9, 2, 7))
    for block in plan.blocks:
        assert not states.are_there("0/1", block)
        states.write("0/1", block, drawn[plan.graph.rows(block)])
        assert states.are_there("0/1", block)
    for block in (1, 0, 2, 1):
        np.testing.assert_array_equal(states.read("0/1", block), drawn[plan.graph.rows(block)])


def test_a_block_that_lacks_a_panel_is_not_read(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 4)
    states = StateBlocks(plan)
    states.write("start", 0, np.ones((2, 2, 7)))
    plan.files("start", 0)[1].unlink()
    assert not states.are_there("start", 0)
    with pytest.raises(DamagedFileError, match=r"panel-001\.block-00000\.npy is missing"):
        states.read("start", 0)
