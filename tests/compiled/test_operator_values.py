"""Operators of a batch by kernels equal those that are made of their entries one operation after the other."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("numba")

from rfp.compiled.operator_values import COMPILED_OPERATORS, compiled_operator_values
from rfp.graph import Graph
from rfp.operators import OPERATORS, EntryTable, MatrixOperator, as_operators
from rfp.settings import Settings


def batch(weighted: bool, num_graphs: int = 500) -> Graph:
    """Directed graphs of ten nodes: self-loops, of weight 0 too, isolated nodes, weights that cancel."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(10, (2, num_graphs, 12), generator=generator)
    edge_index = (edge_index + 10 * torch.arange(num_graphs)[:, None]).flatten(1)
    weight = torch.randint(-2, 3, (edge_index.size(1),), generator=generator).float() if weighted else None
    return Graph(edge_index, 10 * num_graphs, weight, torch.arange(0, 10 * num_graphs + 1, 10))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_equal_those_of_the_plain_functions(weighted: bool, dtype: torch.dtype) -> None:
    pattern = batch(weighted).pattern
    found = compiled_operator_values(["adjacency", *COMPILED_OPERATORS], pattern, dtype)
    assert list(found) == list(COMPILED_OPERATORS)
    for name in COMPILED_OPERATORS:
        assert torch.equal(found[name], OPERATORS[name](EntryTable.of(pattern)).to(dtype))
        assert torch.equal(compiled_operator_values([name], pattern, dtype)[name], found[name])


def test_weights_of_any_size_are_added_up_to_rounding() -> None:
    """In another order than by the plain functions: degrees of long rows differ in their last bits."""
    generator = torch.Generator().manual_seed(1)
    edge_index = torch.randint(40, (2, 900), generator=generator)
    graph = Graph(edge_index, 40, torch.randn(900, dtype=torch.float64, generator=generator))
    found = compiled_operator_values(COMPILED_OPERATORS, graph.pattern, torch.float64)
    for name, values in found.items():
        plain = OPERATORS[name](EntryTable.of(graph.pattern))
        torch.testing.assert_close(values, plain, rtol=1e-14, atol=1e-15)


def test_operators_of_a_batch_share_its_pattern_and_know_their_norms() -> None:
    graph, names = batch(False), ["normalized_laplacian", "random_walk", "normalized_adjacency", "adjacency"]
    operators = as_operators(names, graph)
    for name, operator in zip(names, operators, strict=True):
        assert isinstance(operator, MatrixOperator)
        assert operator.csr.col is graph.pattern.col
        assert torch.equal(operator.csr.value, OPERATORS[name](EntryTable.of(graph.pattern)).float())
    assert [getattr(operator, "norm", None) for operator in operators] == [2.0, None, 1.0, None]


def test_an_operator_that_has_no_kernel_asks_for_none() -> None:
    assert compiled_operator_values(["adjacency"], batch(False).pattern, torch.float32) == {}
    assert set(COMPILED_OPERATORS) <= set(OPERATORS)
    assert Settings().operators[0] in COMPILED_OPERATORS
