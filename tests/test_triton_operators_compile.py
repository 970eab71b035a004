"""The kernels that build operators are valid Triton for a GPU."""

from __future__ import annotations

import pytest

triton = pytest.importorskip("triton")

from triton.runtime.jit import JITFunction  # noqa: E402

from rfp import triton_norms, triton_pattern  # noqa: E402
from rfp.operators import triton_small_graphs, triton_values  # noqa: E402
from tests.first_stage import check  # noqa: E402

pytestmark = pytest.mark.skipif(
    not isinstance(triton_pattern._places_kernel, JITFunction), reason="the interpreter was chosen"
)

SIZES = {"num_edges": "i64", "num_nodes": "i64", "num_graphs": "i64", "num_entries": "i64", "last": "i64"}


@pytest.mark.parametrize("place", ["*i32", "*i64"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_rows_of_a_batch(place: str, weighted: bool, single: bool) -> None:
    degree = "*fp64" if weighted else "*i64"
    types = {
        **SIZES,
        "edge_index": "*i64",
        "batch": "*i64",
        "offsets": "*i64",
        "place": place,
        "sums": "*i64",
        "in_degree": degree,
        "out_degree": degree,
        "to_target": "i64",
        "step": "i64",
        "order": "*i64",
        "weight": "*fp32" if weighted else "*fp64",
        "crow": "*i32",
        "col": "*i32",
        "value": "*fp64",
        "loop": "*fp64",
        "holes": "*i64",
    }
    sorting = check(triton_pattern._places_kernel, types, {"SINGLE": single, "COUNT": not weighted, "BLOCK": 128})
    rows = check(triton_pattern._rows_kernel, types, {"WEIGHTED": weighted, "BLOCK": 128})
    assert "tt.func public @_places_kernel" in sorting
    # Holes are counted; of weights the degrees are added up too.
    assert rows.count("tt.atomic_rmw") == (3 if weighted else 1)


@pytest.mark.parametrize("out", ["*fp32", "*fp64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_of_operators(out: str, weighted: bool) -> None:
    degree = "*fp64" if weighted else "*i64"
    types = {
        **SIZES,
        "place": "*i32",
        "crow": "*i32",
        "value": "*fp64",
        "loop": "*fp64",
        "out": out,
        "out_degree": degree,
        "in_degree": degree,
    }
    rows = {"ADJACENCY": 0, "NORMALIZED": 1, "LAPLACIAN": 2, "RANDOM_WALK": 3}
    text = check(triton_values._values_kernel, types, {**rows, "WEIGHTED": weighted, "BLOCK": 128})
    assert text.count("tt.store") == 4


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("weighted", [False, True])
def test_operators_of_small_graphs(width: int, weighted: bool) -> None:
    types = {
        **SIZES,
        "edge_index": "*i64",
        "weight": "*fp32" if weighted else "*i64",
        **dict.fromkeys(("ptr", "keys"), "*i64"),
        **dict.fromkeys(("crow", "col", "holes"), "*i32"),
        "values": "*fp32",
        "norms": "*fp64",
        "to_target": "i64",
        "step": "i64",
    }
    rows = {"OPERATORS": 4, "ADJACENCY": 0, "NORMALIZED": 1, "LAPLACIAN": 2, "RANDOM_WALK": 3}
    sizes = {"N": width, "LOOKED_AT": 1024, "ADDED": 64}
    text = check(triton_small_graphs.small_operators_kernel, types, {**rows, **sizes, "WEIGHTED": weighted})
    # Nothing is shared between programs; of weights there is a product too.
    assert "tt.atomic_rmw" not in text
    assert text.count("tt.dot ") == (2 if weighted else 1)


@pytest.mark.parametrize("value", ["*fp32", "*fp64"])
def test_bounds_of_norms(value: str) -> None:
    types = {
        **SIZES,
        "place": "*i32",
        "value": value,
        "ptr": "*i64",
        "out": "*fp64",
        **dict.fromkeys(("row_weight", "column_weight", "rows", "columns"), "*fp64"),
    }
    for roots in (False, True):
        text = check(triton_norms._sums_kernel, types, {"ROOTS": roots, "BLOCK": 128})
        assert text.count("tt.atomic_rmw") == 2
    assert "tt.reduce" in check(triton_norms._largest_kernel, types, {"NODES": 64})


@pytest.mark.parametrize("holes", ["*i32", "*i64", None])
def test_norms_with_long_rows(holes: str | None) -> None:
    types = {
        **SIZES,
        "value": "*fp32",
        "crow": "*i32",
        "holes": holes or "*i32",
        "found": "*i64",
        "norm": "*fp64",
        "out": "*fp64",
    }
    constants = {"HOLES": holes is not None, "NODES": 128, "BLOCK": 256}
    assert check(triton_norms._beyond_kernel, types, constants).count("tt.atomic_rmw") == 3
