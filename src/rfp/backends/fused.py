"""Many small graphs on a GPU: all steps of a graph, an operator and a trajectory in one warp of one Triton kernel.

The states stay in registers and only the result is written. One program is one problem; graphs of up to 32, 64 and 128
nodes have their own compiled variant of the kernel, and a launch passes over the graphs of the other sizes, so nothing
is sorted, padded in memory or counted on the host. Larger graphs of the same batch take the sparse path.

Orthonormalisation is one pass of Cholesky QR on the float64 tensor cores, with a second one where it is needed
(:mod:`rfp.backends.triton_factor`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, cast

import torch
from torch import Tensor

from rfp.backends import FUSED_MAX_CHANNELS, FUSED_MAX_NODES
from rfp.backends.larger_graphs import fill_larger_graphs
from rfp.backends.problem import Problem
from rfp.backends.tally import count_later
from rfp.backends.triton_hash import DISTRIBUTION_CODES
from rfp.backends.triton_small import NORMALIZATION_CODES, small_graphs_kernel
from rfp.errors import ArgumentError
from rfp.features import stream_keys
from rfp.graph import Graph
from rfp.hashing import GOLDEN, mix
from rfp.normalization import Tally
from rfp.operators import MatrixOperator

# Nodes of a variant of the kernel.
_WIDTHS = (32, 64, 128)
# Below so many problems the chip is not full and time is latency: one launch of the widest variant beats one of each.
_SINGLE_LAUNCH_BELOW = 1024
# Entries of a row held in registers: those of an atom with three bonds.
_SLOTS = 4
# Registers of a thread for the narrowest graphs.
_REGISTERS = 168


def run(
    problem: Problem, storage_dtype: torch.dtype, tally: Tally, progress: Callable[[int], None] | None = None
) -> Tensor:
    """The trajectory of all operators, ``[n, B, O, P + 1, k]``, equal to the reference up to rounding.

    O(P O (m k B + n k² B)) work; memory traffic is that of the features, the operators and the result, each once.
    """
    operators = cast("tuple[MatrixOperator, ...]", problem.operators)
    b, n, k = problem.features.shape
    steps = problem.num_steps
    features = problem.features.transpose(0, 1).contiguous()
    out = torch.empty(n, b, len(operators), steps + 1, k, dtype=storage_dtype, device=features.device)
    _, largest = problem.size_range
    trajectories = _Trajectories(out, problem.ptr, largest, cast(str, problem.normalization), problem.normalize_every)
    trajectories.compute(operators, features=features)
    count_later(tally, "dependent_columns", trajectories.dropped)
    if largest > FUSED_MAX_NODES:
        fill_larger_graphs(problem, FUSED_MAX_NODES, out, tally)
    if progress is not None:
        progress(steps * len(operators))
    return out


def draw(
    graph: Graph,
    operators: Sequence[MatrixOperator],
    *,
    num_channels: int,
    num_steps: int,
    num_trajectories: int = 1,
    normalization: str = "qr",
    normalize_every: int = 1,
    distribution: str = "normal",
    seed: int = 0,
    graph_keys: Tensor | None = None,
    storage_dtype: torch.dtype = torch.float32,
    largest: int | None = None,
    tally: Tally | None = None,
) -> Tensor:
    """:func:`run` from features drawn inside the kernel: what a training step wants. The numbers are those of
    :func:`rfp.features.random_features`.

    Args:
        graph: The batch, on a GPU, of graphs of at most 128 nodes.
        operators: Sparse operators of the batch, float32.
        largest: Number of nodes of the largest graph. Given, nothing here waits for the device; else it is looked up.
        tally: Receives the number of dependent columns, without waiting for it if it is a
            :class:`~rfp.backends.tally.DeviceTally`.

    The other arguments are those of :func:`rfp.encode`.

    Returns:
        ``[n, B, O, P + 1, k]``.
    """
    largest = graph.largest if largest is None else largest
    if largest > FUSED_MAX_NODES or num_channels > FUSED_MAX_CHANNELS:
        raise ArgumentError(
            f"the fused kernel takes graphs of at most {FUSED_MAX_NODES} nodes and {FUSED_MAX_CHANNELS} channels, got "
            f"{largest} nodes and {num_channels} channels; use rfp.encode"
        )
    if distribution not in DISTRIBUTION_CODES:
        raise ArgumentError(f"the kernel draws {', '.join(DISTRIBUTION_CODES)}, got {distribution!r}; use rfp.encode")
    shape = (graph.num_nodes, num_trajectories, len(operators), num_steps + 1, num_channels)
    out = torch.empty(shape, dtype=storage_dtype, device=graph.device)
    keys = graph.keys if graph_keys is None else mix(graph_keys.to(graph.device, torch.int64) + GOLDEN)
    trajectories = _Trajectories(out, graph.offsets, largest, normalization, normalize_every)
    trajectories.compute(
        operators,
        keys=keys,
        streams=stream_keys(seed, num_trajectories, graph.device),
        distribution=DISTRIBUTION_CODES[distribution],
    )
    if tally is not None:
        count_later(tally, "dependent_columns", trajectories.dropped)
    return out


class _Trajectories:
    """One result tensor and the launches that fill it."""

    def __init__(self, out: Tensor, ptr: Tensor, largest: int, normalization: str, normalize_every: int) -> None:
        self.out = out
        self.ptr = ptr
        self.largest = largest
        self.normalization = NORMALIZATION_CODES[normalization]
        self.normalize_every = normalize_every
        self.streams: list[torch.cuda.Stream] = []
        self.dropped = torch.zeros(1, dtype=torch.int64, device=out.device)

    def compute(
        self,
        operators: Sequence[MatrixOperator],
        *,
        features: Tensor | None = None,  # [n, B, k]
        keys: Tensor | None = None,  # [num_graphs]
        streams: Tensor | None = None,  # [B]
        distribution: int = 0,
    ) -> None:
        """Launch for each run of operators that share their index tensors, and each width of graphs."""
        _, num_trajectories, row_operators, states, k = self.out.shape
        num_graphs = len(self.ptr) - 1
        if not num_graphs or not self.out.numel():
            return
        self.streams = []
        first = 0
        for _, group in groupby(operators, key=lambda operator: operator.csr.col.data_ptr()):
            several = list(group)
            csr = several[0].csr
            values = torch.stack([operator.csr.value.float() for operator in several])
            problems = num_graphs * num_trajectories * len(several)
            widths = self._widths(problems)
            for number, (above, width) in enumerate(widths):
                with self._beside(number < len(widths) - 1):
                    options = launch_options(width, k, problems)
                    small_graphs_kernel[(-(-problems // options["M"]),)](
                        self.out[:, :, first:],
                        self.out if features is None else features,
                        csr.crow,
                        csr.col,
                        values,
                        self.ptr,
                        self.ptr if keys is None else keys,
                        self.ptr if streams is None else streams,
                        self.dropped,
                        problems,
                        num_trajectories,
                        len(several),
                        row_operators,
                        csr.nnz,
                        states - 1,
                        self.normalize_every,
                        k,
                        above,
                        N=width,
                        PANELS=-(-k // 16),
                        SLOTS=_SLOTS,
                        NORMALIZATION=self.normalization,
                        DISTRIBUTION=distribution,
                        **options,
                    )
            first += len(several)

    @contextmanager
    def _beside(self, aside: bool) -> Iterator[None]:
        """Launch on another stream: the few wide graphs run while the many narrow ones do."""
        if not self.out.is_cuda:
            yield
            return
        with torch.cuda.device(self.out.device):
            here = torch.cuda.current_stream()
            stream = torch.cuda.Stream() if aside else here  # type: ignore[no-untyped-call]
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                yield
            self.streams.append(stream)
            if not aside:
                for other in self.streams:
                    here.wait_stream(other)

    def _widths(self, num_problems: int) -> list[tuple[int, int]]:
        """The variants to launch, each with the number of nodes above which it takes a graph."""
        needed = [width for width in _WIDTHS if width == _WIDTHS[0] or width < 2 * self.largest]
        if num_problems < _SINGLE_LAUNCH_BELOW:
            return [(0, needed[-1])]
        return list(zip([0, *needed[:-1]], needed, strict=True))[::-1]


def launch_options(width: int, k: int, problems: int) -> dict[str, Any]:
    """Problems, warps and registers of a program.

    Two narrow graphs share a warp where there are enough of them; one warp holds a graph of up to 64 nodes and 16
    channels.
    """
    if k > 16:
        return {"M": 1, "num_warps": width // 32 * 2}
    pairs = width == 32 and problems >= _SINGLE_LAUNCH_BELOW
    return {"M": 2 if pairs else 1, "num_warps": max(1, width // 64), "maxnreg": _REGISTERS if width == 32 else None}
