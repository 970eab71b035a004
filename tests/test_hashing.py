"""The mixing function against published values and against plain integer arithmetic."""

import torch

from rfp.hashing import GOLDEN, mix, signed


def test_known_values_of_splitmix64() -> None:
    # The first outputs of SplitMix64 seeded with 1234567, as published with the generator's reference code.
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        outputs.append(mix(signed(state)) % 2**64)
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_tensor_and_integer_forms_agree() -> None:
    words = [0, 1, -1, 2**63 - 1, -(2**63), GOLDEN, 123456789]
    assert mix(torch.tensor(words)).tolist() == [mix(w) for w in words]


def test_signed_wraps_at_64_bits() -> None:
    assert signed(2**63) == -(2**63)
    assert signed(2**64 + 5) == 5
    assert signed(-1) == -1
