"""What the project says about itself agrees: version, citation, changelog, issue templates, pins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from rfp import __version__

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_citation_is_of_this_version_and_names_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= citation.keys()
    assert citation["version"] == __version__
    paper = citation["preferred-citation"]
    assert paper["title"] == "Graph Positional Encoding via Random Feature Propagation"
    assert [author["family-names"] for author in paper["authors"]][:2] == ["Eliasof", "Frasca"]


def test_the_changelog_has_a_section_for_this_version_or_what_is_not_released() -> None:
    sections = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] in ("Unreleased", __version__)


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.stem)
def test_issue_templates_are_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert form == {"blank_issues_enabled": False}
        return
    assert {"name", "description", "body"} <= form.keys()
    for field in form["body"]:
        assert field["type"] in ("textarea", "input", "dropdown", "markdown", "checkboxes")
        assert field["attributes"]["label"]
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))


def test_all_brings_every_extra_for_users() -> None:
    extras = PROJECT["optional-dependencies"]
    everything = Requirement(extras["all"][0])
    assert everything.extras == extras.keys() - {"all", "bench", "dev", "docs"}


def test_every_package_that_is_named_is_pinned() -> None:
    def canonical(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    pinned = {canonical(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().split("\n") if line}
    named = [*PROJECT["dependencies"], *(need for needs in PROJECT["optional-dependencies"].values() for need in needs)]
    wanted = {canonical(Requirement(need).name) for need in named} - {"torch-rfp"}
    assert wanted - pinned == set()
