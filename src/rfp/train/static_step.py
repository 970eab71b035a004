"""A training step recorded once as a CUDA graph and replayed: the host then launches one thing instead of hundreds.

A recorded step works on tensors of fixed size, so every batch is copied into the same padded ones. Padding is inert: it
has nodes but none of them belongs to a graph, its edges join padding alone, and normalisations leave it out. Random
encodings are drawn beforehand; what learned operators add to them is part of the step.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from rfp.available import triton_available
from rfp.backends.learned import LEARNED_MAX_CHANNELS, LEARNED_MAX_NODES
from rfp.data.loaded import LoadedTask
from rfp.graph import Graph
from rfp.nn import LearnedOperator, RFPModel
from rfp.nn.backbones import ATTEND, SUM_NEIGHBORS
from rfp.nn.encoder import RandomFeaturePropagation
from rfp.nn.layers import real_rows
from rfp.nn.learned_operator import LEARNED_MAX_WORDS
from rfp.nn.neighbors import SortedEdges, keep_sorted, sorted_edges
from rfp.nn.padding import ONE_BLOCK_MAX_SIZE
from rfp.train.batches import Batch, Batches
from rfp.train.losses import MeanLoss
from rfp.train.recorded import beside, recording
from rfp.train.sharpness import Ascent

# Layers that read a padded batch and never ask the device for a size.
RECORDABLE = (*SUM_NEIGHBORS, "mlp")
# Steps before the recording: libraries allocate what they need in the first ones.
STEPS_BEFORE_RECORDING = 3
# Batches larger than all but one in a million are padded to; a larger one is computed as it is.
_DEVIATIONS = 5.0


def recordable(model: RFPModel, loaded: LoadedTask, precision: str, num_devices: int, batch_size: int) -> bool:
    """Whether steps of this model can be recorded: no decision on the host may depend on what is computed.

    Learned operators allow it where the ``learned`` backend computes their trajectories, attention where all graphs
    share one padded block.
    """
    largest = int(loaded.graphs.ptr.diff().max())
    return (
        not loaded.task.level.shares_graphs  # every row of a batch counts
        and model.config.backbone in RECORDABLE
        and precision != "16-mixed"  # whose scaler looks at the gradients
        and num_devices == 1
        and (model.config.backbone not in ATTEND or largest <= ONE_BLOCK_MAX_SIZE)
        and _learned_by_kernels(model, largest, batch_size)
    )


def _learned_by_kernels(model: RFPModel, largest: int, batch_size: int) -> bool:
    """Whether the ``learned`` backend runs every learned operator on batches of graphs of at most so many nodes."""
    encoders = [encoder for encoder in cast("list[RandomFeaturePropagation]", model.drawn) if encoder.learned]
    if not encoders:
        return True
    if largest > LEARNED_MAX_NODES or not triton_available():
        return False
    for settings in (encoder.settings for encoder in encoders):
        fits = settings.num_channels <= LEARNED_MAX_CHANNELS and settings.normalization in ("qr", "l2", "none")
        if not fits or settings.dtype != torch.float32 or settings.backend not in ("auto", "learned"):
            return False
    words = batch_size * largest**2
    return all(
        isinstance(operator, LearnedOperator)
        and (operator.form == "dense" or (operator.form == "auto" and words * operator.num_heads <= LEARNED_MAX_WORDS))
        for encoder in encoders
        for operator in encoder.learned
    )


class StaticStep:
    """Forward, backward and update on padded batches; recorded on a GPU, plain on a CPU.

    Args:
        model: On the device, in training mode when called.
        loss: Loss of the task.
        optimizer: Which may be captured: ``capturable=True`` with its learning rate in a tensor, on a GPU.
        total: A scalar tensor to which the loss of each step is added.
        batches: Batches of the training part, whose sizes decide on those of the padded tensors.
        gradient_clip: Largest norm of a gradient; 0 for no limit.
        ascent: What climbs before each update, if anything does.
        half: Whether to compute in bfloat16 where that is safe.
    """

    def __init__(
        self,
        model: RFPModel,
        loss: MeanLoss,
        optimizer: torch.optim.Optimizer,
        total: Tensor,
        batches: Batches,
        *,
        gradient_clip: float = 0.0,
        ascent: Ascent | None = None,
        half: bool = False,
    ) -> None:
        self.model, self.loss, self.optimizer, self.total = model, loss, optimizer, total
        self.gradient_clip, self.ascent, self.half = gradient_clip, ascent, half
        self.edge_attributes = tuple(batches.graphs.edges)
        self.num_graphs = min(batches.batch_size, len(batches.members))
        self.num_nodes, self.num_edges = (_usual_most(sizes, self.num_graphs) for sizes in batches.sizes())
        self.max_size = int(batches.sizes()[0].max())
        self.recorded: torch.cuda.CUDAGraph | None = None
        self.refused = ""  # why recording failed
        self._steps = 0
        self._made = False

    def fits(self, batch: Batch) -> bool:
        """Whether a batch is to be padded to the fixed size; one padded node at least must remain."""
        if self.refused:
            return False
        graph = batch.graph
        sizes_fit = graph.num_nodes < self.num_nodes and graph.num_edges <= self.num_edges
        return sizes_fit and graph.num_graphs == self.num_graphs

    def run(self, batch: Batch) -> None:
        """One update by a batch that fits."""
        self._load(batch)
        if self.recorded is None and self.total.is_cuda and self._steps >= STEPS_BEFORE_RECORDING:
            self._record()
        if self.recorded is not None:
            self.recorded.replay()
        else:
            # The first steps run beside, as a recording wants it; where none follows all do as they are.
            with beside(self.total.device) if self.total.is_cuda and not self.refused else nullcontext():
                self._update_padded()
        self._steps += 1

    def run_as_it_is(self, batch: Batch) -> None:
        """One update by a batch of another size."""
        self._update(batch.data, batch.graph, {batch.drawn_as: batch.drawn}, batch.label)

    def _update_padded(self) -> None:
        """One update by what the padded tensors hold."""
        # A new object around the same tensors: what a graph remembers is of one batch.
        weight = getattr(self.data, "edge_weight", None)
        graph = Graph.unchecked(
            self._edge_index,
            self.num_nodes,
            weight,
            self._ptr,
            max_size=self.max_size,
            padded=True,
            known_batch=self._batch,
        )
        keep_sorted(graph, self.edges)
        self._update(self.data, graph, {self._drawn_as: self.drawn}, self.label)

    def _update(self, data: Any, graph: Graph, drawn: dict[str, list[Tensor] | None], label: Tensor) -> None:
        loss = self._gradients(data, graph, drawn, label)
        if self.ascent is not None:
            with self.ascent.climb():
                self._gradients(data, graph, drawn, label)
        if self.gradient_clip:
            clip_grad_norm_(self.model.parameters(), self.gradient_clip)
        self.optimizer.step()
        self.total += loss

    def _gradients(self, data: Any, graph: Graph, drawn: dict[str, list[Tensor] | None], label: Tensor) -> Tensor:
        """Those of one batch, in the place of others before; returns its loss."""
        real = (self._numbers < graph.offsets[-1]).to(torch.float32)[:, None] if graph.padded else None
        kind = self.total.device.type
        with (
            torch.autocast(kind, torch.bfloat16, enabled=self.half, cache_enabled=False),
            nullcontext() if real is None else real_rows(self.model, real),
        ):
            prediction = self.model(data, graph=graph, **drawn)
        loss = self.loss(prediction.float(), label)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _record(self) -> None:
        recorded = torch.cuda.CUDAGraph()
        try:
            with recording(recorded):
                self._update_padded()
        except RuntimeError as error:  # something of this model waits for the device: slower, but no harm
            self.refused = str(error).splitlines()[0]
            return
        self.recorded = recorded

    def _make(self, batch: Batch) -> None:
        """The padded tensors."""
        device, n, m = self.total.device, self.num_nodes, self.num_edges
        self.data = SimpleNamespace(x=None, edge_attr=None, signs_drawn=batch.data.signs_drawn)
        for name, value in vars(batch.data).items():
            if isinstance(value, Tensor):
                rows = m if name in self.edge_attributes else n
                setattr(self.data, name, value.new_zeros(rows, *value.shape[1:]))
        self._edge_index = torch.full((2, m), n - 1, device=device)
        self._ptr = torch.zeros(self.num_graphs + 1, dtype=torch.long, device=device)
        self._batch = torch.zeros(n, dtype=torch.long, device=device)  # no layer used here reads it
        self.label = torch.zeros_like(batch.label)
        self.drawn, self._drawn_as = None, batch.drawn_as
        if batch.drawn is not None:
            self.drawn = [one.new_zeros(n, one.size(0), one.size(2)).transpose(0, 1) for one in batch.drawn]
        by_target, target_ptr, by_source, source_ptr = (
            torch.zeros(length, dtype=torch.long, device=device) for length in (m, n + 1, m, n + 1)
        )
        self.edges = SortedEdges(by_target, target_ptr, by_source, source_ptr, padded=True)
        self._numbers = torch.arange(n, device=device)
        self._made = True

    def _load(self, batch: Batch) -> None:
        if not self._made:
            self._make(batch)
        graph, n, m = batch.graph, batch.graph.num_nodes, batch.graph.num_edges
        order = sorted_edges(graph)
        self._edge_index[:, m:] = self.num_nodes - 1
        if graph.edge_weight is not None:
            self.data.edge_weight[m:] = 0
        self.edges.target_ptr[n + 1 :] = m
        self.edges.source_ptr[n + 1 :] = m
        into = [
            self._edge_index[0, :m],
            self._edge_index[1, :m],
            self._ptr,
            self.label,
            self.edges.by_target[:m],
            self.edges.target_ptr[: n + 1],
            self.edges.by_source[:m],
            self.edges.source_ptr[: n + 1],
        ]
        values = [
            *graph.edge_index,
            graph.offsets,
            batch.label,
            order.by_target,
            order.target_ptr,
            order.by_source,
            order.source_ptr,
        ]
        for name, value in vars(batch.data).items():
            if isinstance(value, Tensor):
                into.append(getattr(self.data, name)[: len(value)])
                values.append(value)
        with torch.no_grad():
            for dtype in {value.dtype for value in values}:  # one launch for all of a type
                chosen = [i for i, value in enumerate(values) if value.dtype == dtype]
                torch._foreach_copy_([into[i] for i in chosen], [values[i] for i in chosen])
            for one, value in zip(self.drawn or (), batch.drawn or (), strict=True):
                one[:, :n].copy_(value)


def _usual_most(sizes: Tensor, count: int) -> int:
    """What the sum of so many of these sizes, drawn at random, hardly ever exceeds; a multiple of 64."""
    values = sizes.double()
    spread = float(values.std(correction=0)) if len(values) > 1 else 0.0
    most = min(count * float(values.mean()) + _DEVIATIONS * spread * math.sqrt(count), count * float(values.max()))
    return max(64 * math.ceil((most + 1) / 64), 64)
