"""Graphs from files, encodings to files: every format one function and one line in a table."""

from rfp.io.options import LoadedGraph, ReadOptions
from rfp.io.readers import FORMATS, read_files, read_graph
from rfp.io.writers import WRITERS, EncodedNodes

__all__ = ["FORMATS", "WRITERS", "EncodedNodes", "LoadedGraph", "ReadOptions", "read_files", "read_graph"]
