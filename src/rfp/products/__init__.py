r"""What a trajectory knows: entries of the powers of S, estimated from products of its states, with standard errors.

The states of an unnormalised trajectory are :math:`a^{(i)} = S^i a^{(0)}`, and its K = B k columns are samples. If they
satisfy :math:`E[a^{(0)} a^{(0)\top}] = I / s`, then for a symmetric S

.. math:: \widehat{(S^{i+j})_{uv}} = \frac{s}{K} \sum_c a^{(i)}_c(u)\, a^{(j)}_c(v), \qquad
          E\,\widehat{(S^{i+j})_{uv}} = (S^{i+j})_{uv},

so P steps tell the powers up to 2P. Power p is read from steps :math:`\lfloor p/2 \rfloor` and
:math:`\lceil p/2 \rceil`: for normal features one term has the variance :math:`(S^{2i})_{uu} (S^{2j})_{vv} +
(S^p)_{uv}^2`, and since :math:`i \mapsto \log (S^{2i})_{vv}` is convex (moments of a spectral measure), no other split
of p makes that of a diagonal entry smaller. For an S that is not symmetric only :math:`E[a^{(p)}(u) a^{(0)}(v)] =
(S^p)_{uv}` holds, and P steps tell P powers; a random walk on an undirected graph is *similar* to a symmetric matrix,
:math:`D^{-1} A = D^{-1/2} (D^{-1/2} A D^{-1/2}) D^{1/2}`, which is propagated in its place.

How the features begin decides on s and on the error (:class:`~rfp.settings.Settings`, ``start``):

=============== ========================= ==============================================================================
start           s                         standard error
=============== ========================= ==============================================================================
``drawn``       1 / variance of D         :math:`\hat\sigma / \sqrt K`, the samples are independent
``unit``        n                         the same
``orthonormal`` n                         :math:`\hat\sigma / \sqrt k \cdot \sqrt{1 - k / n}` in each trajectory: k of
                                          the n columns of an orthogonal matrix are a sample without replacement from
                                          columns whose mean is exact
=============== ========================= ==============================================================================

With an orthonormal start and k >= n, :math:`Q Q^\top = I` and the "estimate" is exact, for any S.

A normalisation destroys this: ℓ2 divides each column by a random length, QR mixes the columns of a graph by a random
triangular matrix. Only the states *before* the first normalisation (steps below w) are used, and what needs later ones
is refused.
"""

from rfp.products.channel_means import PowerEstimate
from rfp.products.draw import DrawArguments, variance_of
from rfp.products.powers import diagonal, pairs, return_probabilities

__all__ = ["DrawArguments", "PowerEstimate", "diagonal", "pairs", "return_probabilities", "variance_of"]
