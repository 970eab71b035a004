r"""Propagation operators :math:`S \in \mathbb R^{n \times n}` (section 3.2 of the paper).

An operator is anything with ``S @ a`` for ``a`` of shape ``[n, c]``. The predefined ones are sparse matrices built
from a :class:`~rfp.graph.Graph`; with :math:`A` as that module defines it and degrees the sums of *absolute* weights
(so that signed graphs keep a spectrum in [-1, 1]):

======================== ================================================== =========================================
name                     matrix                                             symmetric
======================== ================================================== =========================================
``adjacency``            :math:`A`                                          if the graph is undirected
``normalized_adjacency`` :math:`\hat A = \tilde D_{out}^{-1/2} \tilde A     if the graph is undirected
                         \tilde D_{in}^{-1/2}`
``normalized_laplacian`` :math:`\hat L = I - \hat A`                        if the graph is undirected
``random_walk``          :math:`D_{out}^{-1} A`, zero rows for isolated     no
                         nodes
======================== ================================================== =========================================

Here :math:`\tilde A` is :math:`A` with a self-loop of weight 1 on every node that has none; a self-loop that is there
keeps its weight. (PyG's ``get_laplacian(normalization="sym")`` adds no self-loops and is another matrix.)

A name may carry suffixes, in this order: ``.sym`` builds the operator of the symmetrised graph
(:meth:`~rfp.graph.Graph.to_undirected`), ``.T`` transposes it, ``^p`` takes its p-th power:
``"adjacency.T"``, ``"normalized_adjacency.sym^2"``.

Directed graphs: ``NAME.both`` stands for two operators, S and its transpose, along the edges and against them
(``"adjacency.both"``, ``"random_walk.both^2"``); ``"both_directions"`` is ``"normalized_adjacency.both"``.
"""

from rfp.operators.given import Sources, as_operator, as_operators, check_within_graphs, from_matrix, from_name
from rfp.operators.operator import (
    BlockOperator,
    DenseBlock,
    DenseOperator,
    FunctionOperator,
    MatrixOperator,
    Operator,
    PowerOperator,
    blocks_of,
    factors,
)
from rfp.operators.predefined import BOTH_DIRECTIONS, NORMS, OPERATORS, Degrees, EntryTable, expanded, parse_name

__all__ = [
    "BOTH_DIRECTIONS",
    "NORMS",
    "OPERATORS",
    "BlockOperator",
    "Degrees",
    "DenseBlock",
    "DenseOperator",
    "EntryTable",
    "FunctionOperator",
    "MatrixOperator",
    "Operator",
    "PowerOperator",
    "Sources",
    "as_operator",
    "as_operators",
    "blocks_of",
    "check_within_graphs",
    "expanded",
    "factors",
    "from_matrix",
    "from_name",
    "parse_name",
]
