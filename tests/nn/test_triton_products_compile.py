"""The kernels of products become code of an H200 at ZINC's sizes, with three TF32 products for each of float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")

from tests.first_stage import compiled  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from rfp.nn import triton_gram_products, triton_weighted_products  # noqa: E402

pytestmark = pytest.mark.skipif(
    not isinstance(triton_gram_products.state_grams, JITFunction), reason="the interpreter was chosen"
)

POINTERS = ("out", "states", "grams", "weights", "first", "second", "alpha", "grad", "scale")
POINTERS += ("grad_first", "grad_second", "grad_alpha")
NUMBERS = ("leading_stride", "node_stride", "rows", "all_rows", "share", "pieces")
TYPES = {
    **dict.fromkeys(POINTERS, "*fp32"),
    **dict.fromkeys(NUMBERS, "i32"),
    "first_node": "*i64",
    "second_node": "*i64",
}
MULTIPLES = (*POINTERS, "leading_stride", "node_stride")
# What one multiprocessor has for a program, in bytes.
SHARED_MEMORY = 227 * 1024


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def built(kernel: Any, options: dict[str, Any], **constants: Any) -> str:
    """The assembly of a kernel as it is launched."""
    known = {name: value for name, value in {**options, **constants}.items() if name in kernel.arg_names}
    launch = {name: options[name] for name in ("num_warps", "num_stages") if name in options}
    made = compiled(kernel, TYPES, known, MULTIPLES, **launch)
    assert made.asm["cubin"]
    assert made.metadata.shared <= SHARED_MEMORY
    text: str = made.asm["ptx"]
    return text


@pytest.mark.parametrize("pairs", [False, True])
def test_gram_matrices_and_their_products(pairs: bool) -> None:
    options = triton_gram_products._options(51, pairs)
    tiles = {**triton_gram_products._TILES, "STRIDE": options["STRIDE"]}
    text = built(triton_gram_products.state_grams, options, CHANNELS=64, K=64, SCALED=not pairs)
    assert "ld.global.v4" in text  # four numbers at once
    dots = [text] + [
        built(kernel, tiles, PRODUCTS=64)
        for kernel in (triton_gram_products.grams_times_weights, triton_gram_products.grams_gradient)
    ]
    for text in dots:  # 64 x 64 x 64, eight at a time, thrice
        assert text.count("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32") == 3 * 8
    for kernel in (triton_gram_products.pair_weights, triton_gram_products.pair_weights_gradient):
        assert "wgmma" not in built(kernel, options)


@pytest.mark.parametrize(("states", "channels"), [(51, 64), (34, 32)])
def test_products_with_channel_weights(states: int, channels: int) -> None:
    options = {"STATES": states, "CHANNELS": channels, "PRODUCTS": 64, "T": 64, "K": 32, "M": 64}
    options |= {"PAIRS": states == 51, "num_warps": 4, "num_stages": 1}
    forward = built(triton_weighted_products.weighted_products_forward, options)
    backward = built(triton_weighted_products.weighted_products_backward, options)
    # W₁ x and W₂ y by 64 states, then the two gradients by 32 channels.
    assert forward.count("wgmma.mma_async.sync.aligned") == 3 * (8 + 8)
    assert backward.count("wgmma.mma_async.sync.aligned") == 3 * (8 + 8 + 4 + 4)
