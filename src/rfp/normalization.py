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
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rfp.errors import unknown_choice

# Events counted while normalising: which method ran, how many columns were found dependent.
Tally = Counter[str]
Normalization = Callable[[Tensor, Tensor, Tally], Tensor]
# What the faces take: a name, or a callable (a [B, n, k], ptr) -> a.
NormalizationChoice = str | Callable[[Tensor, Tensor], Tensor]


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


def _blocks(a: Tensor, ptr: Tensor) -> Iterator[Tensor]:
    bounds = ptr.tolist()
    for start, stop in itertools.pairwise(bounds):
        yield a[:, start:stop]


def none(a: Tensor, ptr: Tensor, tally: Tally) -> Tensor:
    """No normalisation."""
    return a


def l2(a: Tensor, ptr: Tensor, tally: Tally) -> Tensor:
    r"""Divide each channel by its norm, :math:`a / \lVert a \rVert_2` (Eq. 5), for each graph; zero stays zero.

    Squares are summed in float64, so nothing overflows before float32 itself does. O(n k B).

    Args:
        a: ``[B, n, k]``.
        ptr: ``[num_graphs + 1]``.
        tally: Receives the number of zero columns.

    Example:
        >>> l2(torch.tensor([[[3.0, 0.0], [4.0, 0.0]]]), torch.tensor([0, 2]), Counter())
        tensor([[[0.6000, 0.0000],
                 [0.8000, 0.0000]]])
    """
    node_first = a.transpose(0, 1)
    if len(ptr) == 2:
        norm = torch.linalg.vector_norm(node_first, dim=0, keepdim=True, dtype=torch.float64)
    else:
        squares = segment_sum(node_first.double().square(), ptr)  # [G, B, k]
        # The square root has no gradient at 0: leave the zeros out of it, not only out of the result.
        norm = torch.where(squares > 0, squares, 1.0).sqrt() * (squares > 0)
    inverse = torch.where(norm > 0, 1 / norm.clamp_min(torch.finfo(torch.float64).tiny), 0.0)
    if len(ptr) != 2:
        inverse = torch.repeat_interleave(inverse, ptr.diff(), dim=0, output_size=a.size(1))
    return (node_first * inverse).to(a.dtype).transpose(0, 1)


def qr(a: Tensor, ptr: Tensor, tally: Tally) -> Tensor:
    r"""Orthonormalise the columns of each graph: :math:`a^\top a = I` with the same span (Eq. 6).

    :math:`Q` of the Householder decomposition with :math:`R_{ii} > 0`, which makes it unique and so equivariant to a
    permutation of the nodes. It departs from plain QR in one place: a column that depends on those before it,
    :math:`R_{ii} \le tol \cdot \max_j \lVert a_j \rVert`, becomes zero and the later columns are not projected against
    it. (Plain QR fills such columns with an arbitrary basis, which depends on the order of the nodes.) Fewer nodes than
    channels is the same case: the columns after the n-th are zero.

    Args:
        a: ``[B, n, k]``.
        ptr: ``[num_graphs + 1]``.
        tally: Receives ``householder`` (decompositions) and ``dependent_columns``.

    Costs O(n k²) a trajectory, times the number of dependent columns plus one.
    """
    parts = []
    for block in _blocks(a, ptr):
        columns = [_qr_of_one(one, tally) for one in block]
        parts.append(torch.stack(columns))
    return torch.cat(parts, dim=1) if parts else a


def _qr_of_one(a: Tensor, tally: Tally) -> Tensor:  # [n, k] -> [n, k]
    n, k = a.shape
    exact = a.double()
    threshold = dependence_tolerance(a.dtype) * (float(exact.detach().norm(dim=0).max()) if a.numel() else 0.0)
    kept = list(range(k))
    while kept:
        # One decomposition for each dependent column: remove the first one found and start again.
        q, r = torch.linalg.qr(exact[:, kept])
        tally["householder"] += 1
        pivots = torch.zeros(len(kept), dtype=torch.float64)
        pivots[: min(n, len(kept))] = r.detach().diagonal().cpu()
        dependent = (pivots.abs() <= threshold).nonzero()
        if not len(dependent):
            break
        del kept[int(dependent[0])]
        tally["dependent_columns"] += 1
    out = torch.zeros_like(exact)
    if kept:
        sign = torch.where(r.detach().diagonal() < 0, -1.0, 1.0)
        out = out.index_copy(1, torch.tensor(kept, device=a.device), q * sign)
    return out.to(a.dtype)


def inverse_gram(a: Tensor, ptr: Tensor, tally: Tally) -> Tensor:
    r"""PowerEmbed's step, :math:`a (a^\top a)^{+}` for each graph, in float64.

    With a pseudo-inverse (relative cut-off 1e-12 on the Gram matrix) it is defined for dependent columns too.
    """
    parts = []
    for block in _blocks(a, ptr):
        exact = block.double()
        gram = exact.transpose(1, 2) @ exact  # [B, k, k]
        parts.append((exact @ torch.linalg.pinv(gram, hermitian=True, rtol=1e-12)).to(a.dtype))
    return torch.cat(parts, dim=1) if parts else a


# A new normalisation is one function and one line here.
NORMALIZATIONS: dict[str, Normalization] = {"l2": l2, "qr": qr, "inverse_gram": inverse_gram, "none": none}


def as_normalization(normalization: NormalizationChoice) -> Normalization:
    """Look a normalisation up by name, or wrap a callable ``(a [B, n, k], ptr) -> a``."""
    if callable(normalization):
        function = normalization
        return lambda a, ptr, tally: function(a, ptr)
    if normalization not in NORMALIZATIONS:
        raise unknown_choice("normalization", normalization, NORMALIZATIONS)
    return NORMALIZATIONS[normalization]
