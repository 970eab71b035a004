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
from rfp.bench.result_file import is_detail, read, slope
from rfp.train import Result, read_results

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# Name of a result on ZINC -> what the README calls it.
ZINC = {
    "gine": "no encoding",
    "rwpe": "RWPE",
    "rfp-qr-LA": "RFP-QR, linear as in the paper (which reports 0.1152)",
    "rfp-qr-LA-products": "RFP-QR with products",
    "rfp-l2-LAW-products": "RFP-ℓ2 with products",
}


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
            found.append((facts["device"].startswith("NVIDIA"), path))
    return [path for _, path in sorted(found)]


def table() -> str:
    """Markdown for every machine and case."""
    lines = []
    for path in result_files():
        with path.open(newline="") as file:
            facts = next(csv.DictReader(file))
        rows = read(path)
        copies = any(row.times_copy for row in rows)
        threads = "" if facts["device"].startswith("NVIDIA") else f"{facts['threads']} threads, "
        lines += ["", f"{facts['device']}, {threads}torch {facts['torch']}, copy {facts['copy_gb_per_s']} GB/s:", ""]
        lines += ["| case | method | median | against ours |" + (" against a copy of its bytes |" if copies else "")]
        lines += ["|---|---|---|---|" + ("---|" if copies else "")]
        for row in rows:
            if row.seconds is None or row.case not in CASES or is_detail(row):
                continue
            ours = "" if row.ratio is None or row.name.startswith("rfp,") else times(row.ratio)
            line = f"| {row.case} | {row.name} | {seconds(row.seconds)} | {ours} |"
            lines.append(line + (f" {times(row.times_copy)} |" if row.times_copy else " |" if copies else ""))
        fitted = slope(rows)
        if fitted is not None:
            lines += ["", f"Log-log slope of time against edges: {fitted:.2f}."]
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


def with_block(text: str, name: str, block: str) -> str:
    """The text with what stands between the marks of this name replaced."""
    marks = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    pattern = f"(?s){marks[0]}.*?{marks[1]}"
    assert len(re.findall(pattern, text)) == 1, f"README.md has no place for {name}"
    return re.sub(pattern, lambda _: f"{marks[0]}\n{block}\n{marks[1]}", text)


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text()
    fresh = with_block(text, "benchmark", f"{table()}\n\n{count_table()}")
    fresh = with_block(fresh, "zinc", zinc_table())
    if "--check" in sys.argv:
        if fresh != text:
            print("README.md does not show the committed results; run python benchmarks/render_readme.py")
        return int(fresh != text)
    readme.write_text(fresh)
    from rfp.viz.benchmark import plot

    plot(result_files(), ROOT / "docs" / "images" / "benchmark.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
