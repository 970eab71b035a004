"""The ladder under torture: condition numbers to 1e8, every rank, every size; held to the reference."""

import math
from itertools import pairwise

import pytest
import torch

from rfp.backends.sparse.orthonormal import (
    Orthonormalizer,
    _condition_bound,
    cholesky_dropping,
    gram_schmidt,
    orthonormal_blocks,
)
from rfp.errors import NumericalError
from rfp.normalization import qr


def conditioned(n: int, k: int, condition: float, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """A random ``[1, n, k]`` block with singular values from 1 down to 1/condition, as a node-first view."""
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(n, k, generator=generator, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(k, k, generator=generator, dtype=torch.float64)).Q
    singular = torch.logspace(0, -torch.log10(torch.tensor(condition)).item(), k, dtype=torch.float64)
    return (left * singular @ right.T).to(dtype)[None]


def orthonormality_error(q: torch.Tensor) -> float:
    """‖QᵀQ − I‖₂ on the non-zero columns."""
    kept = q[:, q.abs().sum(0) > 0].double()
    return float(torch.linalg.matrix_norm(kept.T @ kept - torch.eye(kept.size(1), dtype=torch.float64), 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("condition", [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8])
@pytest.mark.parametrize("shape", [(20, 4), (300, 16), (5000, 32)])
def test_orthonormal_at_any_condition(shape: tuple[int, int], condition: float, dtype: torch.dtype) -> None:
    a = conditioned(*shape, condition, seed=1, dtype=dtype)
    q = Orthonormalizer.of(torch.tensor([0, shape[0]]), shape[1])(a)[0][0]
    assert orthonormality_error(q) <= (1e-5 if dtype == torch.float32 else 1e-12)
    kept = q.abs().sum(0) > 0
    if dtype == torch.float64 or condition <= 1e4:
        assert kept.all()
    # The factor is triangular with a positive diagonal: q is the Q of Gram-Schmidt, not any basis of the span.
    r = q.double().T @ a[0].double()
    scale = float(a.double().norm(dim=1).max())
    assert (r.diagonal()[kept] > 0).all()
    assert r.tril(-1).abs().max() <= scale * (1e-5 if dtype == torch.float32 else 1e-13)
    # and the columns it zeroed were within the noise of the ones it kept
    residual = a[0].double() - q.double() @ r
    assert residual.norm(dim=0).max() <= 1e-4 * scale


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-5), (torch.float64, 1e-9)])
@pytest.mark.parametrize("condition", [1.0, 30.0, 300.0])
def test_equals_the_reference_at_full_rank(condition: float, dtype: torch.dtype, tolerance: float) -> None:
    a = conditioned(80, 8, condition, seed=3, dtype=dtype)
    ptr = torch.tensor([0, 80])
    torch.testing.assert_close(Orthonormalizer.of(ptr, 8)(a)[0], qr(a, ptr)[0], atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_of_every_rank_equals_the_reference(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    blocks = []
    for n, rank in [(9, 0), (9, 1), (9, 3), (9, 6), (3, 3), (1, 1), (30, 5), (30, 6)]:
        left = torch.randn(2, n, rank, generator=generator, dtype=torch.float64)
        right = torch.randn(2, rank, 6, generator=generator, dtype=torch.float64)
        blocks.append((left @ right).to(dtype))
    ptr = torch.tensor([0, *torch.tensor([b.size(1) for b in blocks]).cumsum(0).tolist()])
    a = torch.cat(blocks, dim=1)
    q, fast = Orthonormalizer.of(ptr, 12)(a)
    expected, slow = qr(a, ptr)
    torch.testing.assert_close(q, expected, atol=1e-4 if dtype == torch.float32 else 1e-11, rtol=0)
    assert fast["dependent_columns"] == slow["dependent_columns"] == 2 * (6 + 5 + 3 + 0 + 3 + 5 + 1 + 0)


def test_report_names_the_rungs() -> None:
    ptr = torch.tensor([0, 300])
    expected = {
        (torch.float32, 1.0): "cholesky",
        (torch.float32, 1e4): "cholesky_twice",
        (torch.float32, 1e8): "cholesky_dropping",
        (torch.float64, 1.0): "cholesky",
        (torch.float64, 1e4): "cholesky_twice",
        (torch.float64, 1e8): "gram_schmidt",
    }
    for (dtype, condition), rung in expected.items():
        _, events = Orthonormalizer.of(ptr, 8)(conditioned(300, 8, condition, 5, dtype))
        assert events[rung] == 1
        assert sum(events.get(r, 0) for r in set(expected.values())) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [16, 128, 200])
def test_wide_columns_that_are_well_conditioned_take_one_pass(k: int, dtype: torch.dtype) -> None:
    a = conditioned(2000, k, 2.0, 7, dtype)
    q, events = Orthonormalizer.of(torch.tensor([0, 2000]), k)(a)
    assert events == {"cholesky": 1}
    assert orthonormality_error(q[0]) <= (1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("k", [1, 5, 64])
@pytest.mark.parametrize("condition", [1.0, 30.0, 1e5])
def test_no_condition_is_above_its_bound(k: int, condition: float) -> None:
    a = conditioned(300, k, condition, 8, torch.float64)[0]
    r = 7 * torch.linalg.qr(a).R  # of any length
    bound = float(_condition_bound(r.mT, torch.linalg.inv(r)))
    true = float(torch.linalg.cond(r))
    assert true * (1 - 1e-6) <= bound <= true * k**0.5 * (1 + 1e-6)


def test_scaling_of_columns_does_not_matter() -> None:
    a = conditioned(50, 5, 3.0, 6, torch.float32)
    scaled = a * torch.tensor([1.0, 1e2, 1e-2, 10.0, 1.0])
    ptr = torch.tensor([0, 50])
    torch.testing.assert_close(Orthonormalizer.of(ptr, 5)(scaled)[0], Orthonormalizer.of(ptr, 5)(a)[0])


def test_overflow_is_an_error_not_a_zero() -> None:
    a = torch.ones(1, 4, 2)
    a[0, 1, 1] = float("inf")
    with pytest.raises(NumericalError, match="the states are not finite"):
        Orthonormalizer.of(torch.tensor([0, 4]), 2)(a)


def test_dropping_cholesky_on_a_known_gram_matrix() -> None:
    # Columns e1, 2 e1, e1 + e2: the second depends on the first.
    g = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 2]], dtype=torch.float64)
    weight, kept, z_squared = cholesky_dropping(g, torch.tensor(1e-6, dtype=torch.float64))
    assert kept.tolist() == [True, False, True]
    torch.testing.assert_close(weight, torch.tensor([[1.0, 0, -1], [0, 0, 0], [0, 0, 1]], dtype=torch.float64))
    # R_13 = 1 and z_1 = 1: the third column carries its own noise and that of the first.
    assert z_squared.tolist() == [1.0, 0.0, 2.0]


def test_gram_schmidt_counts_what_it_drops() -> None:
    a = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], dtype=torch.float64)
    q, dropped = gram_schmidt(a, 1e-12)
    assert dropped == 1
    torch.testing.assert_close(q, torch.tensor([[1.0, 0, 0], [0, 0, 1]], dtype=torch.float64))


@pytest.mark.parametrize("k", [65, 130])
def test_panels_equal_the_columns_one_at_a_time(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    a = torch.randn(2, 90, k, dtype=torch.float64)  # for k = 130 the last forty depend on the others
    a[0, :, 3] = a[0, :, 1] + a[0, :, 2]
    a[1, :, 64] = 0
    g = a.mT @ a
    threshold = 1e-6 * g.diagonal(dim1=-2, dim2=-1).sqrt().amax(-1)
    weight, kept, spread = cholesky_dropping(g, threshold)
    monkeypatch.setattr("rfp.backends.sparse.orthonormal._PANEL", k)
    expected, expected_kept, expected_spread = cholesky_dropping(g, threshold)
    assert torch.equal(kept, expected_kept)
    assert kept.sum(-1).tolist() == [min(k - 1, 90)] * 2
    torch.testing.assert_close(weight, expected, atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(spread, expected_spread, atol=0, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "shortest"), [(torch.float32, 1e-3), (torch.float64, 1e-7)])
def test_columns_of_different_lengths_are_not_taken_for_ill_conditioned(dtype: torch.dtype, shortest: float) -> None:
    """The condition is that of the columns at unit length: one pass serves, whatever their lengths."""
    a = conditioned(60, 6, 1.5, seed=5, dtype=torch.float64)
    a = a * torch.logspace(0, torch.tensor(shortest).log10().item(), 6, dtype=torch.float64)
    ptr = torch.tensor([0, 60])
    q, events = Orthonormalizer.of(ptr, 6)(a.to(dtype))
    assert dict(events) == {"cholesky": 1}
    torch.testing.assert_close(q, qr(a, ptr)[0].to(dtype), atol=1e-6 if dtype == torch.float32 else 1e-13, rtol=0)


@pytest.mark.parametrize(("angle", "fails"), [(1e-3, True), (1.55, False)])
def test_a_second_pass_does_not_begin_far_from_orthonormal(angle: float, fails: bool) -> None:
    """Two columns that are nearly parallel have a Cholesky factor too; what it makes of them is for the next rung."""
    q = torch.zeros(1, 6, 2, dtype=torch.float64)
    q[0, 0, 0] = 1.0
    q[0, 0, 1], q[0, 1, 1] = math.cos(angle), math.sin(angle)
    ladder = Orthonormalizer.of(torch.tensor([0, 6]), 2)
    identity = torch.eye(2, dtype=torch.float64)[None, None]
    again, _, failed = ladder._again(q, identity, torch.ones(1, 1, dtype=torch.bool))
    assert failed.tolist() == [[fails]]
    assert torch.equal(again, q) == fails  # of a failed pass nothing is kept
    if not fails:
        assert orthonormality_error(again[0]) < 1e-14


@pytest.mark.parametrize("condition", [1e0, 1e2, 1e4, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("shape", [(20, 4), (300, 16), (5000, 32)])
def test_blocks_without_looking_at_any_condition(shape: tuple[int, int], condition: float) -> None:
    a = torch.stack([conditioned(*shape, condition, seed=seed, dtype=torch.float32) for seed in (1, 2)])
    q, weight, kept = orthonormal_blocks(a)
    torch.testing.assert_close(a.double() @ weight, q, atol=1e-6, rtol=0)
    for g in range(2):
        assert orthonormality_error(q[g, 0]) <= 1e-8
        assert torch.equal(q[g, 0].abs().sum(0) > 0, kept[g, 0])
        r = q[g, 0].T @ a[g, 0].double()
        scale = float(a[g].double().norm(dim=1).max())
        assert r.tril(-1).abs().max() <= scale * 1e-5
        assert (r.diagonal()[kept[g, 0]] > 0).all()
        assert (a[g, 0].double() - q[g, 0] @ r).norm(dim=0).max() <= 1e-4 * scale
    if condition <= 1e4:
        assert kept.all()


def test_blocks_without_looking_equal_the_ladder() -> None:
    """Every rank, and a block of zeros; one that is not finite becomes NaN and leaves the others alone."""
    generator = torch.Generator().manual_seed(4)
    a = torch.randn(5, 2, 12, 6, generator=generator)
    a[1, 0, :, 2:] = a[1, 0, :, :2] @ torch.randn(2, 4, generator=generator)
    a[2] = 0
    a[3, 1, :, 3] = 0
    rows = a.transpose(1, 2).reshape(60, 2, 6).transpose(0, 1)  # [B, n, k]
    expected, events = Orthonormalizer.of(torch.arange(0, 61, 12), 12)(rows)
    q, _, kept = orthonormal_blocks(a)
    found = q.transpose(1, 2).reshape(60, 2, 6).transpose(0, 1)
    torch.testing.assert_close(found.float(), expected, atol=2e-5, rtol=0)
    assert int((~kept).sum()) == events["dependent_columns"]
    a[4, 1, 3, 2] = math.inf
    again, _, _ = orthonormal_blocks(a)
    assert again[4, 1].isnan().all()
    assert torch.equal(again[:4], q[:4])
    assert torch.equal(again[4, 0], q[4, 0])


def wide(case: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """More columns than nodes: ``[1, n, k]`` and ptr."""
    generator = torch.Generator().manual_seed(11)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    sizes = [6, 1, 9, 0, 4]
    ptr = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()])
    parts = [normal(n, 20) for n in sizes]
    if case == "one graph":
        ptr, parts = torch.tensor([0, 7]), [normal(7, 40)]
    if case == "rank two":  # as S a of a star: no number of columns spans its nodes
        parts = [normal(n, min(n, 2)) @ normal(min(n, 2), 20) for n in sizes]
    if case == "later columns zero":  # as after one normalisation
        parts = [torch.cat([part[:, :9], torch.zeros(len(part), 11, dtype=torch.float64)], 1) for part in parts]
        parts[0][:, 3] = parts[0][:, 2]
    if case in ("leading columns equal", "leading columns zero"):  # so that later ones are independent
        parts[2][:, :8] = parts[2][:, :1] if case == "leading columns equal" else 0
    if case == "later columns large":  # beside which the leading ones are zero
        parts[0][:, 15] = 1e13 * parts[0][:, 15]
    return torch.cat(parts)[None].to(dtype), ptr


# Whether the leading columns, as many as the largest graph has nodes, are enough.
ENOUGH = {
    "many graphs": True,
    "one graph": True,
    "rank two": True,
    "later columns zero": True,
    "leading columns equal": False,
    "leading columns zero": False,
    "later columns large": False,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", ENOUGH)
def test_more_columns_than_nodes(case: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    a, ptr = wide(case, dtype)
    ladder = Orthonormalizer.of(ptr, a.size(2))
    widths: list[int] = []
    whole = Orthonormalizer._ladder

    def watched(self: Orthonormalizer, a: torch.Tensor, limits: object) -> object:
        widths.append(a.size(2))
        return whole(self, a, limits)  # type: ignore[arg-type]

    monkeypatch.setattr(Orthonormalizer, "_ladder", watched)
    step = ladder.step(a)
    expected, events = qr(a, ptr)
    torch.testing.assert_close(step.state, expected, atol=2e-5 if dtype == torch.float32 else 1e-9, rtol=0)
    assert step.events["dependent_columns"] == events["dependent_columns"]
    largest = int(ptr.diff().max())
    assert widths == ([largest] if ENOUGH[case] else [largest, a.size(2)])
    if step.factor is not None:
        assert step.factor.shape == (len(ptr) - 1, 1, a.size(2), a.size(2))
        for graph, (start, stop) in enumerate(pairwise(ptr.tolist())):
            product = a[0, start:stop].double() @ step.factor[graph, 0]
            torch.testing.assert_close(product, step.state[0, start:stop].double(), atol=1e-5, rtol=0)


def test_more_columns_than_nodes_that_are_not_finite() -> None:
    a, ptr = wide("many graphs", torch.float32)
    for column in (0, 19):
        broken = a.clone()
        broken[0, 2, column] = torch.inf
        with pytest.raises(NumericalError):
            Orthonormalizer.of(ptr, 20)(broken)
