"""Random feature propagation: graph positional encodings, from random node features to eigenvectors.

Eliasof, Frasca, Bevilacqua, Treister, Chechik, Maron. *Graph Positional Encoding via Random Feature Propagation*,
ICML 2023.
"""

from rfp._version import __version__
from rfp.conversion import as_graph
from rfp.encode import encode
from rfp.errors import ArgumentError, FileError, GraphError, MissingExtraError, NumericalError, RFPError
from rfp.estimate import Estimate, estimate
from rfp.features import random_features
from rfp.graph import Graph
from rfp.operators import Operator
from rfp.propagate import Report, Trajectory, propagate, states
from rfp.settings import Settings

__all__ = [
    "ArgumentError",
    "Estimate",
    "FileError",
    "Graph",
    "GraphError",
    "MissingExtraError",
    "NumericalError",
    "Operator",
    "RFPError",
    "Report",
    "Settings",
    "Trajectory",
    "__version__",
    "as_graph",
    "encode",
    "estimate",
    "propagate",
    "random_features",
    "states",
]
