"""Graphs that outgrow memory: one folder of row blocks and states, made by one process or by many.

:func:`encode` and :func:`encode_files` fill a folder, :func:`open` reads one.
"""

from rfp.partitioned.dask_executor import Dask as Dask
from rfp.partitioned.encode_source import Execution as Execution
from rfp.partitioned.encode_source import encode as encode
from rfp.partitioned.encode_source import encode_files as encode_files
from rfp.partitioned.executors import Serial as Serial
from rfp.partitioned.executors import Threads as Threads
from rfp.partitioned.reader import PartitionedEncoding as PartitionedEncoding
from rfp.partitioned.reader import open_encoding as open

__all__ = ["Dask", "Execution", "PartitionedEncoding", "Serial", "Threads", "encode", "encode_files", "open"]
