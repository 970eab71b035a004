"""Lightning's advice on hardware, workers and loggers is not for the users of this library."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("lightning", "lightning.pytorch", "lightning.fabric")
# Modules whose warnings nobody who trains a model can act on.
_MODULES = (r"lightning.*", r"torch\.jit.*", r"torch\.distributed.*", r"torch\.utils\.tensorboard.*")


def silence() -> None:
    """Be quiet from here on, in a process of its own."""
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    for module in _MODULES:
        warnings.filterwarnings("ignore", module=module)


@contextmanager
def quiet() -> Iterator[None]:
    """Be quiet within the block; errors are still shown."""
    levels = [logging.getLogger(name).level for name in _LOGGERS]
    try:
        with warnings.catch_warnings():
            silence()
            yield
    finally:
        for name, level in zip(_LOGGERS, levels, strict=True):
            logging.getLogger(name).setLevel(level)
