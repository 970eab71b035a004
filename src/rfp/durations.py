"""Times for people."""

from __future__ import annotations

_UNITS = (("days", 86_400.0, 2.0), ("h", 3600.0, 1.5), ("min", 60.0, 1.5))


def spoken(seconds: float) -> str:
    """A duration in the unit that suits it.

    >>> spoken(3.21), spoken(250), spoken(9000), spoken(400_000)
    ('3.2 s', '4.2 min', '2.5 h', '4.6 days')
    """
    for unit, length, least in _UNITS:
        if seconds >= least * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"
