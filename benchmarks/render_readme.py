"""Write the benchmark table of README.md and its picture from the committed result files; nothing is typed by hand.

python benchmarks/render_readme.py            # rewrite
python benchmarks/render_readme.py --check    # fail if the README is out of date
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from rfp.bench.cases import CASES
from rfp.bench.runner import read, slope

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"


def seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def table() -> str:
    """Markdown for every machine and case."""
    lines = []
    for path in sorted(RESULTS.glob("*.csv")):
        with path.open(newline="") as file:
            facts = next(csv.DictReader(file))
        if "case" not in facts:
            continue
        rows = read(path)
        lines += ["", f"{facts['device']}, {facts['threads']} threads, torch {facts['torch']}:", ""]
        lines += ["| case | method | median | against ours |", "|---|---|---|---|"]
        for row in rows:
            if row.seconds is None or row.case not in CASES:
                continue
            ours = "" if row.ratio is None else "1×" if row.ratio == 1 else f"{row.ratio:.1f}×"
            lines.append(f"| {row.case} | {row.name} | {seconds(row.seconds)} | {ours} |")
        fitted = slope(rows)
        if fitted is not None:
            lines += ["", f"Log-log slope of time against edges: {fitted:.2f}."]
        peaks = [row for row in rows if row.peak_over_result]
        lines += [f"Peak memory of `{r.case}`: {r.peak_over_result:.2f}× the result and the graph." for r in peaks]
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


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    fresh = f"{before}{BEGIN}\n{table()}\n\n{count_table()}\n{END}{after}"
    if "--check" in sys.argv:
        if fresh != text:
            print("README.md does not show the committed results; run python benchmarks/render_readme.py")
        return int(fresh != text)
    readme.write_text(fresh)
    from rfp.viz.benchmark import plot

    plot(RESULTS / "neoverse-n1-2-cores.csv", ROOT / "docs" / "images" / "benchmark.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
