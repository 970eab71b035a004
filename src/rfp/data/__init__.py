"""Data sets: where they come from and how they are read."""

from rfp.data.counting_generator import CountingData

__all__ = ["CountingData"]
