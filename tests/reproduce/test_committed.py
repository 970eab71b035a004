"""The tables under results/ are what the result files there render to: no number in them was typed."""

from pathlib import Path

import pytest

from rfp.reproduce import TABLES, table_job
from rfp.reproduce.check import check_results

RESULTS = Path(__file__).parents[2] / "results"
COMMITTED = sorted((RESULTS / "tables").glob("table-?.md"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_is_rendered_from_the_result_files(path: Path, tmp_path: Path) -> None:
    number = int(path.stem.split("-")[1])
    job = table_job.TableJob(TABLES[number].only(), RESULTS, tmp_path)
    table_job.render_table(job)
    for suffix in (".md", ".csv"):
        again = (tmp_path / path.name).with_suffix(suffix)
        assert again.read_text() == path.with_suffix(suffix).read_text(), f"run: rfp table {number} --render-only"


def test_there_is_one() -> None:
    assert [path.stem for path in COMMITTED] != []


def test_the_results_agree_with_themselves() -> None:
    checked = check_results(RESULTS)
    assert checked.problems == ()
    assert checked.num_files > 150
