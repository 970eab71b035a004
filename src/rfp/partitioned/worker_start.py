"""What workers need, loaded by the one process that they are forked from: to be imported there, before the first fork.

PyTorch, Dask and Numba take seconds to load, and compiled products some more, which each worker would spend anew. No
thread may be started here, for it would not be there after a fork: the products below are too small for one.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import torch

from rfp.partitioned.block_products import block_gram, sparse_rows, times

# The package of this module brings the tasks.
LOADED = [import_module(name) for name in ("distributed.nanny", "distributed.worker")]


def load_products() -> None:
    """Have the products of blocks compiled, or brought from where they are kept, for states in single precision."""
    a = np.ones((2, 1, 4), dtype=np.float32)
    crow, col, value = np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32), np.ones(2, dtype=np.float32)
    sparse_rows(crow, col, value, torch.from_numpy(a[:, 0]))
    block_gram(a)
    times(a, np.eye(4)[None])


load_products()
