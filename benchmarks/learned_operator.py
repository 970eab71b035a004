"""Forward and backward of a learned operator in each of its forms: time and peak memory against n.

    python benchmarks/learned_operator.py --device cuda --nodes 1000 4000 19717 100000
    python benchmarks/learned_operator.py --nodes 500 2000 --repeats 1          # a quick look on a CPU

Writes ``benchmarks/results/learned-operator-<machine>.csv``. The forms are compared with the dense one first; a form
that differs, or runs out of memory, is reported by name and not timed.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path

import torch

from rfp.bench.measure import measure
from rfp.environment import environment, slug
from rfp.graph import Graph
from rfp.nn import LearnedOperator, RandomFeaturePropagation

FORMS = {"dense": ("dense", "auto"), "blocks": ("implicit", "blocks"), "sdpa": ("implicit", "sdpa")}


def ring(n: int, device: str) -> Graph:
    source = torch.arange(n, device=device)
    target = (source + 1) % n
    return Graph(torch.stack([torch.cat([source, target]), torch.cat([target, source])]), n)


def step(form: str, n: int, args: argparse.Namespace) -> Callable[[], list[torch.Tensor]]:
    """One training step's worth: encode with S^learn and differentiate; returns the parameters' gradients."""
    torch.manual_seed(0)
    kind, kernel = FORMS[form]
    module = LearnedOperator(args.features, form=kind, kernel=kernel).to(args.device)
    encoder = RandomFeaturePropagation(
        args.channels, num_steps=args.steps, operators=[module], normalization=args.normalization
    ).eval()
    graph, x = ring(n, args.device), torch.randn(n, args.features, device=args.device)

    def run() -> list[torch.Tensor]:
        module.zero_grad(set_to_none=True)
        out = encoder(graph, x=x)
        # Not a sum of squares: that of orthonormal columns is constant, and its gradient rounding noise.
        (out[..., 1:] * out.detach()[..., :-1]).sum().backward()
        return [p.grad.clone() for p in module.parameters() if p.grad is not None]

    return run


def gate(form: str, args: argparse.Namespace) -> bool:
    """Whether the gradients of the form are those of the dense one on a small graph."""
    expected, got = step("dense", 300, args)(), step(form, 300, args)()
    return all(
        torch.allclose(a, b, rtol=1e-2, atol=1e-2 * float(a.abs().max())) for a, b in zip(expected, got, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=FORMS)
    parser.add_argument("-k", "--channels", type=int, default=16)
    parser.add_argument("-P", "--steps", type=int, default=16)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--normalization", default="qr")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, help="default: benchmarks/results/learned-operator-<machine>.csv")
    args = parser.parse_args()
    folder = Path(__file__).resolve().parent / "results"
    output = args.output or folder / f"learned-operator-{slug(args.device)}.csv"
    rows = []
    for form in args.forms:
        if not gate(form, args):
            print(f"{form}: gradients differ from the dense form; not timed")
            continue
        for n in args.nodes:
            row = {"form": form, "nodes": n, "k": args.channels, "P": args.steps, "features": args.features}
            try:
                timing = measure(step(form, n, args), device=args.device, repeats=args.repeats)
            except torch.OutOfMemoryError:
                print(f"{form} n={n}: out of memory")
                rows.append({**row, "seconds": "", "peak_mib": "out of memory", **environment(args.device)})
                break
            peak = timing.peak_bytes / 2**20
            print(f"{form:7s} n={n:7d}  {timing.seconds:8.3f} s  {peak:9.0f} MiB")
            rows.append(
                {**row, "seconds": f"{timing.seconds:.4g}", "peak_mib": f"{peak:.0f}", **environment(args.device)}
            )
    if rows:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {output}")


if __name__ == "__main__":
    main()
