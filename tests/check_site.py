"""The built site: complete, without dead links, and at work from the file system. Run by ``make docs`` after the build.

It is no part of ``make test``, which needs no site.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from sphinx.util.inventory import InventoryFile

import rfp
from tests.explorer.browser import CHROMIUM, FLAGS

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "_build" / "html"
SOURCE = ROOT / "src" / "rfp"
# Attributes by which a page loads something, or leads somewhere.
LOADS = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """Ids, links and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.ids |= {found["id"]} if "id" in found else set()
        self.ids |= {found["name"]} if tag == "a" and "name" in found else set()
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADS and LOADS[tag] in found and found.get("rel") not in ("index", "search", "next", "prev"):
            self.loads.append(found[LOADS[tag]])


@cache
def page(path: Path) -> Page:
    return Page(path.read_text())


def pages() -> list[Path]:
    found = sorted(SITE.rglob("*.html"))
    assert len(found) > 30, "run: make docs"
    return found


def inside(path: Path, address: str) -> tuple[Path, str] | None:
    """The file and the anchor that an address on a page means, if it is of this site."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    return target, unquote(parts.fragment)


def test_links_inside_the_site_lead_somewhere() -> None:
    dead = []
    for path in pages():
        for address in page(path).links:
            found = inside(path, address)
            if found is None:
                continue
            target, anchor = found
            known = target.exists() and (not anchor or target.suffix != ".html" or anchor in page(target).ids)
            dead += [] if known else [f"{path.relative_to(SITE)}: {address}"]
    assert dead == []


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in pages():
        for address in page(path).loads:
            if address.startswith("data:"):
                continue
            found = inside(path, address)
            assert found is not None, f"{path.relative_to(SITE)} loads {address}"
            assert found[0].exists(), f"{path.relative_to(SITE)}: there is no {address}"


def public_names(source: str) -> Iterator[str]:
    """Names of ``__all__``, or else classes, functions and constants without an underscore, as the source has them."""
    tree = ast.parse(source)
    own = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            # Code that Numba writes into kernels is no function that could be called.
            inside_kernels = any(ast.unparse(made).startswith("intrinsic") for made in node.decorator_list)
            own += [] if inside_kernels else [node.name]
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if not isinstance(target, ast.Name):
                continue
            if target.id == "__all__" and isinstance(node.value, ast.List):
                names = [v.value for v in node.value.elts if isinstance(v, ast.Constant)]
                return (str(name) for name in names if not str(name).startswith("_"))
            if target.id.isupper():
                own.append(target.id)
    return (name for name in own if not name.startswith("_"))


def documented_names() -> set[str]:
    """Full names of what the reference has."""
    with (SITE / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", os.path.join)
    kinds = ("py:class", "py:exception", "py:function", "py:data")
    return {name for kind in kinds for name in inventory.get(kind, {})}


def documented_objects() -> dict[str, list[Any]]:
    """Name -> the objects that the reference has under it, in whatever module."""
    found: dict[str, list[Any]] = {}
    for full_name in documented_names():
        module, _, name = full_name.rpartition(".")
        with contextlib.suppress(ImportError, AttributeError):
            found.setdefault(name, []).append(getattr(import_module(module), name))
    return found


def test_every_public_name_is_in_the_reference() -> None:
    documented = documented_objects()
    everything = [value for values in documented.values() for value in values]
    missing, count = [], 0
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        private = any(part.startswith("_") for part in parts)
        if private or parts[:1] == ("cli",) or (parts and parts[-1].startswith("triton_")):
            continue
        module = import_module(".".join(["rfp", *parts]))
        for name in public_names(path.read_text()):
            count += 1
            # Where it is defined, or under the shorter name that users import: the same object.
            value = getattr(module, name)
            named = inspect.isclass(value) or inspect.isroutine(value)
            others = everything if named else documented.get(name, [])
            if not inspect.ismodule(value) and not any(value is other for other in others):
                missing.append(f"{module.__name__}.{name}")
    assert missing == []
    assert count > 500


def test_what_is_imported_from_rfp_itself_is_in_the_reference_under_that_name() -> None:
    names = set(rfp.__all__) - {"__version__"}
    assert len(names) > 15
    assert {f"rfp.{name}" for name in names} - documented_names() == set()


def test_every_command_is_in_the_reference() -> None:
    from rfp.cli.main import VERBS

    ids = page(SITE / "reference" / "commands.html").ids
    assert {f"rfp-{verb}" for verb in VERBS} <= ids


def test_every_page_of_the_sources_is_there() -> None:
    sources = {p.relative_to(ROOT / "docs").with_suffix("") for p in (ROOT / "docs").rglob("*.md")}
    wanted = {str(path) for path in sources if not path.parts[0].startswith("_")}
    assert wanted <= {str(path.relative_to(SITE).with_suffix("")) for path in pages()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("orthonormal start", "concepts/products.html"), ("count_triangles", "reference/rfp.theory.html")],
)
def test_search_works_from_the_file_system(browser: Any, words: str, wanted: str) -> None:
    tab = browser.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.goto((SITE / "index.html").as_uri())
    tab.locator("input[name=q]").first.fill(words)
    tab.locator("input[name=q]").first.press("Enter")
    tab.locator("#search-results a").first.wait_for(timeout=60_000)
    tab.locator(f"#search-results a[href*='{wanted}']").first.wait_for(timeout=60_000)
    assert errors == []
    tab.close()
