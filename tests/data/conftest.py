"""A cache of the test run's own, and small folders in the layout of real data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

NUM_NODES = 6


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, so that a data set is processed once in a test run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFP_CACHE", str(cache))


def write_splits(raw: Path, prefix: str, num_nodes: int = NUM_NODES) -> None:
    """Ten splits: split i trains on all but two nodes, one of them for validation, one for test."""
    for i in range(10):
        val, test = np.zeros(num_nodes, bool), np.zeros(num_nodes, bool)
        val[i % num_nodes] = test[(i + 1) % num_nodes] = True
        np.savez(raw / f"{prefix}_split_0.6_0.2_{i}.npz", train_mask=~(val | test), val_mask=val, test_mask=test)


@pytest.fixture
def cornell_root(tmp_path: Path) -> Path:
    """A data root with a made-up Cornell: 6 nodes, 3 features, a directed path with a self-loop."""
    raw = tmp_path / "root" / "webkb" / "cornell" / "raw"
    raw.mkdir(parents=True)
    rows = [f"{i}\t{i % 2},1,0\t{i % 3}" for i in range(NUM_NODES)]
    (raw / "out1_node_feature_label.txt").write_text("node_id\tfeature\tlabel\n" + "\n".join(rows) + "\n")
    edges = [f"{i}\t{i + 1}" for i in range(NUM_NODES - 1)] + ["2\t2"]
    (raw / "out1_graph_edges.txt").write_text("node_id\tnode_id\n" + "\n".join(edges) + "\n")
    write_splits(raw, "cornell")
    return tmp_path / "root"
