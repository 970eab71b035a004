"""Sections 4 and C of the paper, runnable: what the propositions promise can be estimated, measured and built.

====================================================  =======================================================
:func:`trace`, :func:`exact_trace`                     trace and diagonal of a power of a symmetric operator
:func:`count_triangles`, :func:`count_cycles4`,        estimated counts with confidence intervals, per node too
:func:`count_walks`
:func:`num_samples`, :func:`epsilon`, :func:`rho`,     the sample bound of Lemma C.4 and its inverse
:func:`rank`
:func:`exact_count`, :func:`graph_counts`,             exact counts of triangles, tailed triangles, stars and
:func:`node_counts`                                    4-cycles
:func:`convergence`, :func:`principal_angles`          Proposition 4.2 measured
:mod:`rfp.theory.constructions`                        the networks of Propositions 4.1 and C.7
====================================================  =======================================================
"""

from rfp.theory.angles import principal_angles
from rfp.theory.bounds import epsilon, num_samples, rank, rho
from rfp.theory.estimated_counts import count_cycles4, count_triangles, count_walks
from rfp.theory.measured_convergence import Convergence, convergence, measure_states
from rfp.theory.sampling import SampleEstimate
from rfp.theory.simple import simplify
from rfp.theory.substructures import PATTERNS, exact_count, exact_work, graph_counts, node_counts
from rfp.theory.traces import exact_trace, trace

__all__ = [
    "PATTERNS",
    "Convergence",
    "SampleEstimate",
    "convergence",
    "count_cycles4",
    "count_triangles",
    "count_walks",
    "epsilon",
    "exact_count",
    "exact_trace",
    "exact_work",
    "graph_counts",
    "measure_states",
    "node_counts",
    "num_samples",
    "principal_angles",
    "rank",
    "rho",
    "simplify",
    "trace",
]
