"""The kernels are valid Triton for a GPU: the interpreter, in which other tests run, forgives what a compiler does not.

Only the first stage is made, which checks types and shapes and needs neither a GPU nor much time.
"""

from __future__ import annotations

from inspect import signature

import pytest

triton = pytest.importorskip("triton")

from triton.runtime.jit import JITFunction  # noqa: E402

from rfp.backends.cuda_sparse import triton_large, triton_row_plan  # noqa: E402
from rfp.backends.fused import triton_small  # noqa: E402
from rfp.backends.learned import triton_dense  # noqa: E402
from tests.first_stage import check  # noqa: E402

pytestmark = pytest.mark.skipif(
    not isinstance(triton_small.small_graphs_kernel, JITFunction), reason="the interpreter was chosen"
)


SMALL = {
    "out": "*fp32", "features": "*fp32", "crow": "*i32", "col": "*i32", "value": "*fp32", "ptr": "*i64", "keys": "*i64",
    "root": "i64", "norms": "*fp64",
    "dropped": "*i64", "num_trajectories": "i32", "num_operators": "i32", "row_operators": "i32",
    "nnz": "i32", "num_steps": "i32", "normalize_every": "i32", "k": "i32", "above": "i32",
}  # fmt: skip


@pytest.mark.parametrize("normalization", [0, 1, 2])
@pytest.mark.parametrize(
    ("width", "panels", "distribution", "raw_keys"),
    [(32, 1, 0, False), (32, 1, 1, True), (64, 1, 2, False), (128, 1, 3, True), (32, 2, 1, False), (128, 4, 0, False)],
)
def test_small_graphs(width: int, panels: int, normalization: int, distribution: int, raw_keys: bool) -> None:
    constants = {"N": width, "PANELS": panels, "SLOTS": 4, "NORMALIZATION": normalization}
    drawn = {"DISTRIBUTION": distribution, "RAW_KEYS": raw_keys}
    stored = "*fp32" if normalization == 2 else "*fp16"
    for lanes, seldom in ((True, False), (True, True), (False, True)):
        constants["LANES"], constants["SELDOM"] = lanes, seldom
        text = check(triton_small.small_graphs_kernel, {**SMALL, "out": stored}, {**constants, **drawn})
        by_lanes = lanes and normalization == 2 and width <= 64 and panels == 1
        assert "tt.func public @small_graphs_kernel" in text
        assert ("tt.dot" in text) == (normalization == 2 and not by_lanes)
        assert ("mma.sync" in text) == by_lanes


def test_variants_can_be_compiled_without_a_launch() -> None:
    """As :meth:`rfp.triton_launch.RepeatedLaunches.compile_together` asks for it."""
    arguments = signature(triton_small.small_graphs_kernel.warmup).parameters
    assert [one.kind.description for one in arguments.values()] == [
        "variadic positional",
        "keyword-only",
        "variadic keyword",
    ]
    assert "grid" in arguments


LARGE = {
    "source": "*fp32", "target": "*fp32", "states": "*fp32", "pieces": "*fp32", "grams": "*fp64", "gram": "*fp64",
    "weight": "*fp64", "status": "*i32", "rounding": "*fp64", "unit": "*fp64",
    "col": "*i32", "value": "*fp32", "num_places": "i32", "room": "i32", "piece_programs": "i32",
    "num_parts": "i32", "num_rows": "i32", "num_blocks": "i32", "num_trajectories": "i32", "k": "i32",
    "trajectory": "i32", "grams_trajectory": "i32", "source_row": "i32", "source_trajectory": "i32",
    "target_row": "i32", "target_trajectory": "i32",
}  # fmt: skip


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("offsets", ["*i32", "*i64"])
def test_product_of_a_large_graph(width: int, offsets: str) -> None:
    names = ("row", "num_pieces", "heavy", "heavy_end", "arrived")
    types = {**LARGE, **dict.fromkeys(names, "*i32"), "begin": offsets, "end": offsets}
    constants = {"K": width, "ROWS": 128 // width, "UNROLL": 8}
    # By the one atomic addition a program knows that it has the last piece of a heavy row.
    assert check(triton_large.product_kernel, types, constants).count("tt.atomic_rmw") == 1


def test_order_of_the_rows_of_a_large_graph() -> None:
    sums = ("begin", "end", "row_of", "heavy", "heavy_end")
    types = {**LARGE, **dict.fromkeys(("crow", "counts", "taken", "num_pieces", "pieces_taken", *sums), "*i32")}
    limits = {"HEAVY_ROW": 256, "PIECE": 128, "WINDOW": 1 << 14, "CLASSES": 64, "BLOCK": 256}
    for kernel in (triton_row_plan._count_kernel, triton_row_plan._place_kernel):
        assert check(kernel, types, limits).count("tt.atomic_rmw") == 2  # of classes and of pieces


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("l2", [False, True])
def test_normalisation_of_a_large_graph(width: int, l2: bool) -> None:
    types = {**LARGE, "row": "i32"}
    words = width * width
    sizes = {"K": width, "WORDS": words // 64, "PARTS": 2048 * 64 // words}
    for normalize in (False, True):
        then = {"L2": l2, "NORMALIZE": normalize}
        # By the one atomic addition the last program knows that it is.
        assert check(triton_large.sum_kernel, types, {**sizes, **then}).count("tt.atomic_rmw") == 1
        at_once = {"K": width, "ROWS": 64, "PARTS": max(1, 2048 // words), **then}
        assert check(triton_large.gram_kernel, types, at_once).count("tt.atomic_rmw") == 1
    gram = check(triton_large.gram_kernel, types, {"K": width, "ROWS": 64, "PARTS": 0, "L2": l2, "NORMALIZE": True})
    assert "tt.atomic_rmw" not in gram
    applied = check(triton_large.apply_kernel, types, {"K": width, "ROWS": 64, "L2": l2})
    # Only the widest states are worth splitting.
    assert ("bf16" in gram) == (width == 64 and not l2)
    assert ("tf32x3" in applied) == (width == 64 and not l2)


DENSE = {
    "grad_matrix": "*fp32", "grad_out": "*fp32", "out": "*fp32", "features": "*fp32", "matrix": "*fp32", "rows": "*i64",
    "dropped": "*i64", "unit": "fp32", "unknown_norm": "fp32",
    "n": "i32", "width": "i32", "num_trajectories": "i32", "node_stride": "i32",
    "trajectory_stride": "i32", "num_steps": "i32", "normalize_every": "i32", "k": "i32",
}  # fmt: skip


@pytest.mark.parametrize("normalization", [0, 1, 2])
@pytest.mark.parametrize(("nodes", "chunk"), [(16, 16), (32, 32), (64, 64), (128, 32), (256, 32)])
@pytest.mark.parametrize("channels", [16, 32])
def test_dense_matrices_of_small_graphs(nodes: int, chunk: int, channels: int, normalization: int) -> None:
    constants = {"N": nodes, "K": channels, "CHUNK": chunk, "NORMALIZATION": normalization}
    forward = check(triton_dense.dense_forward_kernel, DENSE, constants)
    backward = check(triton_dense.dense_backward_kernel, DENSE, constants)
    # One product a step, in float64; backward, two and what the normalisation needs. In chunks the gradient of the
    # matrix is left to others.
    assert forward.count(" = tt.dot ") == 1
    assert backward.count(" = tt.dot ") == {0: 2, 1: 3, 2: 6}[normalization] - (chunk < nodes)
