"""What memory held before a kernel wrote to it is never read: results are the same whatever it was, byte for byte."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

pytest.importorskip("numba")

import rfp
from rfp.backends.compiled.dense_products import times_upper
from rfp.backends.compiled.drawn_features import compiled_features
from rfp.backends.compiled.sparse_product import sparse_product
from rfp.backends.problem import Draw
from rfp.compiled.operator_values import compiled_operator_values
from rfp.compiled.pattern import compiled_pattern
from rfp.conversion import as_graph
from rfp.graph import Graph, batch_graphs
from rfp.settings import Settings
from tests.conftest import awkward_graphs

# Each of these bytes eight times is a number that is not one, and a number of ordinary size.
GARBAGE = (0xFF, 0x3F)
AWKWARD = [as_graph(graph) for graph in awkward_graphs().values()]
NO_NODES = Graph(torch.zeros(2, 0, dtype=torch.long), 0)
BATCH = batch_graphs([AWKWARD[3], NO_NODES, *AWKWARD, NO_NODES])
# Neither vectors nor tiles divide these; 8 and 16 they do. 17 and 40 are wider than most of the graphs have nodes.
WIDTHS = [1, 5, 8, 13, 16, 17, 40]


class Filled:
    """Makes of a function that allocates one that leaves this byte everywhere."""

    def __init__(self, byte: int) -> None:
        self.byte, self.calls = byte, 0

    def array(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            out = make(*args, **options)
            if not out.dtype.hasobject:
                self.calls += 1
                ctypes.memset(out.ctypes.data, self.byte, out.nbytes)
            return out

        return made

    def tensor(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            out = make(*args, **options)
            self.calls += 1
            out.untyped_storage().fill_(self.byte)
            return out

        return made


def results_in_garbage(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """What a call returns for each kind of garbage, one after the other in one tensor of bytes."""
    found = []
    for byte in GARBAGE:
        filled = Filled(byte)
        with monkeypatch.context() as patch:
            for name in ("empty", "empty_like"):
                patch.setattr(np, name, filled.array(getattr(np, name)))
                patch.setattr(torch, name, filled.tensor(getattr(torch, name)))
            patch.setattr(torch.Tensor, "new_empty", filled.tensor(torch.Tensor.new_empty))
            parts = call()
        assert filled.calls
        found.append(torch.cat([part.contiguous().view(-1).view(torch.uint8) for part in parts]))
    return found


def never_read(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    call()  # Numba compiles, for which it needs functions that are NumPy's own
    first, second = results_in_garbage(call, monkeypatch)
    assert torch.equal(first, second)


def test_what_is_left_unwritten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for make in (lambda: torch.empty(2, 3), lambda: torch.from_numpy(np.empty(3)), lambda: torch.ones(2).new_empty(2)):
        first, second = results_in_garbage(lambda make=make: [make()], monkeypatch)  # type: ignore[misc]
        assert (first == GARBAGE[0]).all()
        assert (second == GARBAGE[1]).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features(width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(num_channels=width, num_trajectories=3, dtype=dtype)
    for graph in (BATCH, NO_NODES):
        never_read(lambda graph=graph: [compiled_features(Draw(settings, graph, None))], monkeypatch)  # type: ignore[misc]


@pytest.mark.parametrize("doubled", [False, True])
def test_pattern_and_operators(doubled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With edges at the same place there is room that nothing comes into."""
    edges = torch.cat([BATCH.edge_index] * 2, 1).sort(stable=True).values if doubled else BATCH.edge_index

    def call() -> list[torch.Tensor]:
        pattern = compiled_pattern(edges, None, BATCH.num_nodes)
        assert pattern is not None
        values = compiled_operator_values(["normalized_adjacency", "normalized_laplacian"], pattern, torch.float32)
        return [pattern.crow, pattern.col, pattern.value, *values.values()]

    never_read(call, monkeypatch)


@pytest.mark.parametrize("width", WIDTHS)
def test_products(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = BATCH.pattern
    a = torch.randn(BATCH.num_nodes, width, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(width, width, generator=torch.Generator().manual_seed(1))
    never_read(lambda: [sparse_product(pattern.crow, pattern.col, pattern.value, a)], monkeypatch)
    never_read(lambda: [times_upper(a, weight)], monkeypatch)


@pytest.mark.parametrize("width", [5, 16, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalization", ["none", "l2", "qr"])
@pytest.mark.parametrize("backend", ["compiled", "sparse"])
def test_encodings(
    width: int, dtype: torch.dtype, normalization: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small graphs; one graph, whose steps share their memory; and the plain loop says what is right."""
    arguments: dict[str, Any] = {"num_channels": width, "num_steps": 3, "dtype": dtype, "normalization": normalization}
    arguments |= {"operators": ["normalized_adjacency", "adjacency"], "num_trajectories": 2}
    one = as_graph(nx.barbell_graph(20, 7))
    for graph in (BATCH, one):

        def call(graph: Graph = graph) -> list[torch.Tensor]:
            fresh = Graph.unchecked(graph.edge_index, graph.num_nodes, graph.edge_weight, graph.ptr)
            return [rfp.encode(fresh, backend=backend, **arguments).storage]

        never_read(call, monkeypatch)
        plain = rfp.encode(graph, backend="reference", **arguments).storage
        torch.testing.assert_close(call()[0], plain, atol=2e-4, rtol=1e-3)
