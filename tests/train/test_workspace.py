"""What a run is told of where it is: the time that is left, the device."""

import time

import pytest
import torch

from rfp.train import OutOfTime, Workspace


def test_after_the_deadline_nothing_is_begun() -> None:
    Workspace().check_time()
    Workspace(deadline=time.time() + 3600).check_time()
    with pytest.raises(OutOfTime, match="the time that was given is used up"):
        Workspace(deadline=time.time() - 1).check_time()


def test_the_device_is_the_one_that_was_asked_for() -> None:
    assert Workspace(device="cpu").torch_device() == torch.device("cpu")
