"""Draws that are counted, so that a restored module goes on with the same sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from rfp.errors import ArgumentError
from rfp.hashing import GOLDEN, mix, signed
from rfp.settings import Settings

# Separates the training draws from the evaluation draw, whose seed is the plain `seed`.
_TRAINING_STREAM = signed(0x5851F42D4C957F2D)


class CountedDraws:
    """The part of a module that draws anew in training: the seed and the number of draws made are in ``state_dict``."""

    settings: Settings
    num_draws: int
    keep_draw: bool = False  # whether training too has the draw of evaluation, and there is no other

    def next_training_settings(self) -> Settings:
        """Those of the next draw in training, which is counted; it is made once, so nothing caches it."""
        check_forward()
        # Not by nn.Module, which would look for parameters first.
        object.__setattr__(self, "num_draws", self.num_draws + 1)
        return self.settings.with_seed(training_seed(self.settings.seed, self.num_draws - 1))

    def get_extra_state(self) -> dict[str, int]:
        return {"seed": self.settings.seed, "num_draws": self.num_draws}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.settings = replace(self.settings, seed=int(state["seed"]))
        self.num_draws = int(state["num_draws"])


def in_backward() -> bool:
    """Whether a backward pass is running, where ``torch.utils.checkpoint`` calls modules again."""
    return torch._C._current_graph_task_id() != -1


def check_forward() -> None:
    """Raise in a backward pass, where ``torch.utils.checkpoint`` calls a module again: another draw would be its next.

    Raises:
        ArgumentError: The gradients would be those of two draws, wrong without a word.
    """
    if in_backward():
        raise ArgumentError(
            "random features (or signs) would be drawn anew in a backward pass, where torch.utils.checkpoint computes "
            "again what the forward pass did: draw outside of what is checkpointed (RFPModel: drawn=model.draw(data))"
        )


@contextmanager
def evaluation_draw_of(modules: Sequence[CountedDraws], number: int) -> Iterator[None]:
    """Within the block, evaluation uses this draw of the modules; 0 is the usual one, which some keep."""
    modules = [module for module in modules if not module.keep_draw]
    usual = [module.settings for module in modules]
    try:
        for module, settings in zip(modules, usual, strict=True):
            seed = settings.seed if number == 0 else training_seed(settings.seed, -1 - number)
            module.settings = replace(settings, seed=seed)
        yield
    finally:
        for module, settings in zip(modules, usual, strict=True):
            module.settings = settings


def training_seed(seed: int, draw: int) -> int:
    """The seed of training draw number ``draw``, unrelated to its neighbours and to ``seed`` itself."""
    return mix(signed(mix(signed(seed + _TRAINING_STREAM)) + (draw + 1) * GOLDEN))
