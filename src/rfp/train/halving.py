"""Successive halving on validation scores, as a config asks for it: many short runs, the best of them longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rfp.errors import ArgumentError
from rfp.plain_values import as_plain, field_values

# Values that replicas of one program may differ in; every other searched key needs a program of its own.
IN_PROGRAM = ("training.lr", "training.weight_decay")
Pair = tuple[float, float]
"""A learning rate and a weight decay."""


@dataclass(frozen=True)
class Halving:
    """How the values of ``config.search`` are searched, in three stages.

    *Screen*: a balanced design over the keys (every value of a key is tried equally often), then, one at a time,
    neighbours of the best so far: one key changed to another value, for ordered values the next smaller or larger;
    then what is tried ``also``, in the order given. Every combination is trained with all (lr, weight decay) pairs.
    *Longer*: the best combinations with their best pairs, on all splits. *Final*: the best of these at full length, on
    all splits and seeds. The choice is the best mean validation score of the final stage.

    Args:
        tries: Combinations in the screen, without those tried ``also``.
        designed: How many of them are of the design.
        held: Keys that keep their first value in the design and change in the neighbours alone.
        screen_epochs: Epochs of the first stage.
        screen_splits: The first stage sees the first few.
        longer: Combinations in the second stage; 0 leaves it out.
        longer_pairs: Pairs of each of them.
        longer_epochs: Epochs of the second stage.
        finalists: Points (combinations with their pair) in the third.
        apart: A key, or several, whose every (joint) value reaches the final stage, so that the best of each is known;
            between them decide the validation scores of their runs
            (:func:`~rfp.train.halving_choice.decided`). A key that some combinations do not have, for it is only tried
            ``also``, sets those that have it apart from the others.
        carried: Keys that short runs cannot judge, such as dropout, which pays late: the best of each of their values
            reaches the second stage, whatever the first says of them.
        seed: Seed of the design and the order of neighbours.
        also: Values of some keys that something else than this search says are good, or several such mappings: each is
            tried with every combination of the other searched keys. Keys that are not searched are set in these
            combinations alone.

    What ``tries``, ``longer``, ``longer_pairs``, ``finalists``, ``apart``, ``carried`` and ``also`` say is which
    combinations are trained, not how: a search takes up the trials of one that tries no more and differs in these
    alone (:func:`~rfp.train.halving_plan.takes_up`).
    """

    tries: int = 36
    designed: int = 24
    held: tuple[str, ...] = ()
    screen_epochs: int = 60
    screen_splits: int = 3
    longer: int = 6
    longer_pairs: int = 5
    longer_epochs: int = 150
    finalists: int = 4
    apart: tuple[str, ...] = ()
    seed: int = 0
    carried: tuple[str, ...] = ()
    also: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        apart: Any = self.apart
        also: Any = self.also
        if isinstance(apart, str):
            object.__setattr__(self, "apart", (apart,) if apart else ())
        if isinstance(also, Mapping):
            object.__setattr__(self, "also", (also,) if also else ())
        for name in ("held", "carried", "apart"):
            if not isinstance(getattr(self, name), list | tuple):
                raise ArgumentError(f"halving: {name} must be a list of keys, got {getattr(self, name)!r}")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("tries", "designed", "screen_epochs", "screen_splits", "longer_pairs", "finalists"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"halving: {name} must be at least 1, got {getattr(self, name)}")
        wrong = not isinstance(self.also, list | tuple) or not all(isinstance(one, Mapping) for one in self.also)
        if wrong or any(set(one) & set(IN_PROGRAM) for one in self.also):
            raise ArgumentError(
                "halving: also must be a mapping of keys to values (or a list of such), without learning rate and "
                f"weight decay (all of which are tried), got {self.also!r}"
            )
        object.__setattr__(self, "also", tuple(self.also))

    @property
    def needs(self) -> set[str]:
        """Keys that a search must have."""
        tried = {key for one in self.also for key in one}
        return {*IN_PROGRAM, *self.held, *({*self.carried, *self.apart} - tried)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Halving:
        """From plain values; unknown keys are errors."""
        return cls(**field_values(cls, values, "halving"))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that :meth:`from_dict` reads back; keys of results that are older than an option stay."""
        plain: dict[str, Any] = as_plain(self)
        for newer in ("carried", "also"):
            if not plain[newer]:
                del plain[newer]
        # One key or mapping is written by itself, as it was when there could be no more.
        if len(self.apart) < 2:
            plain["apart"] = "".join(self.apart)
        if len(self.also) == 1:
            plain["also"] = plain["also"][0]
        return plain
