"""Adam of many replicas against torch's, one replica at a time."""

import pytest
import torch
from torch import nn

from rfp.train.optimizer import ReplicaAdam

LR, DECAY = (0.1, 0.01, 0.5), (0.0, 0.3, 0.01)


@pytest.mark.parametrize("decoupled", [False, True])
def test_equals_torch_for_each_replica(decoupled: bool) -> None:
    torch.manual_seed(0)
    start = [torch.randn(3, 4, 2), torch.randn(3, 5)]
    together = [nn.Parameter(p.clone()) for p in start]
    unused = nn.Parameter(torch.ones(3, 1))
    optimizer = ReplicaAdam([*together, unused], torch.tensor(LR), torch.tensor(DECAY), decoupled=decoupled)
    alone = [[nn.Parameter(p[r].clone()) for p in start] for r in range(3)]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    references = [kind(alone[r], lr=LR[r], weight_decay=DECAY[r]) for r in range(3)]
    for factor in (1.0, 1.0, 0.5, 0.25):
        optimizer.zero_grad()
        sum(p.pow(4).sum() for p in together).backward()
        optimizer.factor.fill_(factor)
        optimizer.step()
        for r, reference in enumerate(references):
            reference.param_groups[0]["lr"] = LR[r] * factor
            reference.zero_grad()
            sum(p.pow(4).sum() for p in alone[r]).backward()
            reference.step()
    for i, p in enumerate(together):
        for r in range(3):
            assert torch.allclose(p[r], alone[r][i], atol=1e-6)
    assert torch.equal(unused, torch.ones(3, 1))  # no gradient, no change, as in torch


def test_some_parameters_learn_slower() -> None:
    fast, slow = (nn.Parameter(torch.ones(2, 3)) for _ in range(2))
    optimizer = ReplicaAdam([fast, slow], torch.tensor([0.1, 0.2]), torch.zeros(2), slower={slow: 0.25})
    (fast.sum() + slow.sum()).backward()
    optimizer.step()
    # The first step of Adam is the learning rate itself, whatever the gradient.
    assert torch.allclose(1 - fast, torch.tensor([[0.1], [0.2]]).expand(2, 3), atol=1e-6)
    assert torch.allclose(1 - slow, torch.tensor([[0.025], [0.05]]).expand(2, 3), atol=1e-6)
