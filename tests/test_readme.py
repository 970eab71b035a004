"""The README shows the committed measurements, not others."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_its_tables_are_rendered_from_the_result_files() -> None:
    spec = importlib.util.spec_from_file_location("render_readme", ROOT / "benchmarks" / "render_readme.py")
    assert spec is not None
    assert spec.loader is not None
    renderer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(renderer)
    text = (ROOT / "README.md").read_text()
    assert renderer.rendered(text) == text, "run python benchmarks/render_readme.py"
