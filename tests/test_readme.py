"""The README shows the committed measurements, not others."""

import runpy
from pathlib import Path

from rfp.bench.result_file import BenchRow

ROOT = Path(__file__).resolve().parent.parent


RENDERER = runpy.run_path(str(ROOT / "benchmarks" / "render_readme.py"))


def row(name: str, seconds: float) -> BenchRow:
    return BenchRow("large", name, seconds, seconds, seconds, 1, None, None, None, 0, "")


def test_its_tables_are_rendered_from_the_result_files() -> None:
    text = (ROOT / "README.md").read_text()
    assert RENDERER["rendered"](text) == text, "run python benchmarks/render_readme.py"


def test_the_best_peer_is_the_fastest_that_is_not_ours() -> None:
    names = ["rfp", "rfp, operators ready", "library calls (backend sparse)", "torch.sparse, one product", "a", "b"]
    rows = [row(name, seconds) for name, seconds in zip(names, (1.0, 0.5, 0.1, 0.1, 3.0, 2.0), strict=True)]
    assert RENDERER["best_peer"](rows).name == "b"
    assert RENDERER["best_peer"](rows[:4]) is None
