"""The kernel equals the column-by-column definition, on a GPU or in Triton's interpreter (a process of its own)."""

import torch

from tests.interpreter import run_interpreted, run_script

SCRIPT = """
import torch
from rfp.backends.sparse.orthonormal import cholesky_dropping
from rfp.backends.sparse import triton_dropping
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
for k in (1, 2, 5, 16):
    a = torch.randn(3, 2, 20, k, dtype=torch.float64)
    a[0, 0, :, k // 2] = a[0, 0, :, 0]       # dependent (or itself, for k = 1)
    a[1, 1] = 0                               # nothing at all
    a[2, 0, :, -1] = a[2, 0, :, :-1].sum(-1)  # dependent on all before; zero for k = 1
    g = a.mT @ a
    threshold = 1e-5 * g.diagonal(dim1=-2, dim2=-1).sqrt().amax(-1)
    noise = torch.rand(3, 2).double() * 3 * (a.norm(dim=-2).amin(-1) > 0)  # up to half of a column
    before = 1 + torch.rand(3, 2, k).double()
    for level in (noise, torch.zeros_like(noise)):
        want, want_kept, want_spread = cholesky_dropping(g, threshold, level, before)
        arguments = [x.to(device) for x in (g, threshold, level, before)]
        got, got_kept, got_spread = triton_dropping.launch_cholesky_dropping(*arguments)
        assert torch.equal(got_kept.cpu(), want_kept), k
        torch.testing.assert_close(got_spread.cpu(), want_spread, atol=1e-10, rtol=1e-8)
    torch.testing.assert_close(got.cpu(), want, atol=1e-10, rtol=1e-8)
    q = a @ got.cpu()
    identity = torch.diag_embed(want_kept.double())
    torch.testing.assert_close(q.mT @ q, identity, atol=1e-8, rtol=0)
nothing = torch.zeros(0, 4, 4, dtype=torch.float64, device=device)
nobody = torch.zeros(0, dtype=torch.float64, device=device)
empty, _, _ = triton_dropping.launch_cholesky_dropping(nothing, nobody, nobody, nothing[..., 0])
assert empty.shape == (0, 4, 4)
print("equal")
"""


def test_equals_the_definition() -> None:
    (run_script if torch.cuda.is_available() else run_interpreted)(SCRIPT)
