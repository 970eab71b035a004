"""Formats that are known by name and not read: what to convert each to."""

from __future__ import annotations

_AS_CSV = "save it as CSV with the columns source, target and weight"
_WITH_NETWORKX = "read it with NetworkX and write it with networkx.write_graphml"
_NO_PICKLE = "it can run code when it is loaded: load it yourself and pass the graph to rfp.encode"
_UNPACK = "unpack it and give the file inside"

# Suffix -> (name of the format, what to do).
UNSUPPORTED: dict[str, tuple[str, str]] = {
    ".xls": ("an Excel workbook", _AS_CSV),
    ".xlsx": ("an Excel workbook", _AS_CSV),
    ".ods": ("a spreadsheet", _AS_CSV),
    ".pkl": ("a pickle", _NO_PICKLE),
    ".pickle": ("a pickle", _NO_PICKLE),
    ".gpickle": ("a pickle", _NO_PICKLE),
    ".npy": ("a NumPy array", "pass the array to rfp.encode, or write a matrix with scipy.sparse.save_npz"),
    ".mat": ("a MATLAB file", "load it with scipy.io.loadmat and write the matrix with scipy.sparse.save_npz"),
    ".h5": ("an HDF5 file", _AS_CSV + " or Parquet"),
    ".hdf5": ("an HDF5 file", _AS_CSV + " or Parquet"),
    ".h5ad": ("an AnnData file", "write adata.obsp[...] with scipy.sparse.save_npz"),
    ".feather": ("a Feather file", "write it as Parquet, e.g. with pandas.read_feather(...).to_parquet(...)"),
    ".arrow": ("an Arrow file", "write it as Parquet, e.g. with pyarrow.parquet.write_table"),
    ".orc": ("an ORC file", "write it as Parquet, e.g. with pandas.read_orc(...).to_parquet(...)"),
    ".avro": ("an Avro file", "write it as Parquet or CSV"),
    ".db": ("a database", "export the edges as CSV or Parquet"),
    ".sqlite": ("a database", "export the edges as CSV or Parquet"),
    ".dot": ("a Graphviz file", _WITH_NETWORKX),
    ".gv": ("a Graphviz file", _WITH_NETWORKX),
    ".adjlist": ("an adjacency list", "write the graph with networkx.write_edgelist"),
    ".multiline_adjlist": ("an adjacency list", "write the graph with networkx.write_edgelist"),
    ".g6": ("a graph6 file", _WITH_NETWORKX),
    ".graph6": ("a graph6 file", _WITH_NETWORKX),
    ".s6": ("a sparse6 file", _WITH_NETWORKX),
    ".sparse6": ("a sparse6 file", _WITH_NETWORKX),
    ".graph": ("a METIS file", "write the edges as text, one line for each"),
    ".metis": ("a METIS file", "write the edges as text, one line for each"),
    ".lgl": ("an LGL file", "write the edges as text, one line for each"),
    ".gdf": ("a GUESS file", "open it in Gephi and export GraphML or GEXF"),
    ".gephi": ("a Gephi project", "export GraphML or GEXF from Gephi"),
    ".bin": ("a binary file of a kind unknown here (DGL?)", "write the edges as CSV or Parquet"),
    ".nt": ("RDF", "write the triples of one predicate as CSV with the columns source and target"),
    ".ttl": ("RDF", "write the triples of one predicate as CSV with the columns source and target"),
    ".rdf": ("RDF", "write the triples of one predicate as CSV with the columns source and target"),
    ".zip": ("an archive", _UNPACK),
    ".tar": ("an archive", _UNPACK),
    ".tgz": ("an archive", _UNPACK),
    ".7z": ("an archive", _UNPACK),
    ".rar": ("an archive", _UNPACK),
    ".lz4": ("compressed with lz4", "compress it with gzip or zstd instead, or " + _UNPACK),
    ".z": ("compressed with compress", _UNPACK),
}
