"""Faults with real processes: whatever dies, the same call ends with the same bits.

The run of every day kills drivers in each phase and one worker. ``RFP_FAULTS=1`` (``make faults``) kills a worker
before and after a task of every phase, and the scheduler.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.partitioned.fault_driver import PHASES, TOLD

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("fault_driver.py")
every_fault = pytest.mark.skipif(not os.environ.get("RFP_FAULTS"), reason="minutes; RFP_FAULTS=1 runs it")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of small files are synced."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def outcome(*arguments: str) -> Any:
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_drivers_that_die_find_no_space_damage_or_another_driver(root: Path) -> None:
    found = outcome("drivers", str(root))
    # Nothing that an encoding does is left out below.
    assert found.pop("kinds") == sorted(PHASES)
    assert found.pop("told of") == sorted(TOLD)
    disturbed = {name: found.pop(name) for name in ("no space", "second driver", "bit flipped", "truncated")}
    assert all(same for _, same in disturbed.values())
    told = {name: said for name, (said, _) in disturbed.items()}
    assert "WriteError" in told["no space"]
    assert "no space left while writing" in told["no space"]
    assert "is being written by another process (process PID on " in told["second driver"]
    for harm, what in (("bit flipped", "its checksum is "), ("truncated", "bytes, written were ")):
        assert told[harm].startswith("FOLDER/states/0/0002/panel-000.block-00001.npy is damaged: ")
        assert what in told[harm]
        assert told[harm].endswith("; it is computed again")
    assert found == {phase: [signal.SIGKILL, True] for phase in TOLD}


def test_a_worker_that_dies(root: Path) -> None:
    assert outcome("workers", str(root), "multiply_blocks-before") == {"died": ["multiply_blocks-before"], "same": True}


@every_fault
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_that_dies_in_each_phase(root: Path, phase: str, when: str) -> None:
    assert outcome("workers", str(root), f"{phase}-{when}") == {"died": [f"{phase}-{when}"], "same": True}


@every_fault
def test_a_scheduler_that_dies(root: Path) -> None:
    found = outcome("scheduler", str(root))
    assert found["told"].startswith("ClusterError: the scheduler at tcp://")
    assert "the same command goes on" in found["told"]
    assert found["same"]
