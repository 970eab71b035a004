"""Random feature propagation: graph positional encodings, from random node features to eigenvectors.

Eliasof, Frasca, Bevilacqua, Treister, Chechik, Maron. *Graph Positional Encoding via Random Feature Propagation*,
ICML 2023.

Begin with :func:`rfp.encode`, which encodes a graph. The same encoding is a PyG transform in :mod:`rfp.transforms` and
a module in :mod:`rfp.nn`.

Importing the package loads nothing else. A public name, or a submodule such as ``rfp.nn``, is loaded when it is first
used, so the command knows its verb before it loads torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rfp._version import __version__ as __version__

if TYPE_CHECKING:
    from rfp.conversion import as_graph as as_graph
    from rfp.encode import encode as encode
    from rfp.errors import ArgumentError as ArgumentError
    from rfp.errors import FileError as FileError
    from rfp.errors import GraphError as GraphError
    from rfp.errors import MissingExtraError as MissingExtraError
    from rfp.errors import NumericalError as NumericalError
    from rfp.errors import RFPError as RFPError
    from rfp.estimate import Estimate as Estimate
    from rfp.estimate import estimate as estimate
    from rfp.features import random_features as random_features
    from rfp.graph import Graph as Graph
    from rfp.io import read_graph as read_graph
    from rfp.one_loop import states as states
    from rfp.operators import Operator as Operator
    from rfp.propagate import propagate as propagate
    from rfp.report import Report as Report
    from rfp.settings import Settings as Settings
    from rfp.trajectory import Trajectory as Trajectory

# Public name -> the module that defines it; the imports above say the same to type checkers, and a test compares them.
_HOMES = {
    "ArgumentError": "errors",
    "Estimate": "estimate",
    "FileError": "errors",
    "Graph": "graph",
    "GraphError": "errors",
    "MissingExtraError": "errors",
    "NumericalError": "errors",
    "Operator": "operators",
    "RFPError": "errors",
    "Report": "report",
    "Settings": "settings",
    "Trajectory": "trajectory",
    "as_graph": "conversion",
    "encode": "encode",
    "estimate": "estimate",
    "propagate": "propagate",
    "random_features": "features",
    "read_graph": "io",
    "states": "one_loop",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Load a public name, or a submodule, at its first use."""
    if name in _HOMES:
        value = getattr(import_module(f"rfp.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and find_spec(f"rfp.{name}") is not None:
        return import_module(f"rfp.{name}")
    raise AttributeError(f"module 'rfp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The import system binds a submodule to its package: ``rfp.encode`` would become the file of that name as soon as
    anything imports it. The public name keeps its place.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
