"""The README shows the committed measurements, not others."""

import importlib.util
from pathlib import Path
from types import ModuleType

from rfp.bench.result_file import BenchRow

ROOT = Path(__file__).resolve().parent.parent


def loaded_renderer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_readme", ROOT / "benchmarks" / "render_readme.py")
    assert spec is not None
    assert spec.loader is not None
    renderer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(renderer)
    return renderer


def row(name: str, seconds: float) -> BenchRow:
    return BenchRow("large", name, seconds, seconds, seconds, 1, None, None, None, 0, "")


def test_its_tables_are_rendered_from_the_result_files() -> None:
    renderer = loaded_renderer()
    text = (ROOT / "README.md").read_text()
    assert renderer.rendered(text) == text, "run python benchmarks/render_readme.py"


def test_the_best_peer_is_the_fastest_that_is_not_ours() -> None:
    renderer = loaded_renderer()
    names = ["rfp", "rfp, operators ready", "library calls (backend sparse)", "torch.sparse, one product", "a", "b"]
    rows = [row(name, seconds) for name, seconds in zip(names, (1.0, 0.5, 0.1, 0.1, 3.0, 2.0), strict=True)]
    assert renderer.best_peer(rows).name == "b"
    assert renderer.best_peer(rows[:4]) is None
