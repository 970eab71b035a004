"""How many replicas are trained at once where memory is short and nobody knows how short."""

from __future__ import annotations


class ProgramSize:
    """How many replicas a program has where memory is short: half of what was refused, more again where that fits.

    What was refused beside other processes may fit when they have ended, and small programs are slow. So after a
    program that fits the next is twice as large; whenever that is refused, twice as many must fit before another try.

    Args:
        most: Replicas of the largest.

    Example:
        >>> size = ProgramSize(10)
        >>> size.refused(10)
        >>> size.fitted()
        >>> size.now
        10
        >>> size.refused(10)
        >>> size.fitted()
        >>> size.now
        5
        >>> size.fitted()
        >>> size.now
        10
    """

    def __init__(self, most: int) -> None:
        self.now, self._most = most, most
        self._grown, self._fitted, self._wanted = False, 0, 1

    def fitted(self) -> None:
        """A program of this size was trained."""
        self._grown, self._fitted = False, self._fitted + 1
        if self.now < self._most and self._fitted >= self._wanted:
            self.now, self._grown, self._fitted = min(2 * self.now, self._most), True, 0

    def refused(self, count: int) -> None:
        """A program of so many replicas did not fit."""
        self._wanted *= 2 if self._grown else 1
        self.now, self._grown, self._fitted = -(-count // 2), False, 0
