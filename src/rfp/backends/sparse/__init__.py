"""``sparse``: CSR product and Gram-matrix QR: one large graph, any batch, any operator."""

from rfp.backends.backend import Backend
from rfp.backends.sparse.fast_loop import sparse_steps, sparse_steps_in_place

SPARSE = Backend("sparse", lambda problem: "", steps=sparse_steps, steps_in_place=sparse_steps_in_place)
