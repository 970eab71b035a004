"""The encoding as a module: new random features at every training step, a fixed draw in evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import sub
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn

from rfp.backends.problem import Problem, draw_features
from rfp.backends.start import first_state
from rfp.encode import encode_graph
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph, check_offsets_form
from rfp.nn.counted_draws import CountedDraws
from rfp.one_loop import run_problem
from rfp.operators import Operator
from rfp.precision import without_autocast
from rfp.ragged import offsets, repeated
from rfp.settings import Arguments, Settings, as_boolean, as_integer, shows_settings
from rfp.sinks import Memory

# Attributes of a PyG batch with one row for each node.
_NODE_ATTRIBUTES = ("x", "z", "pos")


@dataclass(frozen=True)
class _Known:
    """All of an encoding with learned operators that does not depend on their parameters."""

    start: Tensor  # [B, n, k], step 0: what every operator sets out from
    steps: list[Tensor]  # [n, B, P k] for each predefined operator


class RandomFeaturePropagation(CountedDraws, nn.Module):
    r"""Encodes graphs by random feature propagation inside a model (Eq. 1-3 of the paper).

    Training draws new features at every forward pass (draw number :math:`c` is a pure function of (seed, :math:`c`,
    graph, trajectory, node, channel)), which regularises: a fixed draw can be memorised. Evaluation uses one fixed
    draw, the same as ``rfp.encode(..., seed=seed)``. The seed and the number of draws made are in ``state_dict``, so
    a restored module gives the same evaluation and continues the same training sequence. No global generator is read
    or changed.

    Predefined operators run without autograd; a learned one (:class:`rfp.nn.LearnedOperator` in ``operators``) is
    differentiated through. The module holds no other parameters. It runs in full precision under autocast, and as an
    uncompiled call inside a ``torch.compile``\ d model (so not with ``fullgraph=True``).

    Args:
        settings: All arguments in one :class:`rfp.Settings`, which says what each means, or k alone. Any of its fields
            may be given as a keyword. An operator may also be a module ``(x, graph) -> Operator``. A ``cache`` serves
            the draw of evaluation; training draws are made once.
        eval_draws: In evaluation, return the mean over this many draws. The signs and rotations of different draws
            are unrelated, so the mean of orthonormal states shrinks as more are taken and is *not* what training saw:
            leave it at 1 unless the model was built for it, or average predictions instead.
        keep_draw: Train with the draw of evaluation in the place of new ones. Signs and rotations are then the same at
            every step, so that a linear map can learn what each channel says of a node. For one graph that stays as it
            is (the draw is of its edges too), whose nodes are met again; step 0, which is noise, can then be memorised.

    Shapes:
        Returns ``[B, n, C]`` with C = O (P + 1) k = :attr:`out_channels`; step order as in
        :meth:`rfp.trajectory.Trajectory.flat`.

    Example:
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> layer = RandomFeaturePropagation(num_channels=2, num_steps=3, num_trajectories=4)
        >>> layer(ring, num_nodes=3).shape
        torch.Size([4, 3, 8])
    """

    @shows_settings(Arguments)
    def __init__(
        self,
        settings: Settings | int | None = None,
        *,
        eval_draws: int = 1,
        keep_draw: bool = False,
        **arguments: Unpack[Arguments],
    ) -> None:
        super().__init__()
        if isinstance(settings, int):
            arguments["num_channels"], settings = settings, None
        self.settings = Settings.of(settings, arguments)
        self.eval_draws = as_integer("eval_draws", eval_draws, 1)
        self.keep_draw = as_boolean("keep_draw", keep_draw)
        if self.keep_draw and self.eval_draws > 1:
            raise ArgumentError(f"keep_draw means one draw, so there are no eval_draws={eval_draws} to average")
        self.num_draws = 0
        self.num_replicas: int | None = None  # set by RFPModel.replicate
        # Registered so that their parameters are found; the settings keep the order of all operators.
        self.learned = nn.ModuleList(op for op in self.settings.operators if isinstance(op, nn.Module))
        if self.learned and self.settings.cache is not None:
            raise ArgumentError("a learned operator changes with every step of training: leave cache out")

    @property
    def out_channels(self) -> int:
        """C = O (P + 1) k."""
        return self.settings.num_columns

    @property
    def drawn_channels(self) -> int:
        """Width of what :meth:`draw` returns."""
        if not self.learned:
            return self.out_channels
        predefined = len(self.settings.operators) - len(self.learned)
        return (1 + predefined * self.settings.num_steps) * self.settings.num_channels

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        graph: Any,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Encode a graph or a batch.

        Args:
            graph: A PyG ``Data`` or ``Batch``, an :class:`rfp.Graph`, or ``edge_index`` ``[2, m]`` with the arguments
                below. A :class:`rfp.Graph` kept between calls keeps its sorted edges too, which saves most of the
                set-up.
            x: Node features ``[n, d]`` for learned operators; a ``Data``'s own ``x`` by default.
            edge_weight: ``[m]``.
            batch: Graph number of each node, ascending. Without ``ptr`` offsets are counted from it, at the price of
                one synchronisation with a GPU.
            ptr: ``[num_graphs + 1]``.
            num_nodes: Number of nodes; needed with ``edge_index`` alone. It is told by ``batch``, and by ``ptr`` at the
                price of one synchronisation where that is on a GPU.
        """
        if torch.compiler.is_exporting():
            raise ArgumentError(
                "torch.export cannot record the encoder, whose draw depends on the graph's content; export the model "
                "that takes the encoding as an input"
            )
        if x is None and not isinstance(graph, Tensor):
            x = _attribute(graph, "x")
        read = model_graph(graph, edge_weight=edge_weight, batch=batch, ptr=ptr, num_nodes=num_nodes)
        with without_autocast(read.device.type):
            return self._encode(read, x)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def draw(self, graph: Any) -> Tensor:
        """The part of an encoding that no parameter changes: it may be drawn for many training steps at once.

        That is all of it if no operator is learned. Otherwise :meth:`complete` makes an encoding of it, the one that
        a call of the module instead of this one would have returned.

        Args:
            graph: A PyG ``Data`` or ``Batch`` or an :class:`rfp.Graph`.

        Returns:
            ``[B, n, drawn_channels]``. With learned operators: step 0, and steps 1 to P of every predefined operator;
            in evaluation for ``eval_draws`` times as many trajectories. Rows of nodes may be cut out and padded.
        """
        read = model_graph(graph)
        with without_autocast(read.device.type):
            known = self._known(self._next_settings(), read)
            if isinstance(known, Tensor):
                return self._averaged(known)
            return torch.cat([known.start.transpose(0, 1), *known.steps], dim=-1).transpose(0, 1)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def draw_ahead(self, graph: Any, number: int) -> Tensor:
        """The next training draws in one propagation, ``[number, B, n, C]``: those that as many calls would return.

        Args:
            graph: As in :meth:`draw`.
            number: How many. Memory grows with it; time far less, where a graph is too small to fill the device.
        """
        if self.learned:
            raise ArgumentError("draws of a learned operator change with its parameters; use draw() and complete()")
        if self.keep_draw:
            kept: Tensor = self.draw(graph)
            return kept.expand(number, *kept.shape)
        read = model_graph(graph)
        with without_autocast(read.device.type):
            features = torch.cat([draw_features(self._next_settings(), read) for _ in range(number)])
            flat = encode_graph(read, self.settings, features=features, looks=not self.training).flat()
        return flat.view(number, -1, *flat.shape[1:])

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def complete(self, drawn: Tensor, graph: Any, *, x: Tensor | None = None) -> Tensor:
        """The encoding ``[B, n, C]`` from what :meth:`draw` returned: learned operators propagate, with gradients.

        Args:
            drawn: ``[B, n, drawn_channels]``.
            graph: The one it was drawn for, a batch cut out of that, or such a batch padded (``Graph.padded``); what
                comes out at nodes that belong to no graph is finite and of no meaning.
            x: Node features ``[n, d]`` for learned operators.
        """
        if not self.learned:
            return drawn
        read = model_graph(graph)
        if drawn.dim() != 3 or drawn.shape[1:] != (read.num_nodes, self.drawn_channels):
            raise ArgumentError(
                "drawn must be what draw() returned, of shape [B, n, drawn_channels] = "
                f"[B, {read.num_nodes}, {self.drawn_channels}], got {list(drawn.shape)}"
            )
        with without_autocast(read.device.type):
            return self._averaged(self._completed(self._as_known(drawn), read, x))

    def _encode(self, graph: Graph, x: Tensor | None) -> Tensor:
        known = self._known(self._next_settings(), graph)
        return self._averaged(self._completed(known, graph, x))

    def _next_settings(self) -> Settings:
        """Those of the next draw: a new seed in training, and in evaluation the trajectories of all draws at once.

        More trajectories never change the first ones, so the draws of an average share every product.
        """
        if not self.training or self.keep_draw:
            if self.eval_draws == 1:
                return self.settings
            return replace(self.settings, num_trajectories=self.eval_draws * self.settings.num_trajectories)
        return self.next_training_settings()

    def _averaged(self, flat: Tensor) -> Tensor:
        """The mean over the draws of an evaluation, ``[..., draws B, n, C] -> [..., B, n, C]``."""
        num_trajectories = self.settings.num_trajectories
        num_draws = flat.size(-3) // num_trajectories
        if num_draws == 1:
            return flat
        return flat.view(*flat.shape[:-3], num_draws, num_trajectories, *flat.shape[-2:]).mean(-4)

    # An encoding with learned operators comes in two calls from the same features: the predefined ones may take a
    # faster backend, have no replicas and may be drawn beforehand.

    def _known(self, settings: Settings, graph: Graph) -> _Known | Tensor:
        """What no parameter changes: all of it, ``[B, n, C]``, if no operator is learned."""
        predefined = [op for op in settings.operators if not isinstance(op, nn.Module)]
        if predefined:
            # Kept as it is computed where learned operators go on from its step 0.
            own = replace(settings, operators=predefined, storage_dtype=None) if self.learned else settings
            trajectory = encode_graph(graph, own, looks=not self.training)
            if not self.learned:
                return trajectory.flat()
            start = trajectory.storage[:, :, 0, 0].transpose(0, 1)
            return _Known(start, [one.to(settings.kept_dtype) for one in _steps(trajectory.storage)])
        return _Known(first_state(settings, graph), [])

    def _as_known(self, drawn: Tensor) -> _Known:
        k, width = self.settings.num_channels, self.settings.num_steps * self.settings.num_channels
        node_first = drawn.transpose(0, 1)
        predefined = len(self.settings.operators) - len(self.learned)
        steps = [node_first[..., k + o * width : k + (o + 1) * width] for o in range(predefined)]
        return _Known(drawn[..., :k], steps)

    def _completed(self, known: _Known | Tensor, graph: Graph, x: Tensor | None) -> Tensor:
        """``[B, n, C]``, or ``[R, B, n, C]`` for R replicas of learned operators."""
        if isinstance(known, Tensor):
            return known
        if x is None:
            raise ArgumentError("a learned operator needs the node features: give x, or a Data that has x")
        storage = self._learned_storage([operator(x, graph) for operator in self.learned], graph, known.start)
        replicas = storage.shape[:-5]
        predefined, learned = iter(known.steps), iter(_steps(storage))
        joined = []
        for operator in self.settings.operators:
            steps = next(learned) if isinstance(operator, nn.Module) else next(predefined)
            joined += [part.expand(*replicas, *part.shape[-3:]) for part in (known.start.transpose(0, 1), steps)]
        return torch.cat(joined, dim=-1).transpose(-3, -2)

    def _learned_storage(self, operators: Sequence[Operator], graph: Graph, start: Tensor) -> Tensor:
        """``[n, B, O, P + 1, k]``, or ``[R, n, B, O, P + 1, k]`` for the R replicas."""
        replicas, num_nodes, ptr = self.num_replicas, graph.num_nodes, graph.offsets
        if replicas is not None:
            ptr = repeated(ptr, num_nodes, replicas)
            start = start.transpose(0, 1).repeat(replicas, 1, 1).transpose(0, 1)
        elif graph.padded:
            # To the normalisations the padding is one more graph; the operators, which know it for what it is, make it
            # zero.
            ptr = torch.cat([ptr, ptr.new_full((1,), num_nodes)])
        problem = Problem.from_objects(operators, start, ptr, replace(self.settings, start="drawn"))
        if replicas is not None:
            problem = replace(problem, known_sizes=graph.size_range)
        memory = Memory(problem)
        # A training step must not wait for a GPU, and replicas must not fail for one of them: NaN goes on to the loss,
        # and whoever looks at that knows whose it is.
        run_problem(problem, memory, looks=not self.training and replicas is None)
        storage = memory.storage
        return storage if replicas is None else storage.view(replicas, num_nodes, *storage.shape[1:])

    def extra_repr(self) -> str:
        operators = tuple("learned" if isinstance(op, nn.Module) else op for op in self.settings.operators)
        return f"{self.settings.as_text(leave_out=['operators'])}, {operators=}, eval_draws={self.eval_draws}" + (
            ", keep_draw=True" if self.keep_draw else ""
        )


def _steps(storage: Tensor) -> list[Tensor]:  # [..., n, B, O, P + 1, k] -> O times [..., n, B, P k]
    """Steps 1 to P of each operator, as views."""
    return list(storage[..., 1:, :].flatten(-2).unbind(-2))


def model_graph(
    graph: Any,
    *,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    num_nodes: int | None = None,
) -> Graph:
    """A :class:`~rfp.graph.Graph` from what models pass around.

    Shapes and types are checked; values on a CPU alone, since a GPU would have to be waited for at every step.
    """
    if isinstance(graph, Graph):
        return graph
    loaded = None  # the batch that ptr is of
    if isinstance(graph, Tensor):
        edge_index = graph
        if num_nodes is None:
            if batch is None and ptr is None:
                raise ArgumentError(
                    "num_nodes (or ptr, or batch) is needed with edge_index: isolated nodes do not appear in it"
                )
            num_nodes = int(cast(Tensor, ptr)[-1]) if batch is None else batch.size(0)
    elif (edge_index := _attribute(graph, "edge_index")) is not None:
        num_nodes = int(graph.num_nodes)
        loaded = graph if ptr is None else None
        ptr = _attribute(graph, "ptr") if ptr is None else ptr
        batch = _attribute(graph, "batch") if batch is None else batch
        edge_weight = _attribute(graph, "edge_weight") if edge_weight is None else edge_weight
    else:
        raise ArgumentError(f"expected a Data, a Batch, an rfp.Graph or edge_index, got {type(graph).__name__}")
    on_host = edge_index.device.type == "cpu"
    if ptr is not None:
        check_offsets_form(ptr)
    if batch is not None:
        _check_batch(batch, num_nodes, values=on_host)
        if ptr is None:
            ptr = offsets(torch.bincount(batch))
        elif on_host:
            ptr = _of_both(batch, ptr, given=loaded is None)
        elif loaded is not None and _is_of_a_whole(loaded, ptr, num_nodes):
            ptr = torch.searchsorted(batch, torch.arange(ptr.numel(), device=batch.device))
    if edge_weight is not None:
        edge_weight = edge_weight.detach().view(-1)
    # A loader has numbered the nodes already; to do it again would be a few more launches.
    numbered = batch is not None and batch.device == edge_index.device
    read = Graph.unchecked(
        edge_index,
        num_nodes,
        edge_weight,
        ptr,
        known_batch=batch if numbered else None,
        known_sizes=None if on_host else sizes_on_host(loaded, ptr, num_nodes),
    )
    read.check_form()
    if on_host:
        read.check_values()
    return read


def _check_batch(batch: Tensor, num_nodes: int, *, values: bool) -> None:
    if batch.shape != (num_nodes,) or batch.is_floating_point() or batch.dtype == torch.bool:
        raise GraphError(
            f"batch must have the graph number of each of the {num_nodes} nodes, got {batch.dtype} of shape "
            f"{list(batch.shape)}"
        )
    if values and num_nodes and (int(batch[0]) < 0 or bool((batch.diff() < 0).any())):
        raise GraphError("batch must ascend from 0, since the nodes of a graph stand together; sort the nodes by graph")


def _of_both(batch: Tensor, ptr: Tensor, *, given: bool) -> Tensor:
    """``ptr``, or what ``batch`` says, where it is an object's own: PyG's ``subgraph`` leaves an old one there."""
    counted = torch.bincount(batch, minlength=ptr.numel() - 1)
    if torch.equal(counted, ptr.diff().to(counted.device)):
        return ptr
    if given:
        raise GraphError("batch and ptr do not say the same of which node is of which graph; give one of them alone")
    return offsets(counted)


def sizes_on_host(data: Any, ptr: Tensor | None, num_nodes: int) -> tuple[int, int] | None:
    """Nodes of the smallest and of the largest graph of a PyG ``Batch``, from what its loader keeps on the host.

    A loader has put the graphs together there, and the batch still has their sizes when its tensors are on a GPU: so
    nobody waits for one to tell. ``None`` for anything that is not just as a loader made it.
    """
    if ptr is None or ptr.size(0) < 2:
        return None
    bounds = _bounds_on_host(data, ptr)
    if len(bounds) != ptr.size(0) or bounds[-1] != num_nodes:
        return None
    sizes = list(map(sub, bounds[1:], bounds))
    return min(sizes), max(sizes)


def _bounds_on_host(data: Any, ptr: Tensor) -> list[int]:
    """The offsets of the graphs of a batch as it was loaded; empty where the host does not know them."""
    if ptr.device.type == "cpu":
        return ptr.tolist()
    slices = getattr(data, "_slice_dict", None) or {}
    bounds: list[int] = next((slices[name].tolist() for name in _NODE_ATTRIBUTES if _is_on_host(slices.get(name))), [])
    counted = getattr(data, "_num_nodes", None)
    if not bounds and isinstance(counted, list) and all(isinstance(count, int) for count in counted):
        bounds = list(accumulate(counted, initial=0))
    return bounds


def _is_of_a_whole(data: Any, ptr: Tensor, num_nodes: int) -> bool:
    """Whether a batch on a GPU has fewer nodes by now than it was loaded with, as by PyG's ``subgraph``."""
    bounds = _bounds_on_host(data, ptr)
    return bool(bounds) and bounds[-1] != num_nodes


def _attribute(graph: Any, name: str) -> Any:
    """An attribute of a PyG object or another; ``None`` if it has none. That of a ``Data`` from where it keeps them."""
    stores: list[Any] = getattr(graph, "stores", [])
    return stores[0].get(name) if len(stores) == 1 else getattr(graph, name, None)


def _is_on_host(slices: Any) -> bool:
    return isinstance(slices, Tensor) and slices.device.type == "cpu"
