"""Many small graphs on a GPU: all steps of a graph, an operator and a trajectory in one warp of one Triton kernel.

The states stay in registers and only the result is written. One program is one problem; graphs of up to 32, 64 and 128
nodes have their own compiled variant of the kernel, and a launch passes over the graphs of the other sizes, so nothing
is sorted, padded in memory or counted on the host. Larger graphs of the same batch take the sparse path.

Orthonormalisation is one pass of Cholesky QR on the float64 tensor cores (``triton_columns``, and
``triton_factor`` for more than 16 channels or 64 nodes), and Gram-Schmidt where that is not accurate.
The former is written for the lanes of a warp: it needs a GPU of compute capability 9, and what the compiler has made of
it is looked at before a result counts (``lane_layouts``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from rfp.backends.fused import FUSED_MAX_NODES
from rfp.backends.fused.lane_layouts import lanes_in_order
from rfp.backends.fused.large_graphs_apart import fill_large_graphs
from rfp.backends.fused.triton_small import small_graphs_kernel
from rfp.backends.problem import NORMALIZATION_CODES, Draw, Problem, tell_nobody
from rfp.hashing import mix, signed
from rfp.normalization import Events
from rfp.operator_norms import rounding_norm
from rfp.operators import MatrixOperator
from rfp.settings import Settings
from rfp.triton_features import DISTRIBUTION_CODES
from rfp.triton_launch import Launch, RepeatedLaunches, on_device

# Nodes of a variant of the kernel.
_WIDTHS = (32, 64, 128)
# Below so many problems the chip is not full and time is latency: one launch of the widest variant beats one of each.
_SINGLE_LAUNCH_BELOW = 1024
# Entries of a row held in registers beside the diagonal: those of an atom with four bonds.
_SLOTS = 4
# Registers of a thread for each width, where there are many graphs: fewer make room for more warps, until they spill.
_REGISTERS = {32: 128, 64: 168}


def fused_trajectory(
    problem: Problem, storage_dtype: torch.dtype, done: Callable[[int], None] = tell_nobody
) -> tuple[Tensor, Events]:
    """The trajectory of all operators, ``[n, B, O, P + 1, k]``, equal to the reference up to rounding.

    Features that are still to be drawn are drawn in the kernel, where no graph is too large for it; the numbers are
    those of :func:`rfp.features.random_features`. O(P O (m k B + n k² B)) work; memory traffic is that of the features
    that were given, the operators and the result, each once.
    """
    operators = cast("tuple[MatrixOperator, ...]", problem.operators)
    b, n, k = problem.shape
    steps = problem.num_steps
    dtype = kernel_dtype(cast(str, problem.normalization), storage_dtype)
    out = torch.empty(n, b, len(operators), steps + 1, k, dtype=dtype, device=problem.device)
    _, largest = problem.size_range
    launches = KernelLaunches(out, problem.ptr, largest, cast(str, problem.normalization), problem.normalize_every)
    draw = problem.source
    if isinstance(draw, Draw) and draw.settings.distribution in DISTRIBUTION_CODES and largest <= FUSED_MAX_NODES:
        raw = draw.graph_keys is not None
        keys = draw.graph.keys if draw.graph_keys is None else draw.graph_keys.to(out.device, torch.int64)
        start = Start.drawn(draw.settings, keys, raw_keys=raw)
    else:
        start = Start(problem.ptr, problem.features.transpose(0, 1).contiguous())
    launches.compute(operators, start)
    events = launches.events
    if largest > FUSED_MAX_NODES:
        events = fill_large_graphs(problem, FUSED_MAX_NODES, out, events)
    done(steps * len(operators))
    return out.to(storage_dtype), events


def kernel_dtype(normalization: str, storage_dtype: torch.dtype) -> torch.dtype:
    """QR works in the stored states where columns are ill-conditioned, and so keeps them in float32 meanwhile."""
    return torch.float32 if normalization == "qr" else storage_dtype


class Start(NamedTuple):
    """What a trajectory sets out from.

    Args:
        keys: ``[num_graphs]`` int64, read if features are drawn: keys of the graphs, or the integers they are made of.
        features: ``[n, B, k]`` float32, if they are not drawn.
        root: Hash of the seed.
        distribution: A value of ``DISTRIBUTION_CODES``; 0 for features that are given.
        raw_keys: Whether keys are made of the integers.
    """

    keys: Tensor
    features: Tensor | None = None
    root: int = 0
    distribution: int = 0
    raw_keys: bool = False

    @classmethod
    def drawn(cls, settings: Settings, keys: Tensor, *, raw_keys: bool = False) -> Start:
        """Features that the kernel draws."""
        code = DISTRIBUTION_CODES[cast(str, settings.distribution)]
        return cls(keys, None, mix(signed(settings.seed)), code, raw_keys)


class OperatorRun(NamedTuple):
    """Operators on one pattern.

    Args:
        crow, col: Rows and columns.
        values: ``[operators, nnz]`` float32.
        norms: ``[num_graphs, operators]`` float64; anything without a normalisation.
    """

    crow: Tensor
    col: Tensor
    values: Tensor
    norms: Tensor


class KernelLaunches:
    """One result tensor and the launches that fill it."""

    def __init__(self, out: Tensor, ptr: Tensor, largest: int, normalization: str, normalize_every: int) -> None:
        self.out = out
        self.ptr = ptr
        self.largest = largest
        self.normalization = NORMALIZATION_CODES[normalization]
        self.normalize_every = normalize_every
        self.counted = "zero_columns" if normalization == "l2" else "dependent_columns"
        _, num_trajectories, row_operators, _, k = out.shape
        # Programs count in a place of their own, or together where they share a problem; the larger graphs do not.
        alone = self.normalization == NORMALIZATION_CODES["qr"] or k <= 16
        make = torch.empty if alone and largest <= FUSED_MAX_NODES and out.numel() else torch.zeros
        self.dropped = make(ptr.size(0) - 1, num_trajectories, row_operators, dtype=torch.int64, device=out.device)

    @property
    def events(self) -> Events:
        """What the launches counted, still on the device."""
        return {self.counted: self.dropped} if self.normalization else {}

    def compute(self, operators: Sequence[MatrixOperator], start: Start) -> None:
        """Launch for each run of operators that share their index tensors."""
        runs = []
        for _, group in groupby(operators, key=lambda operator: id(operator.csr.col)):
            several = list(group)
            values = _side_by_side([operator.csr.value.float() for operator in several], 0)
            norms = self._norms(several) if self.normalization else self.ptr
            runs.append(OperatorRun(several[0].csr.crow, several[0].csr.col, values, norms))
        self.launch(runs, start)

    def launch(self, runs: Sequence[OperatorRun], start: Start) -> None:
        """Launch for each run of operators, and each width of graphs."""
        if self.ptr.size(0) < 2 or not self.out.numel():
            return
        by_lanes = self.out.shape[-1] <= 16 and self.normalization == NORMALIZATION_CODES["qr"]
        with on_device(self.out):
            for lanes in (True, False) if _lanes_are_usable(self.out) else (False,):
                first, made = 0, []
                for run in runs:
                    made += self._launch_run(run, start, first, lanes)
                    first += run.values.size(0)
                if not (lanes and by_lanes and not all(_trusted(compiled) for width, compiled in made if width <= 64)):
                    return

    def _launch_run(self, run: OperatorRun, start: Start, first: int, lanes: bool) -> list[tuple[int, Any]]:
        """Launch for operators from number ``first`` on, all widths.

        The wider ones go to other streams: the few wide graphs run while the many narrow ones do.

        Returns:
            The widths with what was compiled for them.
        """
        out, ptr = self.out, self.ptr
        _, num_trajectories, row_operators, states, k = out.shape
        number, nnz = run.values.shape
        problems = (ptr.size(0) - 1) * num_trajectories * number
        panels = -(-k // 16)
        held, apart = (panels, 1) if self.normalization == NORMALIZATION_CODES["qr"] else (1, panels)
        moving = (
            out[:, :, first:] if first else out,
            out if start.features is None else start.features,
            run.crow,
            run.col,
            run.values,
            ptr,
            start.keys,
            run.norms,
            self.dropped[:, :, first:] if first else self.dropped,
        )
        fixed = (
            start.root,
            num_trajectories,
            number,
            row_operators,
            nnz,
            states - 1,
            self.normalize_every,
            k,
        )
        constants = {
            "PANELS": held,
            "SLOTS": _SLOTS,
            "NORMALIZATION": self.normalization,
            "SELDOM": self.normalize_every != 1,
            "DISTRIBUTION": start.distribution,
            "RAW_KEYS": start.raw_keys,
            "LANES": lanes,
        }

        def variant(above: int, width: int) -> Launch:
            options = launch_options(width, held, problems * apart)
            types = (
                out.device.index,
                out.dtype,
                ptr.dtype,
                run.crow.dtype,
                run.col.dtype,
                start.root.bit_length() > 31,
            )
            name = (*types, num_trajectories, self.normalize_every, k, *options.values())
            sizes = {"N": width, **constants}
            return Launch(name, small_graphs_kernel, (problems, apart), moving, (*fixed, above), sizes, options)

        variants = [(width, variant(above, width)) for above, width in self._widths(problems)]
        if len(variants) == 1 or not out.is_cuda:
            return [(width, _launched(launch)) for width, launch in variants]
        _launched.compile_together([launch for _, launch in variants])
        here = torch.cuda.current_stream()
        aside, made = [], []
        for width, launch in variants:
            stream = here
            if width != _WIDTHS[0]:
                stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                stream.wait_stream(here)
                aside.append(stream)
            with torch.cuda.stream(stream):
                made.append((width, _launched(launch)))
        for stream in aside:
            here.wait_stream(stream)
        return made

    def _norms(self, operators: Sequence[MatrixOperator]) -> Tensor:
        """What rounding scales with for each graph and operator, ``[num_graphs, operators]`` float64."""
        return _side_by_side([cast(Tensor, rounding_norm(one, self.ptr, self.largest)) for one in operators], 1)

    def _widths(self, num_problems: int) -> list[tuple[int, int]]:
        """The variants to launch, each with the number of nodes above which it takes a graph."""
        needed = [width for width in _WIDTHS if width == _WIDTHS[0] or width < 2 * self.largest]
        if num_problems < _SINGLE_LAUNCH_BELOW:
            return [(-1, needed[-1])]
        return list(zip([-1, *needed[:-1]], needed, strict=True))[::-1]


def _side_by_side(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors ``[size]`` as one, along a new dimension; not copied where they are its rows or columns already."""
    whole = parts[0]._base
    if whole is not None and whole.dim() == 2 and whole.is_contiguous() and whole.size(dim) == len(parts):
        first, apart, along = whole.storage_offset(), whole.stride(dim), whole.stride(1 - dim)
        if all(
            part._base is whole and part.stride() == (along,) and part.storage_offset() == first + i * apart
            for i, part in enumerate(parts)
        ):
            return whole
    return torch.stack(list(parts), dim)


_launched = RepeatedLaunches()

# What was looked at: the hash of a compiled kernel, and whether its lanes are in order.
_LOOKED_AT: dict[str, bool] = {}
# The instructions of `triton_columns` exist from this compute capability on.
_LANES_FROM = (9, 0)


def _lanes_are_usable(out: Tensor) -> bool:
    if out.is_cuda and _capability(out.device) < _LANES_FROM:
        return False
    return all(_LOOKED_AT.values())


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def _trusted(compiled: Any) -> bool:
    """Whether a compiled kernel has its lanes in order; the first that has not is the last that is tried."""
    if compiled is None:  # interpreted
        return True
    if compiled.hash not in _LOOKED_AT:
        _LOOKED_AT[compiled.hash] = lanes_in_order(compiled.asm["ttgir"])
        if not _LOOKED_AT[compiled.hash]:
            warnings.warn(
                "this version of Triton lays out small graphs in another way than the fast kernel needs; a slower one "
                "with the same results is used",
                stacklevel=2,
            )
    return _LOOKED_AT[compiled.hash]


def launch_options(width: int, panels: int, programs: int) -> dict[str, Any]:
    """Warps and registers of a program: one warp holds a graph of up to 64 nodes and 16 channels."""
    if panels > 1:
        return {"num_warps": max(1, width // 32)}
    registers = _REGISTERS.get(width) if programs >= _SINGLE_LAUNCH_BELOW else None
    return {"num_warps": max(1, width // 64), "maxnreg": registers}
