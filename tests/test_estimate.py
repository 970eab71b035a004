"""The estimate against what is allocated."""

from pathlib import Path

import networkx as nx
import pytest
import torch

import rfp
from rfp.estimate import _cgroup_free, available_memory, estimate
from rfp.settings import Settings


@pytest.mark.parametrize("storage_dtype", [None, torch.float16])
def test_trajectory_bytes_are_exact(storage_dtype: torch.dtype | None) -> None:
    arguments = {"num_channels": 5, "num_steps": 3, "num_trajectories": 2, "storage_dtype": storage_dtype}
    operators = ("adjacency", "random_walk")
    trajectory = rfp.encode(nx.karate_club_graph(), operators=operators, **arguments)
    expected = estimate(nx.karate_club_graph(), Settings(operators=operators, **arguments))
    assert expected.trajectory_bytes == trajectory.storage.nbytes
    assert expected.width == trajectory.flat().size(-1)
    assert expected.total_bytes == expected.trajectory_bytes + expected.working_bytes


def test_operations_by_hand() -> None:
    # n=10, 20 directed edges, k=2, P=4, w=2, QR: products 2·(20+10)·2·4, normalisations 4·10·2²·2
    settings = Settings(num_channels=2, num_steps=4, normalize_every=2)
    assert estimate(settings=settings, num_nodes=10, num_edges=20).operations == 480 + 320
    plain = Settings(num_channels=2, num_steps=4, normalization="none")
    assert estimate(settings=plain, num_nodes=10, num_edges=20).operations == 480


def test_memory_of_this_machine_is_known_or_none() -> None:
    memory = available_memory()
    assert memory is None or memory > 2**20


def test_memory_left_by_nested_control_groups(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("1:cpu:/x\n0::/job/task\n")
    for name, limit, used, cached in (("job/task", "max", 10, 0), ("job", "1000", 400, 150), ("", "5000", 100, 0)):
        folder = tmp_path / "fs" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 7\ninactive_file {cached}\n")
    assert _cgroup_free(tmp_path / "fs", tmp_path / "cgroup") == 1000 - 400 + 150
    assert _cgroup_free(tmp_path / "nothing", tmp_path / "cgroup") is None
    assert _cgroup_free(tmp_path / "fs", tmp_path / "absent") is None
