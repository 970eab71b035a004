"""An embedding of a few columns instead of the whole trajectory: which steps are kept, and FastRP."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated

from rfp.baselines.fastrp import FastRP
from rfp.cli.options.panels import one_of, panel
from rfp.errors import ArgumentError
from rfp.settings import Settings
from rfp.trajectory import kept_steps

_embedding = panel("Fewer columns")
_fastrp = panel("FastRP (--preset fastrp)")
# What FastRP itself says.
_NOT_FASTRP = {
    "num_steps": "-P",
    "operators": "--operator",
    "normalization": "--normalization",
    "normalize_every": "-w",
    "num_trajectories": "-B",
    "distribution": "--distribution",
    "start": "--start",
    "strict": "--strict",
    "cache": "--cache",
}


@dataclass(frozen=True)
class WrittenColumns:
    """Options that make k columns of the trajectory."""

    last_only: Annotated[
        bool, _embedding("--last-only", help="Keep only the last step: k columns for each operator.")
    ] = False
    steps_kept: Annotated[
        str | None, _embedding(metavar="LIST", help="Keep only these steps, e.g. 0,8,16; -1 is the last.")
    ] = None
    preset: Annotated[
        str | None,
        _embedding(
            help="fastrp: k columns, FastRP's weighted sum of its steps, with the parameters of Neo4j's GDS.",
            **one_of(["fastrp"]),
        ),
    ] = None
    iteration_weights: Annotated[
        str, _fastrp(metavar="LIST", help="Weights of steps 1, 2, ...; there are as many steps as weights.")
    ] = "0,1,1"
    normalization_strength: Annotated[
        float, _fastrp(help="Multiply the random vector of a node by its degree to this power.")
    ] = 0.0
    node_self_influence: Annotated[float, _fastrp(help="Weight of step 0, the node's own random vector.")] = 0.0
    node_features: Annotated[
        str | None,
        _fastrp(metavar="X.npy", help="Node features [n, d], one row for each node in the order of the result."),
    ] = None
    property_ratio: Annotated[
        float, _fastrp(min=0, max=1, help="Fraction of the columns that start from the node features.")
    ] = 0.0

    def __post_init__(self) -> None:
        if self.last_only and self.steps_kept is not None:
            raise ArgumentError("--last-only and --steps-kept contradict each other: give one of them")
        defaults = {field.name: field.default for field in fields(self)[3:]}
        given = [f"--{name.replace('_', '-')}" for name, value in defaults.items() if getattr(self, name) != value]
        if given and self.preset is None:
            raise ArgumentError(f"{', '.join(given)} belong to FastRP: add --preset fastrp")
        if (self.node_features is None) != (self.property_ratio == 0):
            raise ArgumentError("--node-features and --property-ratio (above 0) belong together: give both or none")

    @property
    def keep(self) -> str | tuple[int, ...]:
        """What :func:`rfp.trajectory.kept_steps` takes."""
        if self.last_only:
            return "last"
        if self.steps_kept is None:
            return "all"
        return tuple(int(step) for step in _numbers("--steps-kept", self.steps_kept, int))

    def fastrp(self, settings: Settings) -> FastRP | None:
        """The parameters of the preset: with fewer steps kept, the sum of those alone."""
        if self.preset is None:
            return None
        plain = Settings()
        given = [option for name, option in _NOT_FASTRP.items() if getattr(settings, name) != getattr(plain, name)]
        if given:
            raise ArgumentError(
                f"{', '.join(given)} and --preset fastrp contradict each other: FastRP averages over neighbours, once "
                "for each of --iteration-weights; leave one of them out"
            )
        parameters = FastRP(
            embedding_dimension=settings.num_channels,
            iteration_weights=tuple(_numbers("--iteration-weights", self.iteration_weights, float)),
            normalization_strength=self.normalization_strength,
            node_self_influence=self.node_self_influence,
            property_ratio=self.property_ratio,
            seed=settings.seed,
        )
        return parameters if self.keep == "all" else _of_steps(parameters, self.keep)


def _of_steps(parameters: FastRP, keep: str | tuple[int, ...]) -> FastRP:
    kept = kept_steps(keep, len(parameters.iteration_weights))
    weights = [weight if p in kept else 0.0 for p, weight in enumerate(parameters.iteration_weights, start=1)]
    own = parameters.node_self_influence if 0 in kept else 0.0
    return replace(parameters, iteration_weights=tuple(weights), node_self_influence=own)


def _numbers(option: str, text: str, kind: type[int] | type[float]) -> list[float]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        what = "whole numbers" if kind is int else "numbers"
        raise ArgumentError(f"{option} must be {what} separated by commas, got {text!r}") from error
