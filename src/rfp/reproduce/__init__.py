"""The paper's tables: what is run for each cell, and ours beside theirs."""

from rfp.reproduce.compare import Comparison, compare
from rfp.reproduce.defaults import default_config
from rfp.reproduce.paper import PaperNumber, disagreements, paper_numbers
from rfp.reproduce.spec import Cell, Column, TableSpec
from rfp.reproduce.tables import TABLES

__all__ = [
    "TABLES",
    "Cell",
    "Column",
    "Comparison",
    "PaperNumber",
    "TableSpec",
    "compare",
    "default_config",
    "disagreements",
    "paper_numbers",
]
