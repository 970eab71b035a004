"""Offsets and graph numbers of a batch: what says which node is of which graph, and what cannot."""

import pytest
import torch

from rfp.errors import GraphError
from rfp.node_offsets import check_batch, check_offsets, check_offsets_form, offsets_of_batch


@pytest.mark.parametrize("ptr", [[0, 5], [0, 2, 5], [0, 0, 5, 5]])
def test_offsets_cut_all_nodes_into_graphs_of_any_size(ptr: list[int]) -> None:
    check_offsets(torch.tensor(ptr), 5)  # does not raise
    for one_more in (4, 6):
        with pytest.raises(GraphError, match=f"end at num_nodes={one_more}, got "):
            check_offsets(torch.tensor(ptr), one_more)


@pytest.mark.parametrize("ptr", [[1, 5], [-1, 5], [0, 3, 2, 5], [0, 6, 5]])
def test_offsets_start_at_0_and_never_fall(ptr: list[int]) -> None:
    with pytest.raises(GraphError, match="ptr must start at 0, never fall and end at num_nodes=5"):
        check_offsets(torch.tensor(ptr), 5)


@pytest.mark.parametrize("ptr", [torch.tensor([0.0, 5.0]), torch.tensor([[0, 5]]), torch.tensor([]), torch.ones(2) > 0])
def test_offsets_are_integers_in_a_row(ptr: torch.Tensor) -> None:
    for check in (check_offsets_form, lambda ptr: check_offsets(ptr, 5)):
        with pytest.raises(GraphError, match=r"ptr must hold num_graphs \+ 1 integers, got torch"):
            check(ptr)


def test_graph_numbers_ascend() -> None:
    for batch in ([0, 0, 1], [0, 2, 2], [1, 1, 1]):  # graphs may be empty
        check_batch(torch.tensor(batch), 3, values=True)
    for batch in ([0, 1, 0], [-1, 0, 0]):
        with pytest.raises(GraphError, match="batch must ascend from 0"):
            check_batch(torch.tensor(batch), 3, values=True)
        check_batch(torch.tensor(batch), 3, values=False)  # which would be read from a GPU
    for wrong in (torch.zeros(2).long(), torch.zeros(3), torch.zeros(3) > 0, torch.zeros(3, 1).long()):
        with pytest.raises(GraphError, match="batch must have the graph number of each of the 3 nodes"):
            check_batch(wrong, 3, values=False)


def test_of_offsets_and_graph_numbers_that_differ_the_numbers_count_unless_both_are_given() -> None:
    batch = torch.tensor([0, 0, 2])
    assert offsets_of_batch(batch, None).tolist() == [0, 2, 2, 3]
    for agreeing in ([0, 2, 2, 3], [0, 2, 2, 3, 3]):  # a last graph may be empty
        ptr = torch.tensor(agreeing)
        assert offsets_of_batch(batch, ptr, given=True) is ptr
    old = torch.tensor([0, 3, 5, 6])
    assert offsets_of_batch(batch, old).tolist() == [0, 2, 2, 3]
    with pytest.raises(GraphError, match="do not say the same of which node is of which graph"):
        offsets_of_batch(batch, old, given=True)
