"""Whether compiled code may use the matrix unit lane by lane.

Triton does not say which lane of a warp holds which number: it is free to choose a layout for each tensor, and an
instruction written by hand works on lanes. So ``triton_columns`` is used only where the compiler's own
output shows that element i of its ``[32]`` tensors lies in lane i; elsewhere a slower path is.
"""

from __future__ import annotations

import re

_INSTRUCTION = 'elementwise_inline_asm "mma.sync'
_ALIAS = re.compile(r"^(#\w+) = (#ttg\.\w+<.*>)\s*$", re.MULTILINE)
_OPERAND = re.compile(r"tensor<32xf64, (#ttg\.slice<\{dim = (\d+), parent = (#\w+)\}>|#\w+)>")
# One warp, one number a lane, in order: of a vector, and of the rows of a matrix without its first axis.
_VECTOR = (
    re.compile(r"blocked<\{sizePerThread = \[1\], threadsPerWarp = \[32\], warpsPerCTA = \[1\]"),
    re.compile(r"linear<\{register = \[\], lane = \[\[1\], \[2\], \[4\], \[8\], \[16\]\], warp = \[\]"),
)
_ROWS = (
    re.compile(r"blocked<\{sizePerThread = \[\d+, 1\], threadsPerWarp = \[1, 32\], warpsPerCTA = \[1, 1\]"),
    re.compile(
        r"linear<\{register = \[(\[\d+, 0\](, )?)*\], "
        r"lane = \[\[0, 1\], \[0, 2\], \[0, 4\], \[0, 8\], \[0, 16\]\], warp = \[\]"
    ),
)


def lanes_in_order(code: str) -> bool:
    """Whether every matrix instruction of this Triton GPU IR works on vectors whose element i is in lane i.

    What is not recognised counts as out of order, and so does code without such an instruction.
    """
    aliases = dict(_ALIAS.findall(code))
    lines = [line for line in code.splitlines() if _INSTRUCTION in line]
    return bool(lines) and all(_in_order(line, aliases) for line in lines)


def _in_order(line: str, aliases: dict[str, str]) -> bool:
    types = line.partition("} %")[2]
    operands = _OPERAND.findall(types)
    if not operands or len(operands) != types.count("tensor<"):
        return False
    for name, axis, parent in operands:
        known = _ROWS if parent else _VECTOR
        layout = aliases.get(parent or name, "")
        if axis not in ("", "0") or not any(pattern.search(layout) for pattern in known):
            return False
    return True
