"""Numbers for people."""

from __future__ import annotations


def human_bytes(count: float) -> str:
    """Bytes with a decimal prefix.

    >>> human_bytes(999), human_bytes(1_500_000)
    ('999 B', '1.5 MB')
    """
    return f"{_scaled(count)}B" if count >= 1000 else f"{count:.0f} B"


def human_count(count: float) -> str:
    """A count with a decimal prefix.

    >>> human_count(42), human_count(2_332_486)
    ('42', '2.3 M')
    """
    return _scaled(count).strip()


def _scaled(count: float) -> str:
    for prefix in ("", "k", "M", "G", "T"):
        if abs(count) < 1000:
            return f"{count:.0f} " if not prefix else f"{count:.1f} {prefix}"
        count /= 1000
    return f"{count:.1f} P"
