"""The kernel of Adam equals the plain form: in Triton's interpreter, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

from tests.interpreter import run_interpreted, run_script

triton = pytest.importorskip("triton")

SCRIPT = """
import torch
from torch import nn
from rfp.train.optimizer import ReplicaAdam

device = "cuda" if torch.cuda.is_available() else "cpu"
# Weights of one replica: none, one, fewer than a block, a block, more than one; a matrix; one that gets no gradient.
SHAPES = [(0,), (1,), (5,), (1024,), (1500,), (16, 3), (4,)]


def run(by_kernel, decoupled, replicas):
    torch.manual_seed(replicas)
    parameters = [nn.Parameter(torch.randn(replicas, *shape).to(device)) for shape in SHAPES]
    lr, decay = 0.3 * torch.rand(replicas).to(device), torch.rand(replicas).to(device)
    decay[0] = 0
    adam = ReplicaAdam(parameters, lr, decay, decoupled=decoupled, slower={parameters[4]: 0.25, parameters[2]: 0.0})
    adam.keep()
    for step in range(4):
        for p in parameters[:-1]:
            p.grad = torch.randn(p.shape).to(device)
            p.grad[..., :1] = 0  # a weight that is never used
        if step == 2:
            parameters[3].grad[0] = torch.nan  # a replica that diverges
        better = torch.rand(replicas).to(device) < 0.5
        adam.factor.fill_(0.5 ** step)
        adam.step(better if step != 3 else None, by_kernel=by_kernel)
    assert torch.equal(adam.kept[-1], parameters[-1].detach())
    return [*parameters, *adam.first, *adam.second, *adam.kept]


for decoupled in (False, True):
    for replicas in (1, 3):
        found, right = (run(kernel, decoupled, replicas) for kernel in (True, False))
        for one, other in zip(found, right):
            torch.testing.assert_close(one, other, rtol=2e-6, atol=1e-6, equal_nan=True)
print("equal")
"""


def test_equals_the_plain_form() -> None:
    run_interpreted(SCRIPT)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_equals_the_plain_form_on_a_gpu() -> None:
    run_script(SCRIPT)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_is_valid_for_a_gpu(decoupled: bool, keep: bool) -> None:
    from triton.runtime.jit import JITFunction

    from rfp.train import triton_replica_adam
    from tests.first_stage import check

    kernel = triton_replica_adam.replica_adam_kernel
    if not isinstance(kernel, JITFunction):
        pytest.skip("the interpreter was chosen")
    types = {
        **dict.fromkeys(("p", "g", "m", "v", "kept", "rate", "decay"), "*fp32"),
        "better": "*i8" if keep else "*fp32",
        "root": "*fp64",
        "size": "i32",
        "slower": "fp32",
    }
    constants = {"BETA_1": 0.9, "BETA_2": 0.999, "EPS": 1e-8, "DECOUPLED": decoupled, "KEEP": keep, "BLOCK": 1024}
    text = check(kernel, types, constants)
    # Everything is written once; what is kept is not read.
    assert text.count("tt.store") == (4 if keep else 3)
