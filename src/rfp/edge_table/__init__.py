"""From a table of edges to a graph: which columns, which ids, what becomes of duplicates. One set of rules for text,
Parquet and data frames.
"""
