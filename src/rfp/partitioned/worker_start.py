"""What workers need, loaded by the one process that they are forked from: to be imported there, before the first fork.

PyTorch, Dask and Numba take seconds to load, and compiled products some more, which each worker would spend anew. No
thread may be started here, for it would not be there after a fork: the products below are too small for one.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import torch

from rfp.partitioned import block_products, block_tasks, norms

for _name in ("distributed.nanny", "distributed.worker"):
    import_module(_name)


def load_products(plan_type: type = np.float32) -> None:
    """Have the products of a block compiled, or brought from where they are kept, for states of this type."""
    a = np.ones((2, 1, 4), dtype=plan_type)
    crow, col, value = np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32), np.ones(2, dtype=plan_type)
    block_products.sparse_rows(crow, col, value, torch.from_numpy(a[:, 0]))
    block_products.block_gram(a)
    block_products.times(a, np.eye(4)[None])


load_products()
