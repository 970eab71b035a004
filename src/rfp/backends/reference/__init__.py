"""``reference``: plain PyTorch, any operator, any device, autograd. It defines the result."""

from rfp.backends.backend import Backend
from rfp.backends.reference.loop import reference_steps

REFERENCE = Backend("reference", lambda problem: "", steps=reference_steps)
