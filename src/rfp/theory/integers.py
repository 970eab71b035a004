r"""Traces of powers of integer matrices, exact however large: residues modulo primes, joined by the Chinese remainder.

:math:`|\mathrm{trace}(A^P)| \le n \lVert A \rVert_\infty^P` says how many primes are needed. They stay below 2^31, so
that the sums of a product fit 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from rfp.operators import MatrixOperator, Operator

# Integers of float64 are exact below this.
_EXACT = 2**53
# Words of the states that are propagated at a time.
_WORDS = 1 << 22


def as_integer_matrix(S: Operator) -> sp.csr_array | None:
    """The matrix in int64 if all its entries are integers and small enough for residues, else ``None``."""
    if not isinstance(S, MatrixOperator):
        return None
    value = S.csr.value.cpu()
    if not bool((value == value.round()).all()) or not bool((value.abs() < _EXACT).all()):
        return None
    matrix = S.csr.to_scipy().astype(np.int64)
    return matrix if _largest_row_sum(matrix) < 2**31 else None


def _largest_row_sum(matrix: sp.csr_array) -> int:
    return int(abs(matrix).sum(axis=1).max()) if matrix.shape[0] else 0


def count_primes(matrix: sp.csr_array, power: int) -> int:
    """How many primes below 2^31 exceed, multiplied, twice any trace of that power; none if float64 is exact."""
    bits = math.log2(max(matrix.shape[0], 1)) + power * math.log2(max(_largest_row_sum(matrix), 1))
    return 0 if bits < 52 else math.ceil((bits + 2) / 30.9)  # those used are above 2^30.9


def _primes(number: int) -> Iterator[int]:
    """The largest primes below 2^31, so many of them."""
    candidate = 2**31 - 1
    while number:
        if _is_prime(candidate):
            yield candidate
            number -= 1
        candidate -= 2


def _is_prime(number: int) -> bool:
    """Miller-Rabin with the bases 2, 3, 5 and 7, which decides for numbers below 3.2e9."""
    if any(number % base == 0 for base in (2, 3, 5, 7)):
        return number in (2, 3, 5, 7)
    odd = number - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    for base in (2, 3, 5, 7):
        x = pow(base, odd, number)
        if x not in (1, number - 1) and all((x := x * x % number) != number - 1 for _ in range(twos - 1)):
            return False
    return True


def integer_trace(matrix: sp.csr_array, power: int) -> int:
    r""":math:`\mathrm{trace}(A^P)` of a symmetric integer matrix.

    Example:
        >>> swap = sp.csr_array(np.array([[0, 3], [3, 0]]))  # eigenvalues 3 and -3
        >>> integer_trace(swap, 80) == 2 * 3**80
        True
    """
    n = matrix.shape[0]
    width = max(1, min(n, _WORDS // max(n, 1)))
    total, modulus = 0, 1  # entries of A need no residue: row sums below 2^31 keep products of residues in 64 bits
    for prime in _primes(max(1, count_primes(matrix, power))):
        parts = (range(first, min(first + width, n)) for first in range(0, n, width))
        residue = sum(_residue(matrix, power, prime, columns) for columns in parts) % prime
        # The number that is total modulo the primes so far and residue modulo this one.
        total += modulus * ((residue - total) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    return total if total <= modulus // 2 else total - modulus


def _residue(matrix: sp.csr_array, power: int, prime: int, columns: range) -> int:
    left = right = np.zeros((matrix.shape[0], len(columns)), dtype=np.int64)
    right[columns, np.arange(len(columns))] = 1
    for _ in range((power + 1) // 2):
        left, right = right, (matrix @ right) % prime
    left = right if power % 2 == 0 else left
    return int((left * right % prime).sum()) % prime
