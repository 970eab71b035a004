"""The look at Adam's kernel before it counts: a right one is taken, a wrong one is not and is reported."""

from __future__ import annotations

from tests.interpreter import run_interpreted

LOOK = """
import warnings
import torch
from torch import nn
from rfp.train import adam_agrees, triton_replica_adam
from rfp.train.optimizer import ReplicaAdam

adam_agrees.kernel_takes = lambda parameters: True
adam_agrees._SIZES = (1, 40)
right = triton_replica_adam.launch_replica_adam
calls = []


def updated(launch, decoupled=False):
    triton_replica_adam.launch_replica_adam = launch
    p = nn.Parameter(torch.linspace(1, 2, 6).view(2, 3))
    adam = ReplicaAdam([p], torch.tensor([0.1, 0.2]), torch.tensor([0.3, 0.0]), decoupled=decoupled)
    adam.keep()
    for _ in range(2):
        p.grad = p.detach() ** 2
        adam.step(torch.tensor([True, False]), by_kernel=adam_agrees.kernel_updates(adam))
    return torch.cat([p.detach(), *adam.kept])


def counted(p, *others, **more):
    calls.append(p.shape)
    right(p, *others, **more)


expected = {}
for decoupled in (False, True):
    adam_agrees.kernel_takes = lambda parameters: False
    expected[decoupled] = updated(right, decoupled)
    adam_agrees.kernel_takes = lambda parameters: True
    # A right kernel is looked at once, and then used.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls.clear()
        torch.testing.assert_close(updated(counted, decoupled), expected[decoupled])
        assert calls[-2:] == [(2, 3)] * 2 and len(calls) == 2 + 2 * adam_agrees._STEPS, calls
        updated(counted, decoupled)
        assert len(calls) == 4 + 2 * adam_agrees._STEPS, calls


def too_far(p, moments, *others, **more):
    right(p, moments, *others, **{**more, "rate": 1.001 * more["rate"]})


def keeps_all(p, moments, kept, **more):
    right(p, moments, kept and (kept[0], torch.ones_like(kept[1])), **more)


def not_a_number(p, moments, kept, **more):
    right(p, moments, kept, **more)
    moments[1].fill_(torch.nan)


# A wrong one: the plain form is taken, and it is said once.
for wrong in (too_far, keeps_all, not_a_number):
    adam_agrees._looks.known.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            assert torch.equal(updated(wrong), expected[False])
    assert len(said) == 1 and "wrong on cpu" in str(said[0].message), [str(one.message) for one in said]
print("equal")
"""


def test_the_kernel_is_looked_at_before_it_counts() -> None:
    run_interpreted(LOOK)
