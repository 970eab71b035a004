"""The first stage of a kernel's compilation, for a GPU that need not be there: it checks types and shapes.

The interpreter, in which other tests run, forgives what a compiler does not.
"""

from __future__ import annotations

from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend


def check(kernel: Any, types: dict[str, str], constants: dict[str, Any]) -> str:
    """The kernel's first intermediate form, for an H200."""
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, constexprs=places, attrs={})
    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options({"num_warps": 1})
    module = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    return str(module)
