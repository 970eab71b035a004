"""Kernels compiled for a CPU (Numba), from which graphs and operators are made; those of the loop are in the backends.

They need Numba: whoever imports one asks :func:`rfp.available.compiled_available` first.
"""
