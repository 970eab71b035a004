"""The measured cost as a file and as tables, beside the paper's."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rfp.atomic import atomic_files
from rfp.environment import environment, slug
from rfp.errors import FileError
from rfp.reproduce.cost import CostRow, CostSize
from rfp.reproduce.paper import find

COST_FOLDER = "arxiv-cost"
HEADS = ["Model", "What", "ms: median (range)", "paper, RTX 3090", "peak MiB", "paper, MB"]


def cost_file(results: Path, device: str, *, quick: bool = False) -> Path:
    """Where the measurement of this machine is kept."""
    return results / COST_FOLDER / f"{slug(device)}{'-quick' if quick else ''}.csv"


def write_cost(rows: Sequence[CostRow], size: CostSize, device: str, path: Path) -> None:
    """A CSV file with size and environment beside every line."""
    facts = {**asdict(size), **environment(device)}
    del facts["repeats"]  # each row has its own
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(f.name for f in fields(CostRow)), *facts])
    writer.writerows([*asdict(row).values(), *facts.values()] for row in rows)
    with atomic_files([path]) as (file,):
        file.write(text.getvalue().encode())


def read_cost(path: Path) -> tuple[list[CostRow], dict[str, str]]:
    """What :func:`write_cost` wrote: the rows, and size and environment."""
    names = [f.name for f in fields(CostRow)]
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        rows = [
            CostRow(
                line["row"],
                line["quantity"],
                float(line["milliseconds"]),
                float(line["fastest"]),
                float(line["slowest"]),
                float(line["peak_mib"]),
                int(line["repeats"]),
            )
            for line in lines
        ]
        return rows, {key: value for key, value in lines[0].items() if key not in names}
    except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
        raise FileError(f"{path}: not a measurement of cost ({error}); remove it and run again") from error


def cost_markdown(rows: Sequence[CostRow], facts: Mapping[str, str], *, with_paper: bool = True) -> str:
    """The measurement as a Markdown table."""
    lines = [HEADS, ["---"] * len(HEADS), *cost_lines(rows, with_paper=with_paper)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"\n### Cost\n\n{cost_caption(facts)}\n\n{table}\n"


def cost_caption(facts: Mapping[str, str]) -> str:
    """What was measured, on what."""
    return (
        f"A generated graph of {int(facts['num_nodes']):,} nodes and {int(facts['num_edges']):,} undirected edges, "
        f"k={facts['num_channels']}, P={facts['num_steps']}, {facts['num_layers']} layers, "
        f"{facts['hidden_channels']} hidden; {facts['device']}, torch {facts['torch']}"
    )


def cost_lines(rows: Sequence[CostRow], *, with_paper: bool = True) -> list[list[str]]:
    """Cells of a small table: what, time, the paper's, memory, the paper's."""
    lines = []
    for row in rows:
        paper = {"forward": find(7, row.row, "ogbn-arxiv", "forward_ms")}.get(row.quantity) if with_paper else None
        memory = find(7, row.row, "ogbn-arxiv", "memory_mb") if with_paper and row.quantity == "step" else None
        lines.append(
            [
                "GCN" if row.row == "gcn" else "GCN + RFP" if row.quantity != "encode" else "RFP",
                {"encode": "encoding", "forward": "forward pass", "step": "training step"}[row.quantity],
                f"{row.milliseconds:.2f} ({row.fastest:.2f}–{row.slowest:.2f})",
                "–" if paper is None else f"{paper.mean:.2f}",
                f"{row.peak_mib:.0f}",
                "–" if memory is None else f"{memory.mean:.0f}",
            ]
        )
    return lines
