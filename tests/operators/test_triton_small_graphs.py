"""Rows, operators, norms and keys of a batch of small graphs from one kernel, in Triton's interpreter."""

from tests.interpreter import run_interpreted
from tests.test_triton_pattern import GRAPHS

SMALL = """
from rfp.operator_norms import rounding_norm
from rfp.operators import OPERATORS, from_name
from rfp.operators import triton_small_graphs

triton_small_graphs._LOOKED_AT, triton_small_graphs._ADDED = 64, 16  # several blocks
hub = torch.stack([torch.zeros(99, dtype=torch.long), torch.arange(1, 100)])
GRAPHS.append(Graph(torch.cat([hub, hub.flip(0)], 1), 101))  # a row of many entries, and a node without neighbours

def dense(csr):
    return torch.from_numpy(csr.to_scipy().toarray())

for graph in GRAPHS:
    layout = sort_edges(graph).pattern
    single, double = (torch.float32, 1.2e-7, 1e-6), (torch.float64, 1e-15, 1e-12)
    for names, types in (
        (list(OPERATORS), [single, double]),
        (["normalized_laplacian"], [single]),
        (["random_walk", "normalized_adjacency"], [double]),
    ):
        for dtype, off, norms_off in types:
            keys = graph.keys
            found = triton_small_graphs.launch_small_graphs(tuple(names), graph, dtype)
            assert found.keys is graph.keys
            assert torch.equal(found.keys, keys)
            for name, csr, norm in zip(names, found.matrices(), found.norms.unbind(1), strict=True):
                assert csr.crow.equal(layout.crow) and csr.col.equal(layout.col)
                assert csr.row_lengths.equal(layout.row_lengths)
                expected = from_name(name, graph, dtype)
                assert csr.value.dtype == dtype
                torch.testing.assert_close(dense(csr), dense(expected.csr), rtol=off, atol=0)
                bound = rounding_norm(expected, graph.offsets)
                torch.testing.assert_close(norm, bound, rtol=norms_off, atol=0)
print("equal")
"""


def test_everything_is_as_by_its_plain_rule() -> None:
    """Also entries of weight zero, edges listed several times and in no order, and graphs without nodes."""
    run_interpreted(GRAPHS + SMALL)
