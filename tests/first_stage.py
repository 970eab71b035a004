"""A kernel's compilation for a GPU that need not be there: its first stage, which checks types and shapes, or all.

The interpreter, in which other tests run, forgives what a compiler does not.
"""

from __future__ import annotations

from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

TARGET = GPUTarget("cuda", 90, 32)


def _source(kernel: Any, types: dict[str, str], constants: dict[str, Any], multiples: tuple[str, ...]) -> ASTSource:
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    divisible = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in multiples}
    return ASTSource(kernel, signature, constexprs=places, attrs=divisible)


def compiled(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], multiples: tuple[str, ...] = (), **options: int
) -> Any:
    """All stages, down to the code of an H200.

    Args:
        kernel: With its arguments' ``types``.
        types: Of arguments by their name; others may be among them.
        constants: Values of ``tl.constexpr`` arguments.
        multiples: Pointers and numbers that a launch finds to be multiples of 16.
        options: ``num_warps``, ``num_stages``.
    """
    multiples = tuple(name for name in multiples if name in kernel.arg_names)
    return triton.compile(_source(kernel, types, constants, multiples), target=TARGET, options=options)


def check(kernel: Any, types: dict[str, str], constants: dict[str, Any]) -> str:
    """The kernel's first intermediate form, for an H200."""
    source, target = _source(kernel, types, constants, ()), TARGET
    backend = make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options({"num_warps": 1})
    module = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    return str(module)
