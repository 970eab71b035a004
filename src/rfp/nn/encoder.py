"""The encoding as a module: new random features at every training step, a fixed draw in evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from rfp.backends.finite import NotFiniteError, all_finite
from rfp.backends.problem import Problem, draw_features
from rfp.backends.start import first_state
from rfp.encode import encode_graph
from rfp.errors import ArgumentError, NumericalError
from rfp.graph import Graph
from rfp.nn.counted_draws import CountedDraws
from rfp.nn.model_graph import attribute_of, model_graph
from rfp.one_loop import run_problem
from rfp.operators import Operator
from rfp.precision import without_autocast
from rfp.ragged import repeated
from rfp.settings import Arguments, Settings, as_boolean, as_integer, shows_settings
from rfp.sinks import Memory


@dataclass(frozen=True)
class _Known:
    """All of an encoding with learned operators that does not depend on their parameters."""

    start: Tensor  # [B, n, k], step 0: what every operator sets out from
    steps: list[Tensor]  # [n, B, P k] for each predefined operator


class RandomFeaturePropagation(CountedDraws, nn.Module):
    r"""Encodes graphs by random feature propagation inside a model (Eq. 1-3 of the paper).

    **Training** draws new features at every forward pass. This regularises, since a fixed draw can be memorised. Draw
    number :math:`c` is a pure function of (seed, :math:`c`, graph, trajectory, node, channel).

    **Evaluation** uses one fixed draw, the same as ``rfp.encode(..., seed=seed)``.

    The seed and the number of draws made are in ``state_dict``, so a restored module gives the same evaluation and
    continues the same training sequence. No global generator is read or changed.

    Predefined operators run without autograd. A learned one (:class:`rfp.nn.LearnedOperator` in ``operators``) is
    differentiated through; the module has no other parameters. Under autocast it runs in full precision. Inside a
    ``torch.compile``\ d model it is an uncompiled call, so ``fullgraph=True`` is not possible.

    Args:
        settings: All arguments in one :class:`rfp.Settings`, which explains each, or only k. You can give any of its
            fields as a keyword. An operator may also be a module ``(x, graph) -> Operator``. A ``cache`` is used for
            the draw of evaluation; training draws are made once.
        eval_draws: In evaluation, return the mean over this many draws. The signs and rotations of different draws
            are unrelated, so the mean of orthonormal states shrinks as more are taken and is *not* what training saw.
            Leave it at 1 unless the model was built for it, or average predictions instead.
        keep_draw: Train with the draw of evaluation instead of new ones. Signs and rotations are then the same at every
            step, so that a linear map can learn what each channel says about a node. This is for one graph that does
            not change (the draw depends on its edges too) and whose nodes are met again. Step 0, which is noise, can
            then be memorised.

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
            if "num_channels" in arguments:
                raise ArgumentError(f"num_channels is given twice: {settings} and {arguments['num_channels']}")
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
                below. If you keep a :class:`rfp.Graph` between calls, its edges stay sorted, which saves most of the
                set-up.
            x: Node features ``[n, d]`` for learned operators; a ``Data``'s own ``x`` by default.
            edge_weight: ``[m]``.
            batch: Graph number of each node, ascending. Without ``ptr`` offsets are counted from it, which costs one
                synchronisation with a GPU.
            ptr: ``[num_graphs + 1]``.
            num_nodes: Number of nodes; needed only with ``edge_index`` alone. Otherwise it follows from ``batch``, or
                from ``ptr``, which costs one synchronisation if that is on a GPU.
        """
        if torch.compiler.is_exporting():
            raise ArgumentError(
                "torch.export cannot record the encoder, whose draw depends on the graph's content; export the model "
                "that takes the encoding as an input"
            )
        if x is None and not isinstance(graph, Tensor):
            x = attribute_of(graph, "x")
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

        Raises:
            ArgumentError: The module is in evaluation, which has one draw, or an operator is learned.
        """
        if self.learned:
            raise ArgumentError("draws of a learned operator change with its parameters; use draw() and complete()")
        if self.keep_draw:
            kept: Tensor = self.draw(graph)
            return kept.expand(number, *kept.shape)
        if not self.training:
            raise ArgumentError("draw_ahead() is for training draws; evaluation has one, which draw() returns")
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
        # Features may be integers, or under autocast come from a layer that computes in half precision.
        x = x.to(next((weight.dtype for weight in self.learned.parameters()), x.dtype))
        try:
            storage = self._learned_storage([operator(x, graph) for operator in self.learned], graph, known.start)
        except NotFiniteError as error:
            if all_finite(x):
                raise
            node = int((~x.isfinite()).nonzero()[0, -2])
            raise NumericalError(
                f"a learned operator was given node features x that are not finite, as those of node {node}; correct "
                "them, or train more slowly if a layer before it computes them"
            ) from error
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
