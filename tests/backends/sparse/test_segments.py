"""Per-graph products against a loop over the graphs."""

import pytest
import torch

from rfp.backends.sparse.segments import Segments


@pytest.mark.parametrize("sizes", [[3, 0, 7, 1, 40, 2], [5, 5, 5]])
def test_gram_norms_and_apply_equal_a_loop_over_graphs(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.backends.sparse.segments._COPIES_ON", ("cpu",))  # those of equal size are a plain batch
    generator = torch.Generator().manual_seed(0)
    ptr = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()])
    a = torch.randn(int(ptr[-1]), 2, 4, generator=generator).transpose(0, 1)
    weight = torch.randn(len(sizes), 2, 4, 4, generator=generator, dtype=torch.float64).triu()
    segments = Segments(ptr, 8)
    assert segments.equal == (len(set(sizes)) == 1)
    gram, norms, product = segments.gram(a), segments.norms(a), segments.apply(a, weight)
    for g in range(len(sizes)):
        rows = a[:, ptr[g] : ptr[g + 1]].double()
        torch.testing.assert_close(gram[g], rows.mT @ rows)
        torch.testing.assert_close(norms[g], rows.square().sum((1, 2)).sqrt())
        expected = (rows @ weight[g]).float()
        torch.testing.assert_close(product[:, ptr[g] : ptr[g + 1]], expected)
    assert product.transpose(0, 1).is_contiguous()


@pytest.mark.parametrize("compiled", [True, False])
def test_one_graph(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr("rfp.backends.sparse.segments.compiled_available", lambda: False)
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(40_000, 2, 5, generator=generator).transpose(0, 1)
    weight = torch.randn(1, 2, 5, 5, generator=generator, dtype=torch.float64).triu()
    segments = Segments(torch.tensor([0, 40_000]), 10)
    torch.testing.assert_close(segments.gram(a)[0], a.double().mT @ a.double())
    torch.testing.assert_close(segments.apply(a, weight), (a.double() @ weight[0]).float())


def test_many_chunks() -> None:
    ptr = torch.arange(0, 60_001, 20)
    a = torch.ones(1, 60_000, 16)
    gram = Segments(ptr, 16).gram(a)
    assert gram.shape == (3000, 1, 16, 16)
    assert (gram == 20).all()


def test_products_are_exact_where_tf32_is_allowed() -> None:
    import rfp
    from rfp.bench.generated_graphs import power_law
    from rfp.precision import matmul_precision

    device = "cuda" if torch.cuda.is_available() else "cpu"
    graph = power_law(3000, 12_000).to(device)
    with matmul_precision("high"):
        t = rfp.encode(graph, num_channels=32, num_steps=3, num_trajectories=2, backend="sparse")
        assert torch.get_float32_matmul_precision() == "high"
    q = t.states[:, :, -1].double()
    torch.testing.assert_close(
        q.mT @ q, torch.eye(32, dtype=torch.float64, device=device).expand(2, -1, -1), atol=1e-5, rtol=0
    )
