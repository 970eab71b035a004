"""``reference``: plain PyTorch, any operator, any device, autograd. It defines the result."""

from rfp.backends.backend import Backend
from rfp.backends.reference.plain_loop import reference_steps

REFERENCE = Backend("reference", lambda problem: "", steps=reference_steps)
