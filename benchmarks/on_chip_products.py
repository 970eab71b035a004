# mypy: ignore-errors
r"""Products inside the propagation, states never written, against Gram matrices of states that are written once.

    RFP_DATA=... python benchmarks/on_chip_products.py

The kernels here apply W₁ and W₂ to every state while a graph propagates, :math:`a_{ic}(v) = \sum_s w_{1is} u_{sc}(v)`
and b likewise, and write :math:`y_i(v) = \frac1k \sum_c \alpha_{ci} a_{ic} b_{ic}` alone. A program has 16 channels and
16 products of a graph, which is what registers hold of a and b (with QR, which mixes the channels of a state, it would
have to hold all of them). So a graph propagates once for each 16 products, and
three times in all, since gradients :math:`\bar w_{1is} = \sum_{vc} \bar y_i \alpha_{ci} b_{ic} u_{sc}` need all of b
before the first state.

What the library does instead (:mod:`rfp.nn.multiplied_states`) is timed beside it: without α by Gram matrices of states
that are written once, with α by kernels that read these states. It is one batch of 128 molecules of ZINC, three
operators, k = 64, P = 16, l2, m = 64. Both are first compared with the plain form, values and gradients.

Writes ``benchmarks/results/on-chip-products-<machine>.csv``; times are those of the GPU alone. On a CPU, with
``TRITON_INTERPRET=1``, it compares on two small graphs and times nothing.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import torch
import triton
import triton.language as tl

import rfp
from rfp.backends.fused.kernel_launches import KernelLaunches, OperatorRun, Start
from rfp.backends.fused.triton_panels import of_length_one, scaled_panels, squared_lengths
from rfp.backends.fused.triton_small import _product, _rows_of
from rfp.bench.generated_graphs import first_graphs, molecule_like
from rfp.bench.measure import measure_kernels
from rfp.bench.small_cases import molecules
from rfp.environment import environment, slug
from rfp.features import random_features
from rfp.graph import Graph
from rfp.nn.multiplied_states import GramProducts, WeightedProducts, node_grams
from rfp.nn.triton_gram_products import launch_gram_products_gradient
from rfp.nn.triton_weighted_products import launch_weighted_products_gradient
from rfp.operator_norms import rounding_norm
from rfp.operators import from_name
from rfp.rounding import FLOAT32_UNIT

OPERATORS = ("normalized_laplacian", "normalized_adjacency", "random_walk")
_UNIT = tl.constexpr(FLOAT32_UNIT)
_SLOTS, _PRODUCTS = 4, 16


@triton.jit
def _begun(features, crow, col, value, ptr, norms, graph, panel, o, num_operators, nnz, k, N: tl.constexpr):
    """The first state of a graph, ``[16, N]``, its operator as ``_product`` takes it, and what rounding adds."""
    begin = tl.load(ptr + graph).to(tl.int64)
    size = (tl.load(ptr + graph + 1) - begin).to(tl.int32)
    values = value + o * nnz
    matrix = (_rows_of(begin, size, crow, col, values, 4, N), begin, col, values)
    local = tl.arange(0, N)[None, :]
    channel = panel * 16 + tl.arange(0, 16)[:, None]
    x = tl.load(features + (begin + local) * k + channel, mask=(local < size) & (channel < k), other=0.0)
    return x, matrix, tl.load(norms + graph * num_operators + o) * _UNIT


@triton.jit
def _next(x, matrix, unit, p, N: tl.constexpr):
    """``N(S x)``, columns of length 1."""
    before = (tl.full([16], 1.0, tl.float64),)
    if p == 1:
        before = squared_lengths((x,), 1)
    panels = _product((x,), matrix, 1, 4, N)
    panels, _ = of_length_one(panels, squared_lengths(panels, 1), scaled_panels(before, unit * unit, 1), 1)
    return panels[0]


@triton.jit
def _both_sums(
    features, crow, col, value, ptr, norms, first, second, graph, panel, i, num_operators, nnz, num_steps, k,
    N: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """a and b, ``[M, 16, N]``."""
    a = tl.zeros([M, 16, N], tl.float32)
    b = tl.zeros([M, 16, N], tl.float32)
    num_states = num_operators * (num_steps + 1)
    for o in range(num_operators):
        x, matrix, unit = _begun(features, crow, col, value, ptr, norms, graph, panel, o, num_operators, nnz, k, N)
        for p in range(num_steps + 1):
            if p > 0:
                x = _next(x, matrix, unit, p, N)
            at = i * num_states + o * (num_steps + 1) + p
            a += tl.load(first + at)[:, None, None] * x[None, :, :]
            b += tl.load(second + at)[:, None, None] * x[None, :, :]
    return a, b


@triton.jit
def _weights(alpha, panel, i, num_products, k):
    """α of 16 channels, ``[M, 16]``."""
    channel = panel * 16 + tl.arange(0, 16)[None, :]
    return tl.load(alpha + channel * num_products + i[:, None], mask=channel < k, other=0.0)


@triton.jit
def on_chip_kernel(
    y, of_first, of_second, of_alpha, grad, features, crow, col, value, ptr, norms, first, second, alpha, num_nodes,
    num_products, num_operators, nnz, num_steps, k, above, N: tl.constexpr, M: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    """``y``, or the gradients of the weights from ``grad``, that of y. Grid: (graphs, panels, m / M).

    Args:
        y: ``[panels, n, m]``, to be summed over the panels; written if not ``GRADIENT``.
        of_first, of_second: ``[graphs, panels, m, T]``, to be summed over both; written otherwise.
        of_alpha: ``[graphs, k, m]``, to be summed over the graphs; likewise.
        above: Graphs of at most so many nodes, or of more than N, are left alone.
    """
    graph, panel = tl.program_id(0).to(tl.int64), tl.program_id(1)
    begin = tl.load(ptr + graph).to(tl.int64)
    size = (tl.load(ptr + graph + 1) - begin).to(tl.int32)
    if (size <= above) | (size > N):
        return
    i = tl.program_id(2) * M + tl.arange(0, M)
    a, b = _both_sums(
        features, crow, col, value, ptr, norms, first, second, graph, panel, i, num_operators, nnz, num_steps, k, N, M
    )
    local = tl.arange(0, N)[None, :]
    weights = _weights(alpha, panel, i, num_products, k)[:, :, None]
    if GRADIENT:
        g = tl.load(grad + (begin + local) * num_products + i[:, None], mask=local < size, other=0.0)[:, None, :] / k
        channel = panel * 16 + tl.arange(0, 16)[None, :]
        at_alpha = (graph * k + channel) * num_products + i[:, None]
        tl.store(of_alpha + at_alpha, tl.sum(g * a * b, axis=2), mask=channel < k)
        g *= weights
        to_first, to_second = g * b, g * a
        num_states = num_operators * (num_steps + 1)
        row = ((graph * tl.num_programs(1) + panel) * num_products + i) * num_states
        for o in range(num_operators):
            x, matrix, unit = _begun(features, crow, col, value, ptr, norms, graph, panel, o, num_operators, nnz, k, N)
            for p in range(num_steps + 1):
                if p > 0:
                    x = _next(x, matrix, unit, p, N)
                at = row + o * (num_steps + 1) + p
                tl.store(of_first + at, tl.sum(tl.sum(to_first * x[None, :, :], axis=2), axis=1))
                tl.store(of_second + at, tl.sum(tl.sum(to_second * x[None, :, :], axis=2), axis=1))
    else:
        at = (panel * num_nodes + begin + local) * num_products + i[:, None]
        tl.store(y + at, tl.sum(weights * a * b, axis=1) / k, mask=local < size)


class OneBatch:
    """A batch, its features and weights, and the two ways."""

    def __init__(self, graph: Graph, k: int, num_steps: int, num_products: int, *, weighted: bool) -> None:
        self.graph, self.k, self.num_steps, self.m = graph, k, num_steps, num_products
        operators = [from_name(name, graph) for name in OPERATORS]
        self.ptr = graph.offsets
        self.crow, self.col = operators[0].csr.crow, operators[0].csr.col
        self.values = torch.stack([operator.csr.value.float() for operator in operators])
        self.norms = torch.stack([rounding_norm(one, self.ptr, graph.largest) for one in operators], 1)
        self.features = random_features(graph, num_channels=k).transpose(0, 1).contiguous()  # [n, 1, k]
        self.num_states = len(OPERATORS) * (num_steps + 1)
        drawn = torch.Generator().manual_seed(0)
        size = (2, num_products, self.num_states)
        self.first, self.second = (torch.randn(size, generator=drawn) / self.num_states**0.5).to(graph.device).unbind()
        self.alpha = torch.rand(k, num_products, generator=drawn).to(graph.device) if weighted else None
        self.ones = torch.ones(k, num_products, device=graph.device)
        self.grad = torch.randn(graph.num_nodes, num_products, generator=drawn).to(graph.device)
        self.panels = -(-k // 16)
        # Graphs of up to 32 nodes, and those of more, as the library takes them.
        self.widths = [(-1, 32), (32, 64)] if graph.largest > 32 else [(-1, 32)]
        assert graph.largest <= 64
        assert num_products % _PRODUCTS == 0

    def _on_chip(self, y=None, of_weights=(None, None, None)) -> None:
        """Fill ``y``, or the gradients ``of_weights``."""
        grid = (self.ptr.size(0) - 1, self.panels, self.m // _PRODUCTS)
        outputs = [self.grad if out is None else out for out in (y, *of_weights)]  # what is not written may be anything
        weights = (self.first, self.second, self.ones if self.alpha is None else self.alpha)
        read = (self.grad, self.features, self.crow, self.col, self.values, self.ptr, self.norms, *weights)
        sizes = (self.graph.num_nodes, self.m, len(OPERATORS), self.values.size(1), self.num_steps, self.k)
        for above, width in self.widths:
            options = {"N": width, "M": _PRODUCTS, "GRADIENT": y is None, "num_warps": width // 4}
            on_chip_kernel[grid](*outputs, *read, *sizes, above, **options)

    def on_chip(self) -> torch.Tensor:
        parts = self.grad.new_empty(self.panels, self.graph.num_nodes, self.m)
        self._on_chip(parts)
        return parts.sum(0)

    def on_chip_gradient(self) -> tuple[torch.Tensor, ...]:
        graphs = self.ptr.size(0) - 1
        parts = self.grad.new_empty(2, graphs, self.panels, self.m, self.num_states)
        of_alpha = self.grad.new_empty(graphs, self.k, self.m)
        self._on_chip(of_weights=(*parts.unbind(), of_alpha))
        return (*parts.sum((1, 2)), of_alpha.sum(0))

    def drawn_states(self) -> torch.Tensor:
        """The trajectory, written."""
        n = self.graph.num_nodes
        states = self.grad.new_empty(n, 1, len(OPERATORS), self.num_steps + 1, self.k)
        launches = KernelLaunches(states, self.ptr, self.graph.largest, "l2", 1)
        launches.launch([OperatorRun(self.crow, self.col, self.values, self.norms)], Start(self.ptr, self.features))
        return states.view(n, self.num_states, self.k)

    def drawn(self) -> torch.Tensor:
        """What the library makes of a batch once, whatever the weights are."""
        return node_grams(self.drawn_states()) if self.alpha is None else self.drawn_states()[None]

    def multiplied(self) -> torch.Tensor:
        if self.alpha is None:
            return GramProducts.apply(self.drawn(), self.first, self.second, False)
        return WeightedProducts.apply(self.drawn(), self.first, self.second, self.alpha, None)[0]

    def multiplied_gradient(self) -> tuple[torch.Tensor, ...]:
        """From what was drawn, which is kept."""
        if not hasattr(self, "_kept"):
            self._kept = self.drawn()
        weights = (self.first, self.second)
        if self.alpha is None:
            return launch_gram_products_gradient(self.grad, self._kept, *weights, False)
        return launch_weighted_products_gradient(self.grad[None], self._kept, *weights, self.alpha, None)

    def plain(self) -> tuple[torch.Tensor, ...]:
        """y and the gradients of W₁, W₂ and α, in float64 from the reference's states."""
        settings = {"num_steps": self.num_steps, "normalization": "l2", "backend": "reference", "ptr": self.ptr}
        operators = [from_name(name, self.graph, torch.float64) for name in OPERATORS]
        states = rfp.propagate(operators, self.features.transpose(0, 1).double(), **settings).storage
        u = states.reshape(self.graph.num_nodes, self.num_states, self.k)
        alpha = self.ones if self.alpha is None else self.alpha
        weights = [weight.double().requires_grad_() for weight in (self.first, self.second, alpha)]
        y = torch.einsum("is,nsc,it,ntc,ci->ni", weights[0], u, weights[1], u, weights[2]) / self.k
        return (y.detach(), *torch.autograd.grad((y * self.grad).sum(), weights))


def gate(batch: OneBatch) -> None:
    """Both ways against the plain form; stops with an error where one differs."""
    expected = batch.plain()
    ways = {"on chip": (batch.on_chip(), *batch.on_chip_gradient())}
    if batch.graph.device.type == "cuda":
        ways["as the library does"] = (batch.multiplied(), *batch.multiplied_gradient())
    for name, found in ways.items():
        for what, got, right in zip(
            ("y", "W1", "W2", "alpha"), found, expected, strict=False
        ):  # α has one with α alone
            error = float((got - right).abs().max() / right.abs().max())
            print(f"{name}, {what if what == 'y' else f'gradient of {what}'}: differs by {error:.1e} of the largest")
            if not error < 1e-4:
                raise SystemExit(f"{name}: {what} is wrong, nothing is timed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="default: benchmarks/results/on-chip-products-<machine>.csv")
    args = parser.parse_args()
    if args.device == "cpu":
        gate(OneBatch(molecule_like(2), 20, 2, 16, weighted=True))
        return
    graph = first_graphs(molecules(args.data_root)[0], 128).to(args.device)
    rows = []
    for weighted in (False, True):
        batch = OneBatch(graph, 64, 16, 64, weighted=weighted)
        gate(batch)
        works = {
            "on chip, forward": batch.on_chip,
            "on chip, gradient": batch.on_chip_gradient,
            "library, drawn": batch.drawn,
            "library, drawn and multiplied": batch.multiplied,
            "library, gradient": batch.multiplied_gradient,
        }
        for name, work in works.items():
            timing = measure_kernels(work)
            alpha, microseconds = "yes" if weighted else "no", f"{timing.seconds * 1e6:.1f}"
            print(f"{name:32s} alpha: {alpha:4s} {microseconds:>8s} us" + (" (noisy)" if timing.noisy else ""))
            rows.append({"work": name, "alpha": alpha, "microseconds": microseconds, "noisy": timing.noisy})
    folder = Path(__file__).resolve().parent / "results"
    output = args.output or folder / f"on-chip-products-{slug(args.device)}.csv"
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=[*rows[0], *environment(args.device)], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, **environment(args.device)} for row in rows)
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
