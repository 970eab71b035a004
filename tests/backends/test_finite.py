"""States that are not finite: an error that names the first such step, in every backend and every face."""

from __future__ import annotations

import io
import re

import pytest
import torch

import rfp
import rfp.nn
from rfp.backends.finite import FiniteWatch, NotFiniteError
from rfp.backends.problem import Problem
from rfp.graph import Graph
from rfp.operators import DenseOperator
from rfp.settings import Settings
from rfp.streaming import stream

# S^p = 1e10^p: float32 ends at 3.4e38, so step 4 is the first that is not finite; float64 at 1.8e308, step 31.
STEEP = Graph(torch.tensor([[0, 1], [1, 0]]), 2, torch.tensor([1e10, 1e10]))
ARGUMENTS = {"operators": ["adjacency"], "num_channels": 2, "distribution": "rademacher", "normalization": "none"}
BACKENDS = ["reference", "sparse", "compiled", "auto"]


def error(step: int, dtype: str = "torch.float32") -> str:
    return re.escape(f"the state of step {step} is not finite: {dtype} holds numbers up to ")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "step"), [(torch.float32, 4), (torch.float64, 31)])
def test_the_first_step_is_named(backend: str, dtype: torch.dtype, step: int) -> None:
    arguments = {**ARGUMENTS, "backend": backend, "dtype": dtype}
    assert rfp.encode(STEEP, num_steps=step - 1, **arguments).states.isfinite().all()
    with pytest.raises(NotFiniteError, match=error(step, str(dtype))):
        rfp.encode(STEEP, num_steps=40, **arguments)
    with pytest.raises(rfp.NumericalError, match=error(step, str(dtype))):
        stream(STEEP, io.BytesIO(), num_steps=40, **arguments)


@pytest.mark.parametrize("backend", ["reference", "sparse"])
@pytest.mark.parametrize("normalization", ["qr", "l2", "inverse_gram", "none"])
def test_between_two_normalisations(backend: str, normalization: str) -> None:
    arguments = {**ARGUMENTS, "backend": backend, "normalization": normalization, "normalize_every": 6}
    with pytest.raises(rfp.NumericalError, match=error(4)):
        rfp.encode(STEEP, num_steps=12, **arguments)
    with pytest.raises(rfp.NumericalError, match=error(4)):  # at the very step that is normalised
        rfp.encode(STEEP, num_steps=12, **{**arguments, "normalize_every": 4})
    S, r = rfp.operators.from_name("adjacency", STEEP), torch.ones(2, 1)
    loop = {"backend": backend, "normalization": normalization, "normalize_every": 6, "num_steps": 12}
    taken = rfp.states(S, r, **loop)
    assert all(next(taken).isfinite().all() for _ in range(4))
    with pytest.raises(rfp.NumericalError, match=error(4)):
        next(taken)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_stored_counts(backend: str) -> None:
    steep = Graph(STEEP.edge_index, 2, torch.tensor([100.0, 100.0]))
    arguments = {**ARGUMENTS, "backend": backend, "num_steps": 6}
    assert rfp.encode(steep, **arguments).states.isfinite().all()
    with pytest.raises(
        rfp.NumericalError, match=error(3, "torch.float16") + r".*a wider type \(dtype, storage_dtype\)"
    ):
        rfp.encode(steep, storage_dtype=torch.float16, **arguments)


def test_the_operator_is_named_where_there_are_several() -> None:
    arguments = {**ARGUMENTS, "operators": ["normalized_adjacency", "adjacency"], "num_steps": 5}
    for backend in BACKENDS:
        with pytest.raises(rfp.NumericalError, match="the state of step 4 of operator 1 is not finite"):
            rfp.encode(STEEP, backend=backend, **arguments)


def test_large_states_that_are_finite_pass() -> None:
    """Their sum overflows, they do not."""
    steep = Graph(torch.tensor([[0, 1], [1, 0]]), 2, torch.tensor([1.5e38, 1.5e38]))
    for backend in BACKENDS:
        features = torch.ones(2, 4)
        got = rfp.encode(steep, features=features, operators=["adjacency"], num_steps=1, normalization="none")
        assert bool((got.states[:, :, 1] > 1e38).all()), backend


def test_on_a_device_that_is_not_waited_for_the_flags_are_read_at_the_end() -> None:
    S = rfp.operators.from_name("adjacency", STEEP)
    problem = Problem.from_objects(S, torch.ones(2, 1), None, Settings(num_steps=2, normalization="none"))
    watch = FiniteWatch(problem)
    flags = [torch.tensor(True), torch.tensor(False), torch.tensor(False)]
    watch.pending = [(0, step, torch.float32, flag) for step, flag in enumerate(flags)]
    with pytest.raises(NotFiniteError, match=error(1)):
        watch.close()


def test_nothing_is_cached(tmp_path) -> None:
    with pytest.raises(rfp.NumericalError):
        rfp.encode(STEEP, num_steps=9, cache=tmp_path, **ARGUMENTS)
    assert list(tmp_path.iterdir()) == []


def watch_of(normalization: str, **settings: object) -> FiniteWatch:
    S = rfp.operators.from_name("adjacency", STEEP)
    settings = {"num_steps": 2, "normalization": normalization, **settings}
    return FiniteWatch(Problem.from_objects(S, torch.ones(2, 1), None, Settings(**settings)))


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_state_that_heals_is_seen(bad: float) -> None:
    """Under l2 a column that overflows at a node which passes nothing on is finite again at the next step."""
    storage = torch.zeros(2, 1, 1, 3, 1)
    storage[0, 0, 0, 1] = bad
    for normalization in ("l2", "none"):
        with pytest.raises(NotFiniteError, match=error(1)):
            watch_of(normalization).see_all(storage)
    with pytest.raises(NotFiniteError, match=error(1)):  # between two normalisations
        watch_of("qr", normalize_every=2).see_all(storage)


def test_the_last_of_consecutive_qr_tells_of_all() -> None:
    storage = torch.zeros(2, 1, 1, 3, 1)
    storage[:, :, :, 1:] = float("nan")
    with pytest.raises(NotFiniteError, match=error(1)):
        watch_of("qr").see_all(storage)
    FiniteWatch(Problem.from_objects(rfp.operators.from_name("adjacency", STEEP), torch.ones(2, 1), None, Settings()),
                looks=False).see_all(storage)  # fmt: skip


def learned(weight: float) -> DenseOperator:
    return DenseOperator(torch.tensor([[0.0, weight], [weight, 0.0]], requires_grad=True))


@pytest.mark.parametrize("backend", ["reference", "sparse", "auto"])
@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
def test_learned_operators_are_watched(backend: str, normalization: str) -> None:
    """Also where they are differentiated through."""
    arguments = {"num_steps": 9, "normalization": normalization, "normalize_every": 6, "backend": backend}
    assert rfp.propagate(learned(1.0), torch.ones(2, 1), **arguments).storage.requires_grad
    with pytest.raises(NotFiniteError, match=error(4)):
        rfp.propagate(learned(1e10), torch.ones(2, 1), **arguments)
    taken = rfp.states(learned(1e10), torch.ones(2, 1), **arguments)
    assert all(next(taken).isfinite().all() for _ in range(4))
    with pytest.raises(NotFiniteError, match=error(4)):
        next(taken)


class Steep(torch.nn.Module):
    """A learned operator that overflows."""

    def forward(self, x: torch.Tensor, graph: Graph) -> DenseOperator:
        return learned(1e10)


@pytest.mark.parametrize("operator", ["adjacency", Steep()])
def test_a_module_looks_in_evaluation_and_leaves_it_to_the_loss_in_training(operator: object) -> None:
    arguments = {"num_channels": 2, "num_steps": 5, "normalization": "none", "distribution": "rademacher"}
    module = rfp.nn.RandomFeaturePropagation(operators=[operator], **arguments)
    out = module.train()(STEEP, x=torch.ones(2, 1)).view(2, 6, 2)
    assert out[:, :4].isfinite().all()
    assert not out[:, 4:].isfinite().any()
    with pytest.raises(NotFiniteError, match=error(4)):
        module.eval()(STEEP, x=torch.ones(2, 1))


def test_steps_between_the_first_and_the_last_are_told_of_by_their_own_qr(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch does not read them again; what is made of them by a record is looked at in full."""
    looked: list[int] = []
    monkeypatch.setattr("rfp.backends.finite.all_finite", lambda state: looked.append(1) or True)
    operator = rfp.operators.from_matrix(torch.eye(6).to_sparse())
    start = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    list(rfp.states(operator, start, num_steps=5, backend="sparse"))
    assert len(looked) == 2
    rfp.propagate(operator, start, num_steps=5, backend="sparse", record=lambda a, ptr: 2 * a)
    assert len(looked) == 2 + 6
