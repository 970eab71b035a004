"""What the controls offer, read from where each choice is defined."""

from __future__ import annotations

from typing import Any

from rfp.explorer.encodings import EXPLORER_FIELDS
from rfp.features import DISTRIBUTIONS
from rfp.io import FORMATS
from rfp.normalization import NORMALIZATIONS
from rfp.operators import OPERATORS
from rfp.settings import STARTS, Settings


def describe() -> dict[str, Any]:
    """Names to choose from and the defaults, as JSON values."""
    defaults = Settings()
    return {
        "operators": list(OPERATORS),
        "normalization": list(NORMALIZATIONS),
        "distribution": list(DISTRIBUTIONS),
        "start": list(STARTS),
        "settings": list(EXPLORER_FIELDS),
        "defaults": {
            name: list(value) if isinstance(value := getattr(defaults, name), tuple) else value
            for name in EXPLORER_FIELDS
        },
        "suffixes": [suffix for name, known in FORMATS.items() if name != "pyg" for suffix in known.suffixes],
    }
