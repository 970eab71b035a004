"""Eq. 1-2 by hand and against textbook subspace iteration."""

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.backends.sparse.fast_loop import sparse_steps
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, GraphError, NumericalError
from rfp.one_loop import states
from rfp.operators import DenseOperator, from_matrix, from_name
from rfp.propagate import propagate
from rfp.report import Report

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


def test_a_record_hook_keeps_the_backend_that_was_asked_for() -> None:
    hat, r = from_name("normalized_adjacency", KARATE), features(34, 4, 1, torch.float32)

    def double(a: torch.Tensor, ptr: torch.Tensor) -> torch.Tensor:
        return 2 * a

    for backend in ("reference", "sparse"):
        got = propagate(hat, r, num_steps=2, record=double, backend=backend)
        assert got.report.backend == backend
        torch.testing.assert_close(got.states, 2 * propagate(hat, r, num_steps=2, backend=backend).states)
    assert propagate(hat, r, num_steps=2, record=double).report.backend == "sparse"
    with pytest.raises(ArgumentError, match=r"backend must be one of .*, got 'nonsense'"):
        propagate(hat, r, num_steps=2, record=double, backend="nonsense")
    with pytest.raises(ArgumentError, match='"compiled" computes whole trajectories and cannot go step by step'):
        propagate(hat, r, num_steps=2, record=double, backend="compiled")


@pytest.mark.parametrize("ptr", [[0, 20], [3, 34], [0, 40], [0, 20, 10, 34], [0, 20, 40], [0] * 20 + [1] * 14])
def test_offsets_that_do_not_cut_the_nodes_into_graphs_are_refused(ptr: list[int]) -> None:
    hat, r = from_name("normalized_adjacency", KARATE), features(34, 4)
    with pytest.raises(GraphError, match="ptr must start at 0, never fall and end at num_nodes=34"):
        propagate(hat, r, ptr=torch.tensor(ptr), num_steps=1)
    with pytest.raises(GraphError, match="ptr must start at 0, never fall and end at num_nodes=34"):
        next(states(hat, r, ptr=torch.tensor(ptr), num_steps=1))


def test_an_operator_that_joins_graphs_is_refused() -> None:
    hat, r = from_name("normalized_adjacency^2", KARATE), features(34, 4)
    for normalization in ("none", "qr"):
        with pytest.raises(GraphError, match="joins the nodes 0 and 10"):
            propagate(hat, r, ptr=torch.tensor([0, 10, 34]), num_steps=1, normalization=normalization)


def test_states_by_a_backend_that_cannot_step_are_refused() -> None:
    hat, r = from_name("normalized_adjacency", KARATE), features(34, 4, 1, torch.float32)
    with pytest.raises(ArgumentError, match='use backend="auto" or one of "cuda_sparse", "sparse", "reference"'):
        next(iter(states(hat, r, num_steps=2, backend="compiled")))
    with pytest.raises(ArgumentError, match="backend must be one of"):
        next(iter(states(hat, r, num_steps=2, backend="nonsense")))
    assert len(list(states(hat, r, num_steps=2))) == 3


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
def test_progress_is_one_for_each_step_of_each_operator(backend: str) -> None:
    operators = [from_name(name, KARATE) for name in ("adjacency", "normalized_adjacency")]
    told: list[int] = []
    propagate(operators, features(34, 4, 1, torch.float32), num_steps=3, backend=backend, progress=told.append)
    assert told == [1] * 6


def test_progress_with_a_learned_operator() -> None:
    matrix = torch.randn(34, 34, generator=torch.Generator().manual_seed(0)).requires_grad_()
    told: list[int] = []
    out = propagate(DenseOperator(matrix), features(34, 4, 2, torch.float32), num_steps=3, progress=told.append)
    assert told == [1, 1, 1]
    assert out.storage.shape == (34, 2, 1, 4, 4)
    assert out.states.requires_grad


def test_several_learned_operators_lie_where_they_belong() -> None:
    generator = torch.Generator().manual_seed(1)
    matrices = [torch.randn(34, 34, generator=generator).requires_grad_() for _ in range(2)]
    r = features(34, 3, 2, torch.float32)
    both = propagate([DenseOperator(matrix) for matrix in matrices], r, num_steps=2, normalization="none").storage
    for o, matrix in enumerate(matrices):
        torch.testing.assert_close(both[:, :, o, 0].transpose(0, 1), r)
        torch.testing.assert_close(both[:, :, o, 2].transpose(0, 1), matrix @ (matrix @ r))


@pytest.mark.parametrize("normalize_every", [1, 2])
def test_a_step_comes_with_the_factor_that_made_it(normalize_every: int) -> None:
    from rfp.backends.problem import Problem
    from rfp.settings import Settings

    graph = as_graph([nx.karate_club_graph(), nx.path_graph(5), nx.star_graph(3)])  # more channels than nodes
    S, r = from_name("normalized_adjacency", graph), rfp.random_features(graph, num_channels=6, num_trajectories=2)
    problem = Problem.from_objects(S, r, graph.offsets, Settings(num_steps=4, normalize_every=normalize_every))
    before = None
    for p, step in enumerate(sparse_steps(problem, S)):
        assert (step.factor is None) == (p == 0 or p % normalize_every != 0)
        if step.factor is not None:
            assert step.factor.shape == (3, 2, 6, 6)
            for g in range(3):
                rows = slice(int(graph.offsets[g]), int(graph.offsets[g + 1]))
                product = (S.to_dense() @ before)[:, rows].double()
                torch.testing.assert_close(product @ step.factor[g], step.state[:, rows].double(), atol=2e-5, rtol=1e-4)
        before = step.state


@pytest.mark.parametrize("fallback", ["cholesky_dropping", "gram_schmidt"])
def test_strict_refuses_a_fallback_without_dependent_columns(fallback: str) -> None:
    with pytest.raises(NumericalError, match=f"{fallback} was needed"):
        Report("sparse", "requested", [{fallback: 1}]).check_strict()
    Report("sparse", "requested", [{"cholesky": 3, "cholesky_twice": 1}]).check_strict()
