r"""Products of trajectory entries, shared by all channels: what a linear K_embed cannot compute."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rfp.errors import ArgumentError
from rfp.nn.gram_rows import gram_rows, row_stride, row_weights
from rfp.nn.layers import MLP, FeatureNorm
from rfp.nn.multiplied_states import (
    gram_products,
    kernels_multiply,
    node_grams,
    products_of_grams,
    weighted_products,
)
from rfp.nn.products_agree import products_agree
from rfp.nn.replicated import each_affine, shared_affine
from rfp.precision import matmul_precision

# Without gradients to keep, pairs are multiplied in blocks whose Gram matrices and gathered states take about as much.
_PAIR_BYTES = 1 << 28

# Products of unit columns are of size 1/n: the usual 1e-5 would drown their variance on graphs of a thousand nodes.
_NORM_EPS = 1e-12


class TrajectoryProducts(nn.Module):
    r"""Learned products of a trajectory with itself, at every node and for every pair of nodes.

    The channels of a trajectory are samples. Of node v, channel c has the T = O (P + 1) numbers :math:`u_c(v)`, one for
    each operator and step, and Proposition 4.1 of the paper speaks of their *products*: for a symmetric S the mean over
    channels of :math:`r_c(v) (S^p r)_c(v)` estimates :math:`(S^p)_{vv}`, that of :math:`r_c(u) (S^p r)_c(v)` estimates
    :math:`(S^p)_{uv}` (:mod:`rfp.products`). Two linear maps :math:`W_1, W_2 \in R^{m \times T}`, the same for all
    channels, choose which:

    .. math:: y(v) = \frac{1}{k} \sum_c \alpha_c \odot (W_1 u_c(v)) \odot (W_2 u_c(v)), \qquad
              y(u, v) = \frac{1}{k} \sum_c \alpha_c \odot (W_1 u_c(u)) \odot (W_2 u_c(v)),

    then comes a normalisation over nodes (or pairs) and a small perceptron. Without α the result does not depend on the
    order of the channels; α is for channels that have one, as after a QR. It is equivariant to the order of the nodes.

    Without α all a node needs is its T x T Gram matrix, :math:`y_i(v) = w_{1i}^\top G(v) w_{2i}` with
    :math:`G(v) = \frac{1}{k} \sum_c u_c u_c^\top`: nothing of size k m is written, of predefined operators nothing of
    size k is kept for the backward pass, and R replicas share it. That form is taken if T is at most 2 k.

    On a GPU kernels compute both forms where no operator is learned (:mod:`rfp.nn.multiplied_states`): with α neither
    :math:`W_1 u_c` nor :math:`W_2 u_c` is ever written, and pairs are read where the states of their nodes are.

    Args:
        num_channels: k.
        num_states: T, numbers a channel has at a node: O (P + 1).
        out_channels: d.
        num_products: m.
        channel_weights: Whether to learn α, ``[k, m]``, which starts at 1.
        norm: ``"batch"``, ``"layer"``, ``"none"`` or ``"settled"`` (:class:`~rfp.nn.layers.FeatureNorm`).
        act: Activation of the perceptron.
        num_layers: Linear maps of the perceptron; with 1 the output is linear in the products.

    Shapes:
        Flat trajectories ``[..., n, T k]`` as :class:`rfp.nn.RandomFeaturePropagation` and ``Trajectory.flat`` give
        them, to ``[..., n, d]``; :meth:`pairs` to ``[..., num_pairs, d]``. O(n T k (T + m)) operations.

    Example:
        >>> import rfp
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> t = rfp.encode(rfp.Graph(ring, 3), num_channels=8, num_steps=4, normalization="l2").flat()
        >>> products = TrajectoryProducts(num_channels=8, num_states=5, out_channels=16)
        >>> products(t).shape, products.pairs(t, ring).shape
        (torch.Size([1, 3, 16]), torch.Size([1, 6, 16]))
    """

    # Read with a leading dimension of replicas (:func:`rfp.nn.replicated.replicate`).
    stacked_parameters = ("first", "second", "alpha")

    def __init__(
        self,
        num_channels: int,
        num_states: int,
        out_channels: int,
        *,
        num_products: int = 64,
        channel_weights: bool = False,
        norm: str = "batch",
        act: str = "relu",
        num_layers: int = 2,
    ) -> None:
        super().__init__()
        sizes = {"num_channels": num_channels, "num_states": num_states, "num_products": num_products}
        for name, value in {**sizes, "out_channels": out_channels}.items():
            if value < 1:
                raise ArgumentError(f"{name} must be at least 1, got {value}")
        self.num_channels, self.num_states = num_channels, num_states
        self.first = nn.Parameter(torch.empty(num_products, num_states))
        self.second = nn.Parameter(torch.empty(num_products, num_states))
        self.alpha = nn.Parameter(torch.empty(num_channels, num_products)) if channel_weights else None
        self.norm = FeatureNorm(norm, num_products, eps=_NORM_EPS)
        self.mlp = MLP(num_products, out_channels, hidden_channels=num_products, num_layers=num_layers, act=act)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.num_states)  # as of a linear map of T numbers
        nn.init.uniform_(self.first, -bound, bound)
        nn.init.uniform_(self.second, -bound, bound)
        if self.alpha is not None:
            nn.init.ones_(self.alpha)
        self.norm.reset_parameters()
        self.mlp.reset_parameters()

    def forward(self, t: Tensor, *, scale: Tensor | None = None, each: bool = False) -> Tensor:
        """Products of every node with itself, ``[..., n, d]``.

        Args:
            t: ``[..., n, T k]``.
            scale: ``[n, 1]``, multiplies the products of a node. With the number of nodes of its graph, states whose
                columns have unit length give products that do not shrink as graphs grow.
            each: For a replicated module (:mod:`rfp.nn.replicated`): whether ``t`` begins with a dimension of replicas
                too, as behind a learned operator, instead of being the same for all of them.
        """
        return self._finished(self.node_products(t, each=each), scale)

    @property
    def by_grams(self) -> bool:
        """Whether Gram matrices are all that is needed of a trajectory, and smaller than it is."""
        return self.alpha is None and self.num_states <= 2 * self.num_channels

    def grams(self, t: Tensor, *, scale: Tensor | None = None) -> Tensor:
        """What :meth:`of_grams` makes the same of as :meth:`forward` of ``t``: no parameter is in it.

        Of a trajectory without a gradient it may be computed long before a training step needs it, for many steps at
        once, and kept in the place of the trajectory.

        Args:
            t: ``[..., n, T k]``.
            scale: See :meth:`forward`.

        Returns:
            ``[..., n, row_stride(T)]`` (:mod:`rfp.nn.gram_rows`), where :attr:`by_grams` says so.
        """
        states = self._states(t)
        with torch.autocast(states.device.type, enabled=False), matmul_precision("highest"):
            if self._kernels_multiply(states, by_grams=True, of_pairs=False):
                return node_grams(states, scale)
            return gram_rows(states, scale)

    def of_grams(self, grams: Tensor) -> Tensor:
        """Products of every node with itself, ``[..., n, d]``, from its Gram matrix ``[..., n, row_stride(T)]``."""
        if grams.size(-1) != row_stride(self.num_states):
            raise ArgumentError(
                f"rows of Gram matrices of {self.num_states} states have {row_stride(self.num_states)} numbers, got "
                f"shape {list(grams.shape)}"
            )
        like = grams.new_empty(1, self.num_states, self.num_channels)  # a state that they may be of
        with torch.autocast(grams.device.type, enabled=False), matmul_precision("highest"):
            if self._kernels_multiply(like, by_grams=True, of_pairs=False):
                y = products_of_grams(grams, self.first, self.second)
            else:
                y = shared_affine(grams, row_weights(self.first, self.second))
        return self._finished(y, None)

    def pairs(self, t: Tensor, edge_index: Tensor, *, scale: Tensor | None = None, each: bool = False) -> Tensor:
        """Products of the ends of every pair, ``[..., num_pairs, d]``: W₁ of the first, W₂ of the second.

        Args:
            t: ``[..., n, T k]``.
            edge_index: ``[2, num_pairs]``, any pairs of nodes; on a CPU their range is checked.
            scale: Scale of the second node; see :meth:`forward`.
            each: See :meth:`forward`.
        """
        y = self.pair_products(t, edge_index, each=each)
        # Of padded batches: a pair is real where its second node is.
        of_pairs = (None if one is None else one.index_select(0, edge_index[1]) for one in (scale, self.norm.real))
        return self._finished(y, *of_pairs)

    def _finished(self, y: Tensor, scale: Tensor | None, real: Tensor | None = None) -> Tensor:
        out: Tensor = self.mlp(self.norm(y if scale is None else y * scale, real))
        return out

    def node_products(self, t: Tensor, *, each: bool = False) -> Tensor:
        """y(v) before normalisation and perceptron, ``[..., n, m]``."""
        return self._multiplied(self._states(t), None, each)

    def pair_products(self, t: Tensor, edge_index: Tensor, *, each: bool = False) -> Tensor:
        """y(u, v) before normalisation and perceptron, ``[..., num_pairs, m]``."""
        states = self._states(t)
        self._check_pairs(edge_index, states.size(-3))
        size = edge_index.size(1)
        if not torch.is_grad_enabled():
            numbers = states.numel() // max(states.size(-3), 1) * 2 + self.num_states**2
            size = max(_PAIR_BYTES // (4 * numbers), 1)
        parts = [self._multiplied(states, pairs, each) for pairs in torch.split(edge_index, max(size, 1), dim=1)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)

    def _states(self, t: Tensor) -> Tensor:  # [..., n, T k] -> [..., n, T, k]
        if t.size(-1) != self.num_states * self.num_channels:
            raise ArgumentError(
                f"a trajectory must have num_states * num_channels = {self.num_states} * {self.num_channels} numbers a "
                f"node, got shape {list(t.shape)}"
            )
        return t.to(self.first.dtype).view(*t.shape[:-1], self.num_states, self.num_channels)

    def _check_pairs(self, edge_index: Tensor, num_nodes: int) -> None:
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise ArgumentError(f"edge_index must have shape [2, num_pairs], got {list(edge_index.shape)}")
        if edge_index.device.type == "cpu" and edge_index.numel():  # on a GPU a check would wait for it
            low, high = int(edge_index.min()), int(edge_index.max())
            if low < 0 or high >= num_nodes:
                bad = low if low < 0 else high
                raise ArgumentError(f"edge_index must hold nodes in 0..{num_nodes - 1}, got {bad}")

    def _multiplied(self, states: Tensor, pairs: Tensor | None, each: bool) -> Tensor:  # [..., n, T, k] -> [..., r, m]
        """Of the nodes, or of pairs ``[2, r]``."""
        by_grams = self.by_grams
        # In full precision: where states of many steps nearly cancel, ten bits are not enough.
        with torch.autocast(states.device.type, enabled=False), matmul_precision("highest"):
            if not each and self._kernels_multiply(states, by_grams, of_pairs=pairs is not None):
                if self.alpha is None:
                    return gram_products(states, self.first, self.second, pairs)
                return weighted_products(states, self.first, self.second, self.alpha, pairs)
            u, v = (states, states) if pairs is None else (states.index_select(-3, nodes) for nodes in pairs)
            return self._by_gram_matrices(u, v, each) if by_grams else self._by_channels(u, v, each)

    def _kernels_multiply(self, states: Tensor, by_grams: bool, *, of_pairs: bool) -> bool:
        """Whether kernels compute it: there are some for this form, and they compute what the plain form does."""
        if not by_grams and (self.alpha is None or self.first.dim() > 2):
            return False
        taken = kernels_multiply(states, self.first.size(-2), weighted=not by_grams)
        return taken and products_agree(states, self.first, self.alpha, of_pairs=of_pairs)

    def _by_gram_matrices(self, u: Tensor, v: Tensor, each: bool) -> Tensor:
        affine = each_affine if each else shared_affine
        gram = (u @ v.mT).flatten(-2)  # [..., n, T T]
        weight = self.first[..., :, None] * self.second[..., None, :]  # [(R), m, T, T]
        return affine(gram, weight.flatten(-2) / self.num_channels)

    def _by_channels(self, u: Tensor, v: Tensor, each: bool) -> Tensor:
        affine = each_affine if each else shared_affine
        y = affine(u.mT, self.first) * affine(v.mT, self.second)  # [(R), ..., n, k, m]
        if self.alpha is not None:
            replicas = self.alpha.shape[:-2]
            y = y * self.alpha.view(*replicas, *[1] * (y.dim() - len(replicas) - 2), *self.alpha.shape[-2:])
        return y.mean(-2)

    def extra_repr(self) -> str:
        products = self.first.size(-2)
        return (
            f"num_channels={self.num_channels}, num_states={self.num_states}, num_products={products}, "
            f"channel_weights={self.alpha is not None}"
        )
