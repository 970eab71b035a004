"""Write the table of all RFP cells into docs/experiments.md: python docs/cells.py."""

from pathlib import Path

from rfp.reproduce.standing import as_markdown, standings
from rfp.train import read_results

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "experiments.md"
BEGIN, END = "<!-- cells: begin -->\n", "<!-- cells: end -->\n"


def page() -> str:
    """The page with the table as the result files have it."""
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + as_markdown(standings(read_results(ROOT / "results"))) + END + after


if __name__ == "__main__":
    PAGE.write_text(page())
