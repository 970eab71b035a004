"""The benchmark of products inside the propagation compares itself with the plain form, gradients included."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interpreter import run_interpreted

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "on_chip_products.py"

CODE = f"""
import runpy
from contextlib import redirect_stdout
from io import StringIO

from rfp.bench.generated_graphs import molecule_like

names = runpy.run_path({str(SCRIPT)!r})
said = StringIO()
with redirect_stdout(said):
    for weighted in (False, True):
        names["gate"](names["OneBatch"](molecule_like(2), 20, 2, 16, weighted=weighted))
assert said.getvalue().count("differs by") == 2 * 4, said.getvalue()

batch = names["OneBatch"](molecule_like(1), 4, 1, 16, weighted=True)
batch.on_chip = lambda: batch.plain()[0] * 1.001
try:
    with redirect_stdout(said):
        names["gate"](batch)
except SystemExit as error:
    print("equal" if "y is wrong" in str(error) else error)
"""


@pytest.mark.slow
def test_is_compared_with_the_plain_form() -> None:
    run_interpreted(CODE)
