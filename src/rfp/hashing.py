r"""A stateless 64-bit mixing function on tensors: the root of every random number here.

:func:`mix` is the finaliser of SplitMix64 [1]_. All arithmetic is on wrapping ``int64``, so the words are
the same bit for bit on every device, in PyTorch, NumPy, Numba and Triton.

References:
    .. [1] G. Steele, D. Lea, C. Flood. Fast splittable pseudorandom number generators. OOPSLA 2014.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

IntOrTensor = TypeVar("IntOrTensor", int, Tensor)


def signed(value: int) -> int:
    """The integer modulo 2^64 as the signed value an ``int64`` tensor holds.

    >>> signed(2**64 - 1)
    -1
    """
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


GOLDEN = signed(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = signed(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = signed(0x94D049BB133111EB)
# The word of the edge i -> j is mix(i SOURCE + j GOLDEN); that of 0 -> 0, which would be 0 and go unseen, is the other.
SOURCE = signed(0xD1342543DE82EF95)
LOOP_AT_ZERO = signed(0x2545F4914F6CDD1D)


def mix(z: IntOrTensor) -> IntOrTensor:
    """Scramble 64-bit words so that nearby inputs give unrelated outputs (a bijection).

    Tensors are overwritten to spare memory traffic: pass a fresh one.
    """
    if isinstance(z, Tensor):
        # The shift of int64 is arithmetic; the masks turn it into the logical shift of uint64.
        z ^= (z >> 30) & (2**34 - 1)
        z *= _MULTIPLIER_1
        z ^= (z >> 27) & (2**37 - 1)
        z *= _MULTIPLIER_2
        z ^= (z >> 31) & (2**33 - 1)
        return z
    word = z & (2**64 - 1)
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return signed(word ^ (word >> 31))


def stream_keys(seed: int, trajectories: range, device: torch.device | str = "cpu") -> Tensor:
    """One 64-bit key for each trajectory, ``[B]``."""
    root = mix(signed(seed))
    keys = [mix(signed(root + (b + 1) * GOLDEN)) for b in trajectories]
    return torch.tensor(keys, dtype=torch.int64, device=device)


def mixed_keys(graph_keys: Tensor, device: torch.device | str) -> Tensor:
    """The 64-bit keys of graphs that are named by integers, ``[num_graphs]``."""
    return mix(graph_keys.to(device, torch.int64) + GOLDEN)


def words_of_edges(source: Tensor, target: Tensor) -> Tensor:
    """A 64-bit word for each edge, that of 0 -> 0 zero, in whose place :data:`LOOP_AT_ZERO` is to be taken."""
    return mix(source * SOURCE + target * GOLDEN)


def hash_of_edges(source: Tensor, target: Tensor) -> Tensor:
    """The sum of the words, modulo 2^64: what the key of one graph adds up, in any order."""
    words = words_of_edges(source, target)
    return words.sum() + (words == 0).sum() * LOOP_AT_ZERO
