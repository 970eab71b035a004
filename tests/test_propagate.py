"""Eq. 1-2 by hand and against textbook subspace iteration."""

import networkx as nx
import numpy as np
import pytest
import torch

from rfp.conversion import as_graph
from rfp.errors import ArgumentError, NumericalError
from rfp.operators import DenseOperator, from_matrix, from_name
from rfp.propagate import Report, propagate, states

KARATE = as_graph(nx.Graph(nx.karate_club_graph().edges))


def features(n: int, k: int, b: int = 1, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).standard_normal((b, n, k))).to(dtype)


def test_states_by_hand() -> None:
    # S doubles and swaps; l2 every second step.
    swap = from_matrix(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
    steps = states(swap, torch.tensor([[3.0], [4.0]]), num_steps=3, normalization="l2", normalize_every=2)
    expected = [[3, 4], [8, 6], [0.6, 0.8], [1.6, 1.2]]
    for a, row in zip(steps, expected, strict=True):
        assert a.shape == (1, 2, 1)
        torch.testing.assert_close(a.flatten(), torch.tensor(row, dtype=torch.float32))


@pytest.mark.parametrize("every", [1, 2, 5])
def test_trajectory_against_numpy(every: int) -> None:
    hat = from_name("normalized_adjacency", KARATE, torch.float64)
    matrix, r = hat.to_dense().numpy(), features(34, 5, 2)
    trajectory = propagate(hat, r, num_steps=6, normalize_every=every)
    for b in range(2):
        a = r[b].numpy()
        for p in range(1, 7):
            a = matrix @ a
            if p % every == 0:
                a, upper = np.linalg.qr(a)
                a = a * np.sign(np.diag(upper))
            np.testing.assert_allclose(trajectory.states[b, :, p], a, atol=1e-9)


def test_several_operators_keep_their_trajectories_contiguous_in_flat() -> None:
    operators = [from_name(name, KARATE, torch.float64) for name in ("normalized_adjacency", "normalized_laplacian")]
    r = features(34, 3, 2)
    both = propagate(operators, r, num_steps=4)
    assert both.states.shape == (2, 34, 5, 6)
    assert both.flat().shape == (2, 34, 30)
    assert both.node_first().shape == (34, 2, 30)
    for o, operator in enumerate(operators):
        alone = propagate(operator, r, num_steps=4)
        torch.testing.assert_close(both.flat()[..., 15 * o : 15 * (o + 1)], alone.flat())
        torch.testing.assert_close(both.states[..., 3 * o : 3 * (o + 1)], alone.states)
    # r ⊕ a1 ⊕ ...: channel c of step p is column 3 p + c
    torch.testing.assert_close(both.flat()[0, :, :3], r[0])
    torch.testing.assert_close(both.flat()[1, :, 7], both.states[1, :, 2, 1])
    torch.testing.assert_close(both.last(), both.states[:, :, 4])
    assert propagate(operators[0], r[:1], num_steps=4).node_first().shape == (34, 15)


def test_zero_steps_is_the_features() -> None:
    r = features(34, 3, 2, torch.float32)
    trajectory = propagate(from_name("adjacency", KARATE), r, num_steps=0)
    assert torch.equal(trajectory.states[:, :, 0], r)


def test_streaming_equals_keeping() -> None:
    hat, r = from_name("normalized_adjacency", KARATE), features(34, 4, 2, torch.float32)
    kept = propagate(hat, r, num_steps=5, backend="sparse").states
    for p, a in enumerate(states(hat, r, num_steps=5, backend="sparse")):
        assert torch.equal(a, kept[:, :, p])


def test_subspace_iteration_finds_the_eigenvectors() -> None:
    matrix = torch.diag(torch.tensor([9.0, -5.0, 2.0, 0.5], dtype=torch.float64))
    last = propagate(DenseOperator(matrix), features(4, 2), num_steps=60).last()[0]
    torch.testing.assert_close(last.abs(), torch.eye(4, 2, dtype=torch.float64), atol=1e-9, rtol=0)


def test_record_keeps_another_form_than_it_carries() -> None:
    hat, r = from_name("normalized_adjacency", KARATE, torch.float64), features(34, 3)
    plain = propagate(hat, r, num_steps=3, normalization="none").states
    doubled = propagate(hat, r, num_steps=3, normalization="none", record=lambda a, ptr: 2 * a).states
    torch.testing.assert_close(doubled, 2 * plain)
    streamed = list(states(hat, r, num_steps=3, normalization="none", record=lambda a, ptr: 2 * a))
    torch.testing.assert_close(streamed[3], 2 * plain[:, :, 3])


def test_gradients_only_through_a_learned_operator() -> None:
    matrix = torch.rand(6, 6, dtype=torch.float64, requires_grad=True)
    r = features(6, 2)
    learned = propagate(DenseOperator(matrix), r, num_steps=2)
    (learned.states * features(6, 2, 1)[:, :, None]).sum().backward()
    assert matrix.grad is not None
    assert torch.autograd.gradcheck(
        lambda m: propagate(DenseOperator(m), r, num_steps=2).states, matrix.detach().requires_grad_()
    )
    leaf = r.clone().requires_grad_()
    fixed = propagate(DenseOperator(matrix.detach()), leaf, num_steps=2)
    assert not fixed.states.requires_grad


def test_half_precision_is_for_storage_only() -> None:
    hat, r = from_name("normalized_adjacency", KARATE), features(34, 4, 1, torch.float32)
    half = propagate(hat, r, num_steps=5, storage_dtype=torch.float16)
    full = propagate(hat, r, num_steps=5)
    assert half.storage.dtype == torch.float16
    assert torch.equal(half.storage, full.storage.half())
    with pytest.raises(ArgumentError, match="floating-point"):
        propagate(hat, r, num_steps=1, storage_dtype=torch.int32)


def test_strict_raises_where_columns_depend() -> None:
    star = from_name("adjacency", as_graph(nx.star_graph(5)))  # rank 2
    r = features(6, 3, 1, torch.float32)
    report = propagate(star, r, num_steps=2).report
    assert report.dependent_columns == 2
    with pytest.raises(NumericalError, match="2 dependent columns"):
        propagate(star, r, num_steps=2, strict=True)
    with pytest.raises(NumericalError, match="1 dependent columns"):
        list(states(star, r, num_steps=2, strict=True))
    propagate(star, r[..., :2], num_steps=2, strict=True)


def test_progress_counts_every_step() -> None:
    calls: list[int] = []
    hat, r = from_name("normalized_adjacency", KARATE), features(34, 2, 1, torch.float32)
    for backend in ("sparse", "auto"):
        calls.clear()
        propagate([hat, hat], r, num_steps=4, progress=calls.append, backend=backend)
        assert sum(calls) == 8


@pytest.mark.parametrize("fallback", ["cholesky_dropping", "gram_schmidt"])
def test_strict_refuses_a_fallback_without_dependent_columns(fallback: str) -> None:
    with pytest.raises(NumericalError, match=f"{fallback} was needed"):
        Report("sparse", "requested", [{fallback: 1}]).check_strict()
    Report("sparse", "requested", [{"cholesky": 3, "cholesky_twice": 1}]).check_strict()
