r"""Rows of nodes that arrive after the encoding, by the stored factor of each step.

Every normalisation here is a product with a k x k matrix, :math:`a^{(p)} = (S a^{(p-1)}) W_p`, and so is the start,
:math:`a^{(0)} = r W_0`. Those matrices are what a node needs besides its neighbours to be encoded like the others: it
is placed in the basis that is there, instead of in a new one.

* :func:`extend` computes the rows of new nodes and keeps all others as they are;
* :func:`replay` computes all rows of a larger or changed graph with the stored factors;
* :func:`save` and :func:`load` keep what both need in a file.
"""

from rfp.new_nodes.arrivals import extend
from rfp.new_nodes.replay import replay
from rfp.new_nodes.state import load, save
from rfp.new_nodes.step_factors import step_factors

__all__ = ["extend", "load", "replay", "save", "step_factors"]
