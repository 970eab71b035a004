"""Which nodes are of which graph of a batch: ``ptr``, the first node of each, and ``batch``, the graph of each node.

Kernels look up what they are given and check no index, so both are looked at where they come in.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rfp.errors import GraphError
from rfp.ragged import offsets


def check_offsets_form(ptr: Tensor) -> None:
    """Raise where node offsets have a shape or a type that offsets cannot have; nothing is read."""
    if ptr.dim() != 1 or not ptr.numel() or ptr.is_floating_point() or ptr.dtype == torch.bool:
        raise GraphError(f"ptr must hold num_graphs + 1 integers, got {ptr.dtype} of shape {list(ptr.shape)}")


def check_offsets(ptr: Tensor, num_nodes: int) -> None:
    """Raise where node offsets do not cut so many nodes into graphs; a GPU is waited for."""
    check_offsets_form(ptr)
    if int(ptr[0]) or int(ptr[-1]) != num_nodes or bool((ptr.diff() < 0).any()):
        raise GraphError(f"ptr must start at 0, never fall and end at num_nodes={num_nodes}, got {ptr.tolist()[:4]}...")


def check_batch(batch: Tensor, num_nodes: int, *, values: bool) -> None:
    """Raise where the graph numbers of nodes have a shape or a type that those cannot have, or do not ascend.

    Args:
        batch: Graph number of each node.
        num_nodes: How many nodes there are.
        values: Whether to look at the numbers, for which a GPU would be waited for.
    """
    if batch.shape != (num_nodes,) or batch.is_floating_point() or batch.dtype == torch.bool:
        raise GraphError(
            f"batch must have the graph number of each of the {num_nodes} nodes, got {batch.dtype} of shape "
            f"{list(batch.shape)}"
        )
    if values and num_nodes and (int(batch[0]) < 0 or bool((batch.diff() < 0).any())):
        raise GraphError("batch must ascend from 0, since the nodes of a graph stand together; sort the nodes by graph")


def offsets_of_batch(batch: Tensor, ptr: Tensor | None, *, given: bool = False) -> Tensor:
    """Node offsets of a batch that was checked: ``ptr``, or what ``batch`` says where that is another or there is none.

    Args:
        batch: Graph number of each node.
        ptr: ``[num_graphs + 1]``.
        given: Whether ``ptr`` was given for this call: it is refused then if it is another. That of a PyG object may
            be an old one: its ``subgraph`` and ``max_pool`` leave that there, or none.
    """
    if ptr is None:
        return offsets(torch.bincount(batch))
    counted = torch.bincount(batch, minlength=ptr.numel() - 1)
    if torch.equal(counted, ptr.diff().to(counted.device)):
        return ptr
    if given:
        raise GraphError("batch and ptr do not say the same of which node is of which graph; give one of them alone")
    return offsets(counted)
