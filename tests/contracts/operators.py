"""What every operator must satisfy: it is the matrix its dense twin says, on any block of vectors."""

import numpy as np
import torch

from rfp.operators import Operator


def check_operator(operator: Operator, twin: np.ndarray, tolerance: float = 1e-12) -> None:
    """``operator @ a`` equals ``twin @ a`` for one vector, several, and none of the loop's shapes surprises it."""
    n = len(twin)
    assert operator.num_nodes == n
    for columns in (1, 3, 8):
        a = torch.from_numpy(np.random.default_rng(columns).standard_normal((n, columns)))
        np.testing.assert_allclose((operator @ a).numpy(), twin @ a.numpy(), atol=tolerance)
    assert operator.symmetric == np.allclose(twin, twin.T)
