"""A kernel is looked at before it counts: the first use of each form is compared with what defines its result.

What a compiler makes of a kernel depends on its version and on the GPU, and a number that is a little wrong would go
unnoticed: it would only make a model a little worse. So the first time that a form is wanted on a device, something
made up is computed both ways. That waits for the device once; later calls do not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch


class KernelLooks:
    """What has been looked at in this process.

    Args:
        subject: The kernels in words, with their verb: ``"the kernel of Adam is"``.
        instead: What is done without them, in words.

    Example:
        >>> looks = KernelLooks("the kernel of sums is", "they are added one by one")
        >>> looks.agree(torch.device("cpu"), ("float32",), lambda: [])
        True
        >>> looks.known
        {('cpu', 'float32'): True}
    """

    def __init__(self, subject: str, instead: str) -> None:
        self._subject, self._instead = subject, instead
        # The device and what else makes a form -> whether kernels are right.
        self.known: dict[tuple[object, ...], bool] = {}

    def agree(self, device: torch.device, form: Sequence[object], look: Callable[[], Sequence[str]]) -> bool:
        """Whether kernels may be used; what they are wrong in is said once for each form.

        ``False``, and nothing is looked at, while a CUDA graph is recorded by a process that has not used them before.

        Args:
            device: Where they run.
            form: What they are compiled for.
            look: Compares, and returns what disagrees, in words.
        """
        key = (str(device), *form)
        if key not in self.known:
            if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                return False
            wrong = look()
            self.known[key] = not wrong
            if wrong:
                warnings.warn(
                    f"{self._subject} wrong on {device} with this version of Triton ({', '.join(wrong)}): "
                    f"{self._instead}, which is slower; please report it",
                    stacklevel=3,
                )
        return self.known[key]
