"""Which layouts the hand-written matrix instructions may be compiled to, on the compiler's own wording."""

import pytest

from rfp.backends.fused.lane_layouts import lanes_in_order

ROWS = (
    "#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 1], order = [1, 0]}>"
)
VECTOR = "#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>"
LANES = "[[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]"
SLICE = "#ttg.slice<{dim = 0, parent = #blocked}>"


def code(layout: str, used: str, other: str | None = None) -> str:
    """One instruction with two operands, as the compiler prints it."""
    text = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {$0, $1}, {$2}, {$3}, {$4, $5};"
    types = f"tensor<32xf64, {used}>, tensor<32xf64, {other or used}> -> tensor<32xf64, {used}>, tensor<32xf64, {used}>"
    attributes = '{constraints = "=d,=d,d,d,d,d", packed_element = 1 : i32, pure = true}'
    line = f'%1:2 = tt.elementwise_inline_asm "{text}" {attributes} %a, %b : {types} loc(#loc)'
    return f"{layout}\nmodule {{\n  {line}\n}}\n"


@pytest.mark.parametrize(
    ("layout", "used"),
    [
        (ROWS, SLICE),
        (ROWS.replace("sizePerThread = [1, 1]", "sizePerThread = [8, 1]"), SLICE),
        (VECTOR, "#blocked"),
        (f"#blocked = #ttg.linear<{{register = [[1, 0], [2, 0]], lane = {LANES}, warp = [], block = []}}>", SLICE),
        (
            "#blocked = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>",
            "#blocked",
        ),
    ],
)
def test_in_order(layout: str, used: str) -> None:
    assert lanes_in_order(code(layout, used))


@pytest.mark.parametrize(
    ("layout", "used"),
    [
        (ROWS.replace("[1, 32]", "[16, 2]"), SLICE),
        (ROWS.replace("sizePerThread = [1, 1]", "sizePerThread = [1, 2]"), SLICE),
        (ROWS.replace("warpsPerCTA = [1, 1]", "warpsPerCTA = [1, 2]"), SLICE),
        (ROWS, SLICE.replace("dim = 0", "dim = 1")),
        (VECTOR.replace("[1], threads", "[2], threads"), "#blocked"),
        (VECTOR, "#blocked1"),  # not defined
        (f"#blocked = #ttg.linear<{{register = [], lane = {LANES[::-1]}, warp = [], block = []}}>", SLICE),
        (
            "#blocked = #ttg.linear<{register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]]}>",
            SLICE,
        ),
        (
            "#blocked = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>",
            "#blocked",
        ),
        ("", "#ttg.something_new<{x = 1}>"),
    ],
)
def test_out_of_order_or_unknown(layout: str, used: str) -> None:
    assert not lanes_in_order(code(layout, used))


def test_one_bad_operand_or_none_at_all_is_enough() -> None:
    both = f"{ROWS}\n{VECTOR.replace('#blocked', '#blocked1').replace('[1], threads', '[2], threads')}"
    assert lanes_in_order(code(both, SLICE))
    assert not lanes_in_order(code(both, SLICE, "#blocked1"))
    assert not lanes_in_order(ROWS)
