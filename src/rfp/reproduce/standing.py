"""Where RFP stands against the paper: each cell of tables 1 to 3, by how much, and whether that is more than chance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rfp.reproduce.compare import DEEP, EARLIER, PRODUCTS, Entry, Ours, compare
from rfp.reproduce.tables import TABLES
from rfp.train.results import Result

# The paper's main results; a cell is a row of RFP on a data set.
_NUMBERS = (1, 2, 3)
VERDICTS = AT_OR_BETTER, BELOW, NOT_RUN = "at or better", "below", "not run"
# A difference is called significant below this probability of one as large by chance.
LEVEL = 0.05


@dataclass(frozen=True)
class Standing:
    """One cell of the paper that RFP has a number in.

    Args:
        table: Number of the table.
        label: Label of the row.
        column: Name of the data set's column.
        entry: Ours beside the paper's: where validation prefers products of the trajectory (chosen in the cell's own
            search, or by a row of the same operators, normalisation and architecture), the result with them.
        p_value: By a t-test of our means of each split (or, with one split, of our seeds) against the printed mean;
            ``None`` where there are fewer than two.
        linear: The result with the paper's linear K_embed, where ``entry`` is with products.
    """

    table: int
    label: str
    column: str
    entry: Entry
    p_value: float | None
    linear: Ours | None = None

    @property
    def by_products(self) -> bool:
        """Whether products of the trajectory stand in the place of the paper's linear K_embed."""
        return self.linear is not None or (self.entry.ours is not None and self.entry.ours.by_products)

    @property
    def verdict(self) -> str:
        """At or better, below, or not run."""
        if self.entry.reached is None:
            return NOT_RUN
        return AT_OR_BETTER if self.entry.reached else BELOW


def standings(results: Mapping[str, Result]) -> list[Standing]:
    """Every RFP cell that the paper prints in tables 1 to 3, in its order."""
    found = []
    for number in _NUMBERS:
        spec = TABLES[number]
        table = compare(spec, results)
        with_products = {row.products_of: row.id for row in spec.rows if row.products_of}
        for row in spec.rows:
            if not row.id.startswith("rfp"):
                continue
            for column in spec.columns:
                entry = table.entries[row.id, column.id]
                if entry.paper is None:
                    continue
                other = table.entries.get((with_products.get(row.id, ""), column.id))
                linear = None if entry.ours is None else entry.ours.linear
                if other is not None and _preferred(other, entry):
                    linear, entry = entry.ours, replace(entry, ours=other.ours)
                found.append(Standing(number, row.label, column.label, entry, p_value(entry), linear))
    return found


def _preferred(products: Entry, linear: Entry) -> bool:
    """Whether validation prefers products; of an incomplete cell nothing is preferred."""
    if products.ours is None or linear.ours is None or products.ours.num_runs < products.ours.wanted:
        return False
    better = products.ours.val - linear.ours.val
    return better > 0 if linear.higher_is_better else better < 0


def p_value(entry: Entry) -> float | None:
    """How likely a difference at least as large would be if our mean were the printed one.

    The paper prints no score of a single split, so its mean is taken as exact and ours are the sample: seeds of a split
    are averaged first, since runs of one split are alike.
    """
    if entry.ours is None or entry.paper is None:
        return None
    by_split: dict[int, list[float]] = {}
    for (_, split), score in entry.ours.scores.items():
        by_split.setdefault(split, []).append(score)
    sample = [statistics.fmean(scores) for scores in by_split.values()]
    if len(sample) == 1:
        sample = next(iter(by_split.values()))
    if len(sample) < 2:
        return None
    if statistics.stdev(sample) == 0:
        return 0.0 if sample[0] != entry.paper.mean else 1.0
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(sample, entry.paper.mean).pvalue)


def standings_as_markdown(cells: Sequence[Standing]) -> str:
    """One table of all cells, with their number at the top."""
    counts = _counts(cells)
    lines = [
        f"{len(cells)} cells: {counts[AT_OR_BETTER]} at or better than printed, {counts[BELOW]} below, "
        f"{counts[NOT_RUN]} not run.",
        "",
        "| table | row | data | ours | paper | difference | | significant | a draw's luck |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        ours, paper, decimals = cell.entry.ours, cell.entry.paper, cell.entry.decimals
        assert paper is not None  # they are the paper's cells
        number = difference = "–"
        if ours is not None:
            spread = f" ± {ours.std:.{decimals}f}" if math.isfinite(ours.std) else ""
            # Of a row with products of its own the values say nothing of them.
            marks = ours.marks if ours.by_products or not cell.by_products else PRODUCTS + ours.marks
            number = f"{ours.mean:.{decimals}f}{spread} ({ours.num_runs}){marks}"
            number += "" if cell.linear is None else f", linear {cell.linear.mean:.{decimals}f}"
            number += "" if ours.plain is None else f", without GCNII {ours.plain.mean:.{decimals}f}"
            difference = f"{ours.mean - paper.mean:+.{decimals}f}".replace("-", "−")
        lines.append(
            f"| {cell.table} | {cell.label} | {cell.column} | {number} | {paper.mean:.{decimals}f} | {difference} | "
            f"{cell.verdict} | {_significance(cell)} | {_luck(cell)} |"
        )
    earlier = any(cell.entry.ours is not None and cell.entry.ours.earlier for cell in cells)
    lines += ["", f"{EARLIER} {_EARLIER_NOTE}"] if earlier else []
    lines += ["", *([f"{PRODUCTS} {_PRODUCTS_NOTE}"] if any(cell.by_products for cell in cells) else [])]
    deep = any(cell.entry.ours is not None and cell.entry.ours.by_gcnii for cell in cells)
    lines += ["", f"{DEEP} {_GCNII_NOTE}"] if deep else []
    lines += ["", _LUCK_NOTE] if any(_luck(cell) != "–" for cell in cells) else []
    return "\n".join(lines).rstrip("\n") + "\n"


def counts_as_markdown(cells: Sequence[Standing]) -> str:
    """How many cells of each table came out how, and how many of those below are so by more than chance."""
    lines = ["| table | cells | at or better | below | of these significantly | not run |", "|---|---|---|---|---|---|"]
    parts = {str(number): [cell for cell in cells if cell.table == number] for number in _NUMBERS}
    for name, part in {**parts, "all": cells}.items():
        counts = _counts(part)
        clear = sum(cell.verdict == BELOW and cell.p_value is not None and cell.p_value < LEVEL for cell in part)
        found = (len(part), counts[AT_OR_BETTER], counts[BELOW], clear, counts[NOT_RUN])
        lines.append(f"| {name} | {' | '.join(map(str, found))} |")
    return "\n".join(lines) + "\n"


def _counts(cells: Sequence[Standing]) -> dict[str, int]:
    return {verdict: sum(cell.verdict == verdict for cell in cells) for verdict in VERDICTS}


_EARLIER_NOTE = "from an earlier, smaller search; not rerun yet"

_PRODUCTS_NOTE = (
    "validation prefers products of the trajectory as K_embed, which goes beyond the paper (operators, normalisation "
    "and architecture are the row's); *linear* is the result with the paper's linear K_embed"
)

_GCNII_NOTE = (
    "validation chose GCNII as the backbone, which goes beyond the paper and was tried with every row of the data set; "
    "*without GCNII* is the best result with a GCN or a perceptron"
)

_LUCK_NOTE = (
    "a draw's luck: each run keeps its best epoch by the validation score of one draw; this is how much higher that "
    "score is than the score of predictions averaged over draws. 0.00 means that a model hardly reads what is drawn"
)


def _luck(cell: Standing) -> str:
    luck = None if cell.entry.ours is None else cell.entry.ours.luck
    # + 0.0: what rounds to zero has no sign.
    return "–" if luck is None else f"{round(luck, 2) + 0.0:+.2f}".replace("-", "−").replace("+0.00", "0.00")


def _significance(cell: Standing) -> str:
    if cell.p_value is None:
        return "–" if cell.entry.ours is None else "one run"
    return f"{'yes' if cell.p_value < LEVEL else 'no'} (p = {cell.p_value:.2g})"
