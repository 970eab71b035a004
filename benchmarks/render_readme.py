"""Write the tables of README.md and the picture of its benchmark from the committed files; nothing is typed by hand.

python benchmarks/render_readme.py            # rewrite
python benchmarks/render_readme.py --check    # fail if the README is out of date
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from rfp.bench.cases import CASES
from rfp.bench.result_file import BenchRow, is_detail, read_rows, scaling_slope
from rfp.train import Result, read_results

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# Name of a result on ZINC -> what the README calls it.
ZINC = {
    "gine": "no encoding",
    "rwpe": "RWPE",
    "rfp-qr-LA": "RFP-QR, linear as in the paper (which reports 0.1152)",
    "rfp-qr-LA-products": "RFP-QR with products",
    "rfp-l2-LAW-products": "RFP-ℓ2 with products, the random walk beside L̂ and Â",
    "rfp-qr-LA-dss-products": "RFP-QR-DSS with products",
}
# Case of the short table -> its title.
SHORT = {
    "large": "one graph, 169,343 nodes, 1.2 million edges, k = 64, P = 16",
    "small": "12,000 molecules (ZINC-12k), k = 16, P = 16, Â and L̂",
}
# How the names of rows begin that no peer has written.
OURS = ("rfp", "library calls", "torch.sparse")


def is_gpu(facts: dict[str, str]) -> bool:
    return facts["device"].startswith("NVIDIA")


def seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def result_files() -> list[Path]:
    """Files that `rfp bench` has written, those of CPUs first."""
    found = []
    for path in sorted(RESULTS.glob("*.csv")):
        with path.open(newline="") as file:
            facts = next(csv.DictReader(file), {})
        if "case" in facts and "copy_gb_per_s" in facts:
            found.append((is_gpu(facts), path))
    return [path for _, path in sorted(found)]


def table() -> str:
    """Markdown for every machine and case."""
    lines = []
    for path in result_files():
        with path.open(newline="") as file:
            facts = next(csv.DictReader(file))
        rows = read_rows(path)
        copies = any(row.times_copy for row in rows)
        threads = "" if is_gpu(facts) else f"{facts['threads']} threads, "
        lines += ["", f"{facts['device']}, {threads}torch {facts['torch']}, copy {facts['copy_gb_per_s']} GB/s:", ""]
        lines += ["| case | method | median | against ours |" + (" against a copy of its bytes |" if copies else "")]
        lines += ["|---|---|---|---|" + ("---|" if copies else "")]
        for row in rows:
            if row.seconds is None or row.case not in CASES or is_detail(row):
                continue
            ours = "" if row.ratio is None or row.name.startswith("rfp,") else times(row.ratio)
            line = f"| {row.case} | {row.name} | {measured(row)} | {ours} |"
            lines.append(line + (f" {times(row.times_copy)} |" if row.times_copy else " |" if copies else ""))
        fitted = scaling_slope(rows)
        if fitted is not None:
            lines += ["", f"Log-log slope of time against edges, from 10⁶ on: {fitted:.2f}."]
        peaks = [row for row in rows if row.peak_over_result]
        lines += [f"Peak memory of `{r.case}`: {r.peak_over_result:.2f}× the result and the graph." for r in peaks]
        for row in rows:
            if row.case == "huge" and row.peak_mib:
                held = row.peak_mib / 1024
                lines.append(f"Peak memory of `huge`: {held:.1f} GiB above the matrix and the features.")
    return "\n".join(lines).strip()


def count_table() -> str:
    """Markdown for the counts: time and error of estimates, exact counts and peers on the graph of the case `large`."""
    lines = [
        "Counting on the graph of `large`, ε = 0.05 (`python benchmarks/count.py`):",
        "",
    ]
    lines += ["| pattern | method | median | error | samples |", "|---|---|---|---|---|"]
    for path in sorted(RESULTS.glob("count-*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["graph"] == "arxiv" and "128 samples" not in row["method"]:
                    error = f"{100 * float(row['relative_error']):.2g} %"
                    time = seconds(float(row["seconds"]))
                    lines.append(f"| {row['pattern']} | {row['method']} | {time} | {error} | {row['num_samples']} |")
    return "\n".join(lines)


def zinc_table() -> str:
    """Markdown for what products make of ZINC, from the result files of table 1."""
    found: dict[str, Result] = {r.config.name: r for r in read_results(ROOT / "results" / "zinc").values()}
    lines = ["| ZINC-12k, GINE of at most 500k parameters | test MAE | seeds |", "|---|---|---|"]
    for name, label in ZINC.items():
        mean, deviation = found[name].mean_std("test")
        seeds = len(found[name].runs)
        lines.append(f"| {label} | {mean:.3f}{f' ± {deviation:.3f}' if seeds > 1 else ''} | {seeds} |")
    return "\n".join(lines)


def speed_table() -> str:
    """Markdown for the README: a large graph and many small ones, on each machine, beside the fastest peer there."""
    lines = ["| | machine | rfp | best peer | its time | ratio |", "|---|---|---|---|---|---|"]
    for case, title in SHORT.items():
        for path in result_files():
            rows = [row for row in read_rows(path) if row.case == case and row.seconds is not None]
            ours, peer = next((row for row in rows if row.name == "rfp"), None), best_peer(rows)
            if ours is None:  # a machine on which this case was not measured
                continue
            cells = ["", "", ""]
            if peer is not None:
                cells = [peer.name.partition(", timed on")[0], measured(peer), times(peer.seconds / ours.seconds)]
            lines.append(f"| {title} | {machine_name(path)} | **{measured(ours)}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def best_peer(rows: list[BenchRow]) -> BenchRow | None:
    """The fastest that others have written; our own loop by library calls, and parts of the work, are none."""
    others = [row for row in rows if not row.name.startswith(OURS) and not is_detail(row)]
    return min(others, key=lambda row: row.seconds, default=None)


def measured(row: BenchRow) -> str:
    return seconds(row.seconds) + (" (noisy)" if row.noisy else "")


def machine_name(path: Path) -> str:
    """Kind, name and threads: ``x86, Intel Xeon @ 2.50GHz, 2 threads``."""
    with path.open(newline="") as file:
        facts = next(csv.DictReader(file))
    if is_gpu(facts):
        return facts["device"]
    name = " ".join(re.sub(r"\(R\)|\(TM\)|\bProcessor\b|\bCPU\b", "", facts["device"]).split())
    return f"{'Arm' if name.startswith('Neoverse') else 'x86'}, {name}, {facts['threads']} threads"


# Name of a pair of marks in the README -> what stands between them.
BLOCKS = {
    "zinc": zinc_table,
    "speed": speed_table,
    "benchmark": lambda: f"{table()}\n\n{count_table()}",
}


def rendered(text: str) -> str:
    """The README with what stands between each pair of marks made anew."""

    def block(found: re.Match[str]) -> str:
        assert found[1] in BLOCKS, f"README.md has marks for {found[1]}, which nothing renders"
        return f"<!-- {found[1]}:begin -->\n{BLOCKS[found[1]]()}\n<!-- {found[1]}:end -->"

    fresh, count = re.subn(r"(?s)<!-- (\w+):begin -->.*?<!-- \1:end -->", block, text)
    assert count, "README.md has no marks"
    return fresh


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text()
    fresh = rendered(text)
    if "--check" in sys.argv:
        if fresh != text:
            print("README.md does not show the committed results; run python benchmarks/render_readme.py")
        return int(fresh != text)
    readme.write_text(fresh)
    from rfp.viz.benchmark import plot_benchmark

    plot_benchmark(result_files(), ROOT / "docs" / "images" / "benchmark.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
