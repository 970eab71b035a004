"""Measure the GPU backends: correctness first, then times, beside the copy bandwidth of the same card.

    python benchmarks/gpu.py --zinc zinc12k.pt --output benchmarks/results/gpu-h200.csv
    python benchmarks/gpu.py --cases zinc,batch

``--zinc`` names a file of ``torch.save({"edge_index", "num_nodes", "num_edges"})``: the edges of all graphs in node
numbers of their own graph, and the counts of each. Without it, random graphs of the same sizes stand in.
"""

from __future__ import annotations

import argparse
import csv
import platform
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from rfp.backends import cuda_sparse, fused, reference, sparse
from rfp.backends.problem import Problem
from rfp.backends.segments import Segments
from rfp.backends.tally import DeviceTally
from rfp.csr import CSR
from rfp.features import random_features
from rfp.graph import Graph
from rfp.normalization import dependence_tolerance, segment_sum
from rfp.operators import MatrixOperator, from_name

DEVICE = "cuda"
FIELDS = ("case", "variant", "milliseconds", "spread", "gigabytes", "times_copy", "peak_gib", "note")
rows: list[dict[str, object]] = []
copy_gb_per_s = 0.0


def measure(run: Callable[[], object], repeats: int = 20, warmup: int = 3) -> tuple[float, float]:
    """Median and spread (quartiles) in milliseconds of device time."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    times.sort()
    return median(times), times[3 * len(times) // 4] - times[len(times) // 4]


def measure_kernels(run: Callable[[], object], repeats: int = 20, inside: int = 5) -> tuple[float, float]:
    """The same without the host: ``inside`` calls captured as a CUDA graph and replayed."""
    run()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(inside):
            run()
    time, spread = measure(captured.replay, repeats)
    return time / inside, spread / inside


def add(case: str, variant: str, time: tuple[float, float], num_bytes: float = 0.0, note: str = "") -> None:
    """Keep and print one line; ``num_bytes`` are compared with the copy bandwidth."""
    floor = num_bytes / copy_gb_per_s / 1e6 if copy_gb_per_s else 0.0
    row = {
        "case": case,
        "variant": variant,
        "milliseconds": f"{time[0]:.4f}",
        "spread": f"{time[1]:.4f}",
        "gigabytes": f"{num_bytes / 1e9:.3f}" if num_bytes else "",
        "times_copy": f"{time[0] / floor:.2f}" if floor else "",
        "peak_gib": f"{torch.cuda.max_memory_allocated() / 2**30:.2f}",
        "note": note,
    }
    rows.append(row)
    print("{case:22} {variant:28} {milliseconds:>10} ms ±{spread:8} x{times_copy:6} {note}".format(**row), flush=True)


# ---------------------------------------------------------------- graphs


def zinc(path: Path | None) -> tuple[Tensor, Tensor, Tensor]:
    """Edges in local numbers, number of nodes, number of edges of each graph."""
    if path is not None:
        stored = torch.load(path)
        return stored["edge_index"].long(), stored["num_nodes"], stored["num_edges"]
    graphs = [ring_with_chords(int(n), seed) for seed, n in enumerate(torch.randint(12, 36, (12_000,)))]
    return (
        torch.cat(graphs, dim=1),
        torch.tensor([int(g.max()) + 1 for g in graphs]),
        torch.tensor([g.size(1) for g in graphs]),
    )


def ring_with_chords(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    chords = torch.randint(n, (2, n // 8), generator=generator)
    edges = torch.cat([ring, chords], dim=1)
    return torch.cat([edges, edges.flip(0)], dim=1)


def batch_of(edges: Tensor, nodes: Tensor, counts: Tensor, device: str = DEVICE) -> Graph:
    ptr = torch.cat([nodes.new_zeros(1), nodes.cumsum(0)])
    shifted = edges + torch.repeat_interleave(ptr[:-1], counts)
    return Graph(shifted.to(device), int(ptr[-1]), ptr=ptr.to(device))


def random_batch(num_graphs: int, largest: int, seed: int) -> Graph:
    """Graphs of 1 to ``largest`` nodes of every density, stars, cliques and empty graphs among them; on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    parts, sizes, counts = [], [], []
    for i in range(num_graphs):
        n = int(torch.randint(1, largest + 1, (), generator=generator))
        kind = i % 8
        if kind == 0:
            upper = torch.zeros(n, n, dtype=torch.bool)
            upper[0, 1:] = True  # star
        elif kind == 1:
            upper = torch.rand(n, n, generator=generator) < (1.0 if i % 16 == 1 else 0.0)  # clique, no edges
        else:
            upper = torch.rand(n, n, generator=generator) < torch.rand((), generator=generator) ** 2
        adjacency = upper.triu(1)
        edge_index = (adjacency | adjacency.T).nonzero().T
        parts.append(edge_index)
        sizes.append(n)
        counts.append(edge_index.size(1))
    return batch_of(torch.cat(parts, dim=1), torch.tensor(sizes), torch.tensor(counts), "cpu")


def skewed(num_nodes: int, num_edges: int, seed: int = 0) -> Graph:
    """An undirected graph of power-law degrees, on the GPU."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    number = torch.randperm(num_nodes, device=DEVICE, generator=generator)
    ends = torch.rand(2, num_edges, device=DEVICE, generator=generator)
    ends[0] = ends[0] ** 3  # hubs
    edges = number[(ends * num_nodes).long().clamp_max(num_nodes - 1)]
    return Graph(torch.cat([edges, edges.flip(0)], dim=1), num_nodes, check=False)


# ---------------------------------------------------------------- correctness


def lengths(a: Tensor, ptr: Tensor) -> Tensor:  # [B, n, k] -> [G, B, k]
    return segment_sum(a.transpose(0, 1).square(), ptr).sqrt()


def check_qr(storage: Tensor, problem: Problem) -> tuple[float, float, float]:
    r"""Whether every state is the Q of ``S a`` by the rule of :func:`rfp.normalization.qr`, in float64, graph by graph.

    With :math:`y = S a^{(p-1)}` and :math:`C = q^\top y`: C must be upper triangular with a positive diagonal, q
    orthonormal where not zero, and a column may be zero only if its part outside the span of those before it is below
    the tolerance.

    Returns:
        The largest error of :math:`q^\top q - I`; the largest entry of C below the diagonal, over the rounding of the
        product; and the number of columns that are wrong in another way.
    """
    segments = Segments(problem.ptr, storage.size(1) * storage.size(4))
    orthogonality = triangularity = 0.0
    wrong = 0
    epsilon = torch.finfo(torch.float32).eps
    tolerance = dependence_tolerance(torch.float32)
    for o, operator in enumerate(problem.operators):
        csr = operator.csr.to(torch.float64)
        absolute = csr.with_value(csr.value.abs())
        rounding = epsilon * max(1.0, float(csr.crow.diff().max()) ** 0.5 / 2)  # of a sum of so many terms
        for p in range(problem.normalize_every, problem.num_steps + 1, problem.normalize_every):
            a = storage[:, :, o, p - 1].double()
            # The reference rounds the product to float32 before it is normalised.
            y = (csr @ a.flatten(1)).view_as(a).float().double().transpose(0, 1)
            q = storage[:, :, o, p].double().transpose(0, 1)
            gram, c, own = segments.inner(q, q), segments.inner(q, y), segments.inner(y, y)
            norms = own.diagonal(dim1=-2, dim2=-1)  # [G, B, k]
            largest = norms.amax(-1).sqrt()  # [G, B]
            kept = gram.diagonal(dim1=-2, dim2=-1) > 0.5
            identity = torch.diag_embed(kept.double())
            # A product's rounding is relative to its terms, which may be far larger than their sum.
            terms = (absolute @ a.abs().flatten(1)).view_as(a).transpose(0, 1)
            noise = rounding * lengths(terms, problem.ptr).amax(-1)[..., None]  # [G, B, 1]
            orthogonality = max(orthogonality, float((gram - identity).abs().amax()))
            # A dropped column has a part outside the span, up to the tolerance, which later columns may meet.
            below = (c.tril(-1) * kept[..., None, :]).abs() / noise[..., None].clamp_min(1e-300)
            triangularity = max(triangularity, float(below.amax()))
            outside = lengths(y - segments.apply(q, c.triu()), problem.ptr)
            before = lengths(y - segments.apply(q, c.triu(1)), problem.ptr)
            threshold = (tolerance * largest)[..., None]
            bad = (kept & (before < threshold - 4 * noise)) | (~kept & (before > threshold + 4 * noise))
            bad |= (kept & (outside > 4 * noise)) | (kept & (c.diagonal(dim1=-2, dim2=-1) <= 0))
            wrong += int(bad.sum())
            if bool(bad.any()) and wrong < 20:
                g, b, j = bad.nonzero()[0].tolist()
                unit = float(largest[g, b]) * epsilon
                print(f"    operator {o} step {p} graph {g} of {int(problem.ptr.diff()[g])} nodes column {j} kept "
                      f"{bool(kept[g, b, j])}: before {float(before[g, b, j]) / unit:.2f} outside "
                      f"{float(outside[g, b, j]) / unit:.2f} "
                      f"noise {float(noise[g, b, 0]) / unit:.2f} epsilons")  # fmt: skip
    return orthogonality, triangularity, wrong


def problem_of(graph: Graph, names: tuple[str, ...], k: int, steps: int, **more: object) -> Problem:
    options = {"normalization": "qr", "normalize_every": 1, "num_trajectories": 1, "seed": 0, **more}
    start = random_features(graph, num_channels=k, num_trajectories=options["num_trajectories"], seed=options["seed"])
    operators = tuple(from_name(name, graph) for name in names)
    return Problem(operators, start, graph.offsets, steps, options["normalization"], options["normalize_every"])


def by_reference(problem: Problem) -> Tensor:
    parts = [[a.transpose(0, 1) for a in reference.loop(problem, S, DeviceTally())] for S in problem.operators]
    return torch.stack([torch.stack(part, dim=2) for part in parts], dim=2)


def gate(name: str, backend: Callable[..., Tensor], graph: Graph, k: int, **more: object) -> None:
    """Check a backend on a graph; raise if it is wrong, so that nothing after is printed."""
    names = ("normalized_adjacency", "normalized_laplacian", "adjacency", "random_walk")
    on_gpu = problem_of(graph.to(DEVICE), names, k, 6, **more)
    storage = backend(on_gpu, torch.float32, DeviceTally())
    if not bool(torch.isfinite(storage).all()):
        raise SystemExit(f"{name}: the result is not finite")
    if on_gpu.normalization == "qr":
        orthogonality, triangularity, wrong = check_qr(storage, on_gpu)
        text = f"|QtQ-I| {orthogonality:.1e}, lower part of R {triangularity:.1f} roundings, wrong columns {wrong}"
        if orthogonality > 1e-5 or triangularity > 4 or wrong:
            raise SystemExit(f"{name}: {text}")
    else:
        on_cpu = problem_of(graph, names, k, 6, **more)
        expected = by_reference(on_cpu)
        error = float(((storage.cpu() - expected).abs().amax((0, 4)) / expected.abs().amax((0, 4))).amax())
        text = f"largest difference to the reference {error:.1e}"
        if error > 1e-5:
            raise SystemExit(f"{name}: {text}")
    print(f"ok  {name:58} {graph.num_graphs:6} graphs  k={k:<3} {text}", flush=True)


def check_fused(num_graphs: int) -> None:
    """Thousands of random graphs through the fused kernel; a few hundred of them state by state against the
    reference.
    """
    gate("fused qr", fused.run, random_batch(num_graphs, 40, seed=1), 16)
    gate("fused qr", fused.run, random_batch(num_graphs, 128, seed=2), 16)
    gate("fused qr, larger graphs beside", fused.run, random_batch(64, 300, seed=3), 16)
    graph = random_batch(400, 40, seed=4)
    names = ("normalized_adjacency", "normalized_laplacian")
    computed = fused.run(problem_of(graph.to(DEVICE), names, 16, 2), torch.float32, DeviceTally()).cpu()
    difference = (computed - by_reference(problem_of(graph, names, 16, 2))).abs()
    print(
        f"ok  fused against the reference, two steps: median {difference.median():.1e}, largest {difference.max():.1e}"
    )


def check_wide(num_graphs: int) -> None:
    for k in (32, 64):
        gate("fused qr", fused.run, random_batch(num_graphs, 128, seed=k), k)


def check_options(num_graphs: int) -> None:
    graph = random_batch(num_graphs, 64, seed=5)
    gate("fused qr", fused.run, graph, 5)
    gate("fused qr, two trajectories, every other step", fused.run, graph, 16, num_trajectories=2, normalize_every=2)
    for normalization in ("l2", "none"):
        gate(f"fused {normalization}", fused.run, graph, 16, normalization=normalization)
    for distribution in ("normal", "rademacher", "uniform"):
        options = {"num_channels": 16, "num_trajectories": 2, "distribution": distribution, "seed": 11}
        drawn = fused.draw(graph.to(DEVICE), [from_name("adjacency", graph.to(DEVICE))], num_steps=0, **options)
        error = float((drawn[:, :, 0, 0].cpu() - random_features(graph, **options).transpose(0, 1)).abs().max())
        if error > (1e-5 if distribution == "normal" else 0.0):
            raise SystemExit(f"features drawn in the kernel differ by {error} ({distribution})")
        print(f"ok  features drawn in the kernel, {distribution}: {error:.1e}", flush=True)


def check_large() -> None:
    """Random and degenerate graphs, hubs among them, through the kernels for one large graph."""
    for k in (3, 16, 32, 64):
        gate("cuda_sparse qr, skewed", cuda_sparse.run, skewed(20_000, 150_000, seed=k).to("cpu"), k)
    gate("cuda_sparse qr, two trajectories, every third step", cuda_sparse.run, skewed(5_000, 30_000).to("cpu"), 16,
         num_trajectories=2, normalize_every=3)  # fmt: skip
    for normalization in ("l2", "none"):
        small = skewed(3_000, 20_000).to("cpu")
        gate(f"cuda_sparse {normalization}", cuda_sparse.run, small, 16, normalization=normalization)
    for seed in range(40):
        one = random_batch(1 + seed % 8, 200, seed)
        gate("cuda_sparse qr, degenerate", cuda_sparse.run, Graph(one.edge_index, one.num_nodes), 16)


# ---------------------------------------------------------------- times


def time_zinc(path: Path | None) -> None:
    """All graphs of ZINC-12k, k = 16, P = 16, two operators, QR."""
    graph = batch_of(*zinc(path))
    names = ("normalized_adjacency", "normalized_laplacian")
    problem = problem_of(graph, names, 16, 16)
    csr = problem.operators[0].csr
    num_bytes = graph.num_nodes * (2 * 17 + 1) * 16 * 4 + csr.nnz * (4 + 2 * 4)
    features = problem.features.transpose(0, 1).contiguous()
    out = torch.empty(graph.num_nodes, 1, 2, 17, 16, device=DEVICE)
    for normalization in ("qr", "l2", "none"):
        kernels = fused._Trajectories(out, problem.ptr, graph.largest, normalization, 1)
        time = measure_kernels(lambda k=kernels: k.compute(problem.operators, features=features))
        add("zinc-12k", f"fused {normalization}, kernels", time, num_bytes)
    add(
        "zinc-12k", "fused qr, whole call", measure(lambda: fused.run(problem, torch.float32, DeviceTally())), num_bytes
    )
    options = {"num_channels": 16, "num_steps": 16, "largest": graph.largest, "graph_keys": torch.arange(12_000)}
    operators = list(problem.operators)
    add("zinc-12k", "fused qr, features drawn", measure(lambda: fused.draw(graph, operators, **options)), num_bytes)
    half = measure(lambda: fused.run(problem, torch.float16, DeviceTally()))
    add("zinc-12k", "fused qr, stored in float16", half, num_bytes / 2)

    def library() -> None:
        for operator in problem.operators:
            for _ in sparse.loop(problem, operator, DeviceTally()):
                pass

    add("zinc-12k", "library calls (sparse)", measure(library, repeats=3, warmup=1), num_bytes)


def time_batch(path: Path | None) -> None:
    """A training batch of 128 graphs: features drawn and propagated, replayed from a CUDA graph and launched
    plainly.
    """
    edges, nodes, counts = zinc(path)
    graph = batch_of(edges[:, : int(counts[:128].sum())], nodes[:128], counts[:128])
    operators = [from_name(name, graph) for name in ("normalized_adjacency", "normalized_laplacian")]
    keys = torch.arange(128, device=DEVICE)
    options = {"num_channels": 16, "num_steps": 16, "largest": graph.largest, "graph_keys": keys}
    features = random_features(graph, num_channels=16)
    problem = Problem(tuple(operators), features, graph.offsets, 16)
    trajectories = fused._Trajectories(
        torch.empty(graph.num_nodes, 1, 2, 17, 16, device=DEVICE), graph.offsets, graph.largest, "qr", 1
    )
    values = features.transpose(0, 1).contiguous()
    num_bytes = graph.num_nodes * 35 * 16 * 4
    time = measure_kernels(lambda: trajectories.compute(operators, features=values), repeats=50)
    add("batch of 128", "fused qr, kernels", time, num_bytes)
    add("batch of 128", "fused.draw", measure(lambda: fused.draw(graph, operators, **options), repeats=100, warmup=10))
    add("batch of 128", "fused.run", measure(lambda: fused.run(problem, torch.float32, DeviceTally()), repeats=50))


def large_bytes(csr: CSR, k: int, steps: int) -> float:
    """One row of states read for each non-zero and each state written once."""
    return steps * (csr.nnz + csr.num_rows) * k * 4.0


def time_large(name: str, num_nodes: int, num_edges: int, k: int = 64, steps: int = 16, library: bool = True) -> None:
    """One graph of power-law degrees: the whole trajectory, its stages, and library calls beside."""
    graph = skewed(num_nodes, num_edges)
    problem = problem_of(graph, ("normalized_adjacency",), k, steps)
    csr = problem.operators[0].csr
    num_bytes = large_bytes(csr, k, steps)
    note = f"n={num_nodes} nnz={csr.nnz} longest row {int(csr.crow.diff().max())}"
    torch.cuda.reset_peak_memory_stats()
    whole = measure(lambda: cuda_sparse.run(problem, torch.float32, DeviceTally()), repeats=10)
    add(name, f"cuda_sparse qr k={k} P={steps}", whole, num_bytes, note)
    stages = cuda_sparse.Stages(problem, problem.operators[0])
    source = problem.features.transpose(0, 1).contiguous()
    product, target = torch.empty_like(source), torch.empty_like(source)
    one = num_bytes / steps
    add(name, "  product", measure_kernels(lambda: stages.multiply(source, product)), one)
    add(name, "  normalisation", measure_kernels(lambda: stages.normalize(product, target)))
    if library:
        add(name, "  torch.sparse product", measure(lambda: csr @ source.flatten(1)), one)
        loops = measure(
            lambda: [None for _ in sparse.loop(problem, problem.operators[0], DeviceTally())], repeats=3, warmup=1
        )
        add(name, "library calls (sparse)", loops, num_bytes)


def time_papers() -> None:
    """111M nodes and 1.6B undirected edges (3.3B non-zeros), k = 16, P = 8; each state is discarded after the next."""
    n, steps, k = 111_059_956, 8, 16
    generator = torch.Generator(DEVICE).manual_seed(0)
    degree = (29.1 * torch.empty(n, device=DEVICE).exponential_(generator=generator)).long() + 1
    crow = torch.zeros(n + 1, dtype=torch.int64, device=DEVICE)
    torch.cumsum(degree, 0, out=crow[1:])
    nnz = int(crow[-1])
    col = torch.empty(nnz, dtype=torch.int32, device=DEVICE)
    value = torch.empty(nnz, device=DEVICE)
    for lo in range(0, nnz, 1 << 28):
        hi = min(lo + (1 << 28), nnz)
        col[lo:hi] = torch.randint(n, (hi - lo,), dtype=torch.int32, device=DEVICE, generator=generator)
        value[lo:hi] = 1 / 30.0
    csr = CSR(crow, col, value)
    features = torch.empty(n, 1, k, device=DEVICE).normal_(generator=generator).transpose(0, 1)
    problem = Problem((MatrixOperator(csr),), features, torch.tensor([0, n], device=DEVICE), steps)
    del degree
    torch.cuda.reset_peak_memory_stats()

    def whole() -> None:
        for _ in cuda_sparse.loop(problem, problem.operators[0], DeviceTally()):
            pass

    add("papers100M size", f"cuda_sparse qr k={k} P={steps}", measure(whole, repeats=2, warmup=1),
        large_bytes(csr, k, steps), f"n={n} nnz={nnz}, states discarded")  # fmt: skip


def copy_bandwidth() -> float:
    """Gigabytes a second, read and written, of a device-to-device copy."""
    source = torch.rand(1 << 30, device=DEVICE)
    target = torch.empty_like(source)
    time, _ = measure(lambda: target.copy_(source))
    return 2 * source.numel() * 4 / time / 1e6


def main() -> None:
    global copy_gb_per_s
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases", default="check-fused,check-wide,check-options,check-large,zinc,batch,arxiv,arxiv10,papers"
    )
    parser.add_argument("--zinc", type=Path)
    parser.add_argument("--graphs", type=int, default=2000, help="random graphs of each check")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device: these cases need one")
    copy_gb_per_s = copy_bandwidth()
    environment = (
        f"{torch.cuda.get_device_name()}; copy {copy_gb_per_s:.0f} GB/s; torch {torch.__version__}; "
        f"triton {__import__('triton').__version__}; Python {platform.python_version()}"
    )
    print(environment)
    cases: dict[str, Callable[[], None]] = {
        "check-fused": lambda: check_fused(arguments.graphs),
        "check-wide": lambda: check_wide(arguments.graphs),
        "check-options": lambda: check_options(arguments.graphs),
        "check-large": check_large,
        "zinc": lambda: time_zinc(arguments.zinc),
        "batch": lambda: time_batch(arguments.zinc),
        "arxiv": lambda: time_large("arxiv size", 169_343, 1_157_799),
        "arxiv10": lambda: time_large("ten times arxiv", 1_693_430, 11_577_990),
        "papers": time_papers,
    }
    for name in arguments.cases.split(","):
        cases[name]()
        torch.cuda.empty_cache()
    if arguments.output is not None:
        with arguments.output.open("w", newline="") as file:
            file.write(f"# {environment}\n")
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
