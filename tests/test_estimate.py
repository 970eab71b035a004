"""The estimate against what is allocated."""

import os
import subprocess
import sys
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
    # n=10, 20 directed edges, k=2, P=4, w=2, QR: products 2·(20+10)·2·4, two normalisations of 4·10·2² + 2³
    settings = Settings(num_channels=2, num_steps=4, normalize_every=2)
    assert estimate(settings=settings, num_nodes=10, num_edges=20).operations == 480 + 2 * (160 + 8)
    plain = Settings(num_channels=2, num_steps=4, normalization="none")
    assert estimate(settings=plain, num_nodes=10, num_edges=20).operations == 480


def test_square_matrices_are_counted() -> None:
    small = {"num_nodes": 4, "num_edges": 6}
    wide = estimate(num_channels=100_000, **small)
    assert wide.working_bytes > 10 * 8 * 100_000**2  # a Gram matrix has 80 GB
    assert estimate(num_channels=100_000, normalization="l2", **small).working_bytes < 10**8
    assert estimate(num_channels=100_000, num_steps=0, **small).working_bytes < 10**8
    batch = [nx.path_graph(3)] * 5
    one, five = (estimate(graphs, num_channels=1000).working_bytes for graphs in (batch[:1], batch))
    assert five > 4.9 * one


def test_the_estimate_covers_what_qr_allocates() -> None:
    # In a process of its own: the peak of a process never falls.
    code = (
        "import re, networkx as nx, rfp\n"
        "peak = lambda: 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "rfp.encode(nx.cycle_graph(10), num_channels=4, num_steps=1, backend='sparse'); before = peak()\n"
        # With fewer nodes than channels the leading columns alone are factorised, where they are enough.
        "graph = rfp.as_graph(nx.cycle_graph(2000))\n"
        "rfp.encode(graph, num_channels=2000, num_steps=1, backend='sparse')\n"
        "needed, told = peak() - before, rfp.estimate(graph, num_channels=2000, num_steps=1).total_bytes\n"
        "assert 0.25 * told < needed < 1.2 * told, (needed, told)\n"
    )
    # What is freed goes back at once: by default the C library keeps some of it, more or less from run to run.
    environment = {**os.environ, "GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={1 << 20}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_graph_too_large_for_any_machine_is_estimated_at_once() -> None:
    graph = rfp.Graph(torch.tensor([[0, 1], [1, 0]]), 2 * 10**9)
    assert estimate(graph.to_undirected(), num_channels=16).trajectory_bytes == 2 * 10**9 * 17 * 16 * 4


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


def test_memory_left_by_control_groups_of_version_1(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("9:name=systemd:/\n4:cpu,memory:/outside/here\n1:cpuset:/\n0::/\n")
    none = 2**63 - 4096  # as it says that there is no limit
    for name, limit, used, cached in (("outside/here", none, 10, 0), ("", 7000, 4000, 500)):
        folder = tmp_path / "fs" / "memory" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
        (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {cached}\n")
    assert _cgroup_free(tmp_path / "fs", tmp_path / "cgroup") == 7000 - 4000 + 500
    (tmp_path / "fs" / "memory" / "memory.usage_in_bytes").write_text("8000\n")  # a little over, as it may be
    assert _cgroup_free(tmp_path / "fs", tmp_path / "cgroup") == 0
