r"""Normalisation functions :math:`N` (section 3.3) in their plain form: what every fast path is held against.

Each acts on every graph of a batch and every trajectory on its own: one QR over a disjoint batch would mix graphs.

=================  ==========================================================  =============================
name               result, per graph                                           used by
=================  ==========================================================  =============================
``l2``             columns of norm 1 (Eq. 5); zero columns stay zero           power iteration
``qr``             orthonormal columns, :math:`R_{ii} > 0` (Eq. 6)             subspace iteration, RFP
``inverse_gram``   :math:`a (a^\top a)^{+}`                                    PowerEmbed
``none``           :math:`a`                                                   SGC, SIGN, trace estimates
=================  ==========================================================  =============================

A normalisation is ``(a, ptr, rounding) -> (a, events)``: the events say what it had to do, ``rounding`` what the
columns of the product owe to rounding (:mod:`rfp.rounding`), without which every column counts as exact.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rfp.precision  # noqa: F401  for what importing it does
from rfp.errors import ArgumentError, unknown_choice
from rfp.rounding import Rounding

# What happened while normalising, counted: which method ran, how many columns were found dependent. A count on a GPU
# stays there until somebody asks for the sum.
Events = Mapping[str, int | Tensor]
Normalization = Callable[[Tensor, Tensor, Rounding | None], tuple[Tensor, Events]]


# Rows that are summed at a time on a CPU.
_ROWS = 1 << 11


def count_events(events: Iterable[Events]) -> Counter[str]:
    """The sum of the events of many steps; waits for counts that are still being computed on a device.

    Example:
        >>> count_events([{"dependent_columns": torch.tensor([2, 1])}, {"dependent_columns": 1, "householder": 0}])
        Counter({'dependent_columns': 4})
    """
    total: Counter[str] = Counter()
    for step in events:
        for name, count in step.items():
            total[name] += int(count.sum()) if isinstance(count, Tensor) else count
    return +total


def dependence_tolerance(dtype: torch.dtype) -> float:
    """A residual below this fraction of the largest column norm counts as zero: 1e-5 in float32, 1e-10 in float64.

    Rounding leaves a residual near eps times the condition of the columns before; these bounds stay above it for
    conditions to 1e2 and 1e5, and what they cut off is a direction already known to a percent at best in float32.
    """
    return 1e-5 if dtype == torch.float32 else 1e-10


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Sum the rows of each graph, ``[n, ...] -> [num_graphs, ...]``, in a fixed order on every device."""
    if len(ptr) == 2:
        return x.sum(0, keepdim=True)
    return torch.segment_reduce(x, "sum", lengths=ptr.diff(), axis=0, unsafe=x.is_cuda)


def column_lengths(
    a: Tensor, ptr: Tensor, sizes: tuple[int, int] | None = None
) -> Tensor:  # [B, n, k] -> [G, B, k] float64
    """The norm of each column of each graph; squares are summed in float64, where those of float32 do not overflow.

    Args:
        a: States.
        ptr: ``[num_graphs + 1]``.
        sizes: Nodes of the smallest and of the largest graph, if they are known: graphs of one size, as the copies that
            replicas of a model train on, are summed as a block. A sum over each of few long segments would be the work
            of few threads of a GPU.
    """
    node_first = a.transpose(0, 1)
    if len(ptr) == 2 and a.device.type == "cpu" and not a.requires_grad:
        # A part at a time stays in cache; at once, in float64, took nine times as long.
        parts = (part.double().square().sum(0) for part in torch.split(node_first, _ROWS))
        return sum(parts, torch.zeros(node_first.shape[1:], dtype=torch.float64)).sqrt()[None]
    if len(ptr) == 2:
        lengths: Tensor = torch.linalg.vector_norm(node_first, dim=0, keepdim=True, dtype=torch.float64)
        return lengths
    if sizes is not None and 0 < sizes[0] == sizes[1] == a.size(1) / (len(ptr) - 1):
        blocks = node_first.view(len(ptr) - 1, sizes[0], *node_first.shape[1:])
        of_blocks: Tensor = torch.linalg.vector_norm(blocks, dim=1, dtype=torch.float64)
        return of_blocks
    squares = segment_sum(node_first.double().square(), ptr)
    # The square root has no gradient at 0: leave the zeros out of it, not only out of the result.
    return torch.where(squares > 0, squares, 1.0).sqrt() * (squares > 0)


def _blocks(a: Tensor, ptr: Tensor) -> Iterator[Tensor]:
    bounds = ptr.tolist()
    for start, stop in itertools.pairwise(bounds):
        yield a[:, start:stop]


def none(a: Tensor, ptr: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
    """No normalisation."""
    return a, {}


def l2(a: Tensor, ptr: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
    r"""Divide each channel by its norm, :math:`a / \lVert a \rVert_2` (Eq. 5), for each graph; zero stays zero.

    A column that is no longer than its rounding counts as zero. O(n k B).

    Args:
        a: ``[B, n, k]``.
        ptr: ``[num_graphs + 1]``.
        rounding: Rounding of the state that was multiplied to give ``a``.

    Returns:
        ``[B, n, k]``, and ``zero_columns``.

    Example:
        >>> l2(torch.tensor([[[3.0, 0.0], [4.0, 0.0]]]), torch.tensor([0, 2]))[0]
        tensor([[[0.6000, 0.0000],
                 [0.8000, 0.0000]]])
    """
    inverse, events = inverse_lengths(column_lengths(a, ptr), rounding)
    if len(ptr) != 2:
        inverse = torch.repeat_interleave(inverse, ptr.diff(), dim=0, output_size=a.size(1))
    node_first = a.transpose(0, 1)
    return (node_first * inverse).to(a.dtype).transpose(0, 1), events


def inverse_lengths(length: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
    """What :func:`l2` multiplies columns of these lengths ``[G, B, k]`` with, zero for those that count as zero."""
    zero = length == 0
    if rounding is not None:
        zero = zero | (length <= rounding.after(length.detach()).noise)
    # Squares that float64 does not hold: the column is not zero, nor has it a length.
    inverse = torch.where(length.isinf(), torch.nan, 1 / torch.where(zero, 1.0, length))
    return torch.where(zero, 0.0, inverse), {"zero_columns": zero.sum()}


def qr(a: Tensor, ptr: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
    r"""Orthonormalise the columns of each graph: :math:`a^\top a = I` with the same span (Eq. 6).

    :math:`Q` of the Householder decomposition with :math:`R_{ii} > 0`, which makes it unique and so equivariant to a
    permutation of the nodes. It departs from plain QR in one place: a column that depends on those before it becomes
    zero and the later columns are not projected against it. (Plain QR fills such columns with an arbitrary basis, which
    depends on the order of the nodes.) Fewer nodes than channels is the same case: the columns after the n-th are zero.
    A column is dependent where

    .. math:: R_{jj} \le tol \cdot \max_i \lVert a_i \rVert
        \quad\text{or}\quad R_{jj} \le e \, \alpha_j, \qquad e = \max_i e_i,

    with the noise :math:`e_i` of the columns and its amplification :math:`\alpha_j` of :mod:`rfp.rounding`: what
    remains of it is then small, or could be rounding alone.

    Args:
        a: ``[B, n, k]``.
        ptr: ``[num_graphs + 1]``.
        rounding: Rounding of the state that was multiplied to give ``a``.

    Returns:
        ``[B, n, k]``; ``householder`` (decompositions) and ``dependent_columns``.

    Costs O(n k²) a trajectory, times the number of dependent columns plus one.
    """
    noise = None
    if rounding is not None and a.size(2):
        noise = rounding.after(column_lengths(a.detach(), ptr)).noise.amax(-1).tolist()  # [G][B]
    events: Counter[str] = Counter()
    parts = []
    for g, block in enumerate(_blocks(a, ptr)):
        columns = [_qr_of_one(one, 0.0 if noise is None else noise[g][b], events) for b, one in enumerate(block)]
        parts.append(torch.stack(columns))
    return torch.cat(parts, dim=1) if parts else a, events


def _qr_of_one(a: Tensor, noise: float, events: Counter[str]) -> Tensor:  # [n, k] -> [n, k]
    exact = a.double()
    threshold = dependence_tolerance(a.dtype) * (float(exact.detach().norm(dim=0).max()) if a.numel() else 0.0)
    kept = list(range(a.size(1)))
    while kept:
        # One decomposition for each dependent column: remove the first one found and start again.
        q, r = torch.linalg.qr(exact[:, kept])
        events["householder"] += 1
        dependent = _first_dependent(r.detach(), threshold, noise)
        if dependent is None:
            break
        del kept[dependent]
        events["dependent_columns"] += 1
    out = torch.zeros_like(exact)
    if kept:
        sign = torch.where(r.detach().diagonal() < 0, -1.0, 1.0)
        out = out.index_copy(1, torch.tensor(kept, device=a.device), q * sign)
    return out.to(a.dtype)


def _first_dependent(r: Tensor, threshold: float, noise: float) -> int | None:  # [min(n, k), k]
    squares = r.cpu().numpy() ** 2
    amplified = np.ones(squares.shape[1])  # alpha squared
    for j in range(squares.shape[1]):
        if j == len(squares) or squares[j, j] <= max(threshold**2, noise**2 * amplified[j]):
            return j
        amplified[j + 1 :] += squares[j, j + 1 :] * (amplified[j] / squares[j, j])
    return None


def inverse_gram(a: Tensor, ptr: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
    r"""PowerEmbed's step, :math:`a (a^\top a)^{+}` for each graph, in float64.

    With a pseudo-inverse (relative cut-off 1e-12 on the Gram matrix) it is defined for dependent columns too. A column
    that is no longer than its rounding counts as zero.
    """
    real = torch.ones(len(ptr) - 1, a.size(0), a.size(2), dtype=torch.float64, device=a.device)
    if rounding is not None:
        length = column_lengths(a.detach(), ptr)
        real = (length > rounding.after(length).noise).double()
    parts = []
    for g, block in enumerate(_blocks(a, ptr)):
        exact = block.double() * real[g][:, None]
        gram = exact.transpose(1, 2) @ exact  # [B, k, k]
        parts.append((exact @ torch.linalg.pinv(gram, hermitian=True, rtol=1e-12)).to(a.dtype))
    return torch.cat(parts, dim=1) if parts else a, {}


# A new normalisation is one function and one line here.
NORMALIZATIONS: dict[str, Normalization] = {"l2": l2, "qr": qr, "inverse_gram": inverse_gram, "none": none}
# A choice of N: a name, or a function ``(a [B, n, k], ptr) -> a``.
NormalizationChoice = str | Callable[..., Any]


def named(normalization: NormalizationChoice) -> NormalizationChoice:
    """The name of a normalisation of this module given as a function: ``qr`` is ``"qr"``, with all its fast paths."""
    names = [name for name, function in NORMALIZATIONS.items() if function is normalization]
    return names[0] if names else normalization


def as_normalization(normalization: NormalizationChoice) -> Normalization:
    """Look a normalisation up by name, or wrap a callable ``(a [B, n, k], ptr) -> a`` or ``-> (a, events)``."""
    normalization = named(normalization)
    if not callable(normalization):
        if normalization not in NORMALIZATIONS:
            raise unknown_choice("normalization", normalization, NORMALIZATIONS)
        return NORMALIZATIONS[normalization]
    function = normalization

    def own(a: Tensor, ptr: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
        result = function(a, ptr)
        out, events = result if isinstance(result, tuple) else (result, {})
        if not isinstance(out, Tensor) or out.shape != a.shape:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ArgumentError(f"a normalization must keep the shape {tuple(a.shape)}, got {got}")
        return out, events

    return own
