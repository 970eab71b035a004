"""Backward passes that are made by hand, or by kernels, have no derivative of their own: to ask for one is an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch

from rfp.errors import ArgumentError

_Ctx = TypeVar("_Ctx")
_Args = ParamSpec("_Args")
_Gradients = TypeVar("_Gradients")


def differentiable_once(
    backward: Callable[Concatenate[_Ctx, _Args], _Gradients],
) -> Callable[Concatenate[_Ctx, _Args], _Gradients]:
    """A ``backward`` that raises where autograd records it, for a derivative of the gradient (``create_graph=True``).

    ``torch.autograd.function.once_differentiable`` raises only in second derivatives that go through the gradient that
    came in. Those in the inputs have another way, around it, and were wrong without a word: so it is the recording
    that is refused.
    """

    @wraps(backward)
    def checked(ctx: _Ctx, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Gradients:
        if torch.is_grad_enabled():
            raise ArgumentError(
                "gradients of this model cannot be differentiated again, as create_graph=True asks for: its backward "
                "pass is made by hand; take gradients without create_graph, or the derivative of a learned operator "
                'with backend="reference", which is plain PyTorch'
            )
        return backward(ctx, *args, **kwargs)

    return checked
