"""What ran: the backend and why, and what its normalisation had to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rfp.errors import NumericalError
from rfp.normalization import Events, count_events

# Ways of orthonormalising that a plain full-rank QR never needs.
_FALLBACKS = ("cholesky_dropping", "gram_schmidt")


@dataclass(frozen=True)
class Report:
    """What ran: the backend and why, how often each method of orthonormalisation, how many columns were dependent.

    Args:
        backend: Its name.
        reason: Why it was chosen.
        steps: The events of each step; those that a GPU still counts are waited for when somebody asks.
    """

    backend: str
    reason: str
    steps: Sequence[Events] = ()

    @cached_property
    def events(self) -> Counter[str]:
        """The events of all steps, added up."""
        return count_events(self.steps)

    @property
    def dependent_columns(self) -> int:
        """Columns set to zero because they depend on earlier ones, over all steps, graphs and trajectories."""
        return self.events["dependent_columns"]

    def check_strict(self) -> None:
        """Raise if the result departs anywhere from a plain full-rank QR."""
        used = [name for name in _FALLBACKS if self.events[name]]
        if used or self.dependent_columns:
            raise NumericalError(
                f"strict=True: {self.dependent_columns} dependent columns were set to zero"
                f"{' and ' + ' and '.join(used) + ' was needed' if used else ''}; use fewer channels, "
                "normalise more often, or float64"
            )
