"""Results on the site: rendered from the committed result files by the project's own renderers, at every build."""

from __future__ import annotations

import csv
import re
import runpy
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean

from generated_files import DOCS, PARTS, ROOT, write
from sphinx.application import Sphinx
from typer.testing import CliRunner

from rfp.bench import partitioned_report as large
from rfp.bench.cases import CASES
from rfp.bench.partitioned import Measured, read_measured
from rfp.cli.main import app as command_line
from rfp.reproduce import TABLES
from rfp.reproduce.spec import Column
from rfp.reproduce.standing import counts_as_markdown, standings, standings_as_markdown
from rfp.train import Result, read_results

RESULTS = ROOT / "results"
NORMALIZATIONS = {"qr": "QR", "l2": "ℓ2", "none": "none"}
OPERATORS = {"normalized_laplacian": "L̂", "normalized_adjacency": "Â", "random_walk": "random walk", "adjacency": "A"}
# Extra -> what a user gets by it; those for developers are not listed.
EXTRAS = {
    "cli": "the command `rfp`, pictures, Parquet and NetworkX files",
    "fast": "compiled kernels on a CPU",
    "explore": "the page of `rfp explore`",
    "frames": "pandas and Polars frames",
    "large": "graphs larger than memory",
    "cluster": "graphs on several machines",
    "train": "training, search, and the paper's tables",
    "sklearn": "the scikit-learn transformer",
    "graphgym": "GraphGym and GraphGPS",
    "all": "all of the above",
}


def table(name: int | str) -> str:
    """What ``rfp table NAME --render-only`` writes, without its heading."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--render-only", "--results", str(RESULTS), "--output", folder]
        done = CliRunner().invoke(command_line, ["table", str(name), *options], catch_exceptions=False)
        if done.exit_code:
            raise RuntimeError(f"rfp table {name}: {done.output}")
        return _in_lines((Path(folder) / f"table-{name}.md").read_text().split("\n", 1)[1])


def _in_lines(markdown: str) -> str:
    """A table whose cells have ours, what stands beside it and the paper's on a line each, in which nothing breaks."""

    def cell(text: str) -> str:
        for beside in (", linear", ", without GCNII"):
            text = text.replace(beside, f"<br>{beside[2:]}")
        return text.replace(" · ", "<br>", 1).replace(" ", "\N{NO-BREAK SPACE}")

    lines = []
    for line in markdown.split("\n"):
        if line.startswith("| ") and not line.startswith("| Method |"):
            label, *cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
            line = f"| {' | '.join([label, *map(cell, cells)])} |"
        lines.append(line)
    return "\n".join(lines)


def cells() -> str:
    return standings_as_markdown(standings(read_results(RESULTS)))


def counts() -> str:
    return counts_as_markdown(standings(read_results(RESULTS)))


def products_tried() -> str:
    """Validation errors of the settings with products that were tried on ZINC for 300 epochs, the best first.

    Trajectories apart were tried for half as long: no row of this table, which does not show them.
    """
    lines = [
        "| normalisation | w | operators | k | start | products over edges | validation MAE |",
        "|---|---|---|---|---|---|---|",
    ]
    tried = read_results(RESULTS / "tuning" / "zinc").values()
    found = [r for r in tried if r.config.name.startswith("products-") and r.config.training.epochs == 300]
    for result in sorted(found, key=lambda result: result.mean_std("val")[0]):
        model = result.config.to_dict()["model"]
        drawn = model["encodings"][0]
        how = drawn.get("normalization", "qr")
        cells = [
            NORMALIZATIONS[how] + (f", dropout {model['dropout']}" if model.get("dropout") else ""),
            "–" if how == "none" else str(drawn.get("normalize_every", 1)),
            ", ".join(OPERATORS[name] for name in drawn["operators"]),
            str(drawn["num_channels"]),
            drawn.get("start", "drawn"),
            "yes" if model.get("edge_products") else "no",
            f"{result.mean_std('val')[0]:.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


# Results of a perceptron that reads one encoding and no node features -> what it reads.
READ_ALONE = {
    "structure-random": "random numbers",
    "structure-linear": "RFP-QR, linear, drawn anew",
    "structure-kept": "RFP-QR, linear, one draw kept",
    "structure-neighbours": "two steps not normalised, k = 512, one draw kept",
    "structure-products": "RFP-QR, products",
    "structure-random-walk": "return probabilities",
    "structure-eigenvectors": "eigenvectors",
}


# Results of the backbone that was chosen without an encoding, 64 wide -> what it reads beside the node features.
READ_BESIDE = {
    "beside-none": "nothing",
    "beside-anew": "RFP-QR, linear, drawn anew",
    "beside-kept": "RFP-QR, linear, one draw kept",
}


def tuned_on_nodes(names: Iterable[str]) -> Iterator[tuple[Column, list[Result]]]:
    """The data sets of table 2 that have been tuned with all of these configs, and the results."""
    found = {(r.config.data.name, r.config.name): r for r in read_results(RESULTS / "tuning").values()}
    for column in TABLES[2].columns:
        if all((column.id, name) in found for name in names):
            yield column, [found[column.id, name] for name in names]


def percent(values: Iterable[float]) -> str:
    return " | ".join(f"{100 * value:.1f}" for value in values)


def structure_alone() -> str:
    """Validation accuracies of encodings without node features; on the same splits, of node features alone."""
    chosen = {
        r.config.data.name: r for r in read_results(RESULTS).values() if r.config.name == "mlp" and r.config.halving
    }
    lines = [f"| | splits | {' | '.join(READ_ALONE.values())} | node features |", "|---" * (len(READ_ALONE) + 3) + "|"]
    for column, results in tuned_on_nodes(READ_ALONE):
        splits = {run.split for run in results[0].runs}
        of_features = [run.metrics["val"] for run in chosen[column.id].runs if run.split in splits and run.seed == 0]
        values = [*(result.mean_std("val")[0] for result in results), fmean(of_features)]
        lines.append(f"| {column.label} | {len(splits)} | {percent(values)} |")
    return "\n".join(lines)


def structure_beside() -> str:
    """Validation accuracies with node features, without an encoding and with one whose draw is new or kept."""
    lines = [f"| | splits | {' | '.join(READ_BESIDE.values())} |", "|---" * (len(READ_BESIDE) + 2) + "|"]
    for column, results in tuned_on_nodes(READ_BESIDE):
        splits = {run.split for run in results[0].runs}
        lines.append(f"| {column.label} | {len(splits)} | {percent(r.mean_std('val')[0] for r in results)} |")
    return "\n".join(lines)


def extras() -> str:
    """What each extra brings, from the project's metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = ["| extra | for | brings |", "|---|---|---|"]
    for name, needs in project["optional-dependencies"].items():
        if name in EXTRAS:
            packages = ", ".join(f"`{re.split('[<>=; ]', need)[0]}`" for need in needs)
            lines.append(f"| `{name}` | {EXTRAS[name]} | {packages.replace('torch-rfp[', '[')} |")
    return "\n".join(lines)


def cases() -> str:
    lines = ["| case | what it is |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{case.name}` | {case.title} |" for case in CASES.values())])


def partitioned_rows() -> tuple[str, list[Measured]]:
    """The measurements of graphs larger than memory, and the machine they were made on."""
    for path in sorted((ROOT / "benchmarks" / "results").glob("partitioned-*.csv")):
        with path.open(newline="") as file:
            facts = next(csv.DictReader(file))
        return f"{facts['device']}, {facts['cores']} cores, torch {facts['torch']}", read_measured(path)
    return "", []


def partitioned_growth() -> str:
    """Time and memory against non-zeros, with the picture."""
    machine, rows = partitioned_rows()
    if not large.growth(rows, "all"):
        return "No measurements are committed yet."
    first, slope = large.growth(rows, "all")[0], large.growth_slope(rows)
    said = "" if slope is None else f" Log-log slope of the time in all from 10⁶ on: {slope:.2f}."
    lines = [f"{machine}; k = {first.channels}, P = {first.steps}.{said}", "", large.growth_table(rows)]
    if (DOCS / "images" / "partitioned-growth.png").exists():
        lines += ["", "![Seconds against non-zeros, both logarithmic](/images/partitioned-growth.png)"]
    return "\n".join(lines)


def partitioned_pairs() -> str:
    """Little memory against much, workers against one loop."""
    machine, rows = partitioned_rows()
    lines: list[str] = []
    for case in ("limit", "workers"):
        row = next((row for row in rows if row.case == case), None)
        if row is not None:
            about = f"{row.num_nodes:,} nodes, {row.num_entries:,} non-zeros, k = {row.channels}, P = {row.steps}"
            lines += ["", f"{about} ({machine}):", "", large.pair_table(rows, case)]
    return "\n".join(lines) or "No measurements are committed yet."


def partitioned_forecast() -> str:
    rows = partitioned_rows()[1]
    return large.forecast_table(rows) if large.growth(rows, "steps") else "No measurements are committed yet."


def generate(app: Sphinx) -> None:
    speed = runpy.run_path(str(ROOT / "benchmarks" / "render_readme.py"))  # the renderer of the README's tables
    parts: dict[str, Callable[[], str]] = {
        "cases": cases,
        "cells": cells,
        "counts": counts,
        "extras": extras,
        "products-tried": products_tried,
        "structure-alone": structure_alone,
        "structure-beside": structure_beside,
        "benchmark": speed["table"],
        "counting": speed["count_table"],
        "partitioned-growth": partitioned_growth,
        "partitioned-pairs": partitioned_pairs,
        "partitioned-forecast": partitioned_forecast,
        "zinc": speed["zinc_table"],
    }
    parts |= {f"table-{name}": partial(table, name) for name in (*TABLES, "links")}
    for name, render in parts.items():
        write(PARTS / f"{name}.md", f"{render().strip()}\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
