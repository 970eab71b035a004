"""The reference: a page for each public module, written anew with each build, so that no name can be forgotten.

A public module is any file of ``rfp`` whose path has no part that begins with an underscore, but for commands (which
have their own page) and GPU kernels. Its public names are ``__all__``, or else the functions, classes and constants
that it defines without a leading underscore. A name is documented once, at the first module in the order below that
offers it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from generated_files import DOCS, PARTS, write
from sphinx.application import Sphinx

import rfp

FOLDER = DOCS / "reference"
# Group -> what a user imports, in order of reading; every other public module is listed under the last group.
FACES = {
    "Encoding": ["rfp", "rfp.operators", "rfp.normalization", "rfp.features", "rfp.new_nodes", "rfp.hetero"],
    "What it estimates": ["rfp.products", "rfp.links"],
    "Larger than memory": ["rfp.streaming", "rfp.partitioned", "rfp.cache"],
    "PyTorch Geometric": ["rfp.transforms", "rfp.nn", "rfp.baselines"],
    "Other libraries": ["rfp.sklearn", "rfp.integrations"],
    "Theory": ["rfp.theory", "rfp.theory.constructions"],
    "Files and data": ["rfp.io", "rfp.data", "rfp.data.metrics", "rfp.data.counting_generator"],
    "Experiments and pictures": ["rfp.train", "rfp.reproduce", "rfp.viz"],
}
INSIDE = "Inside the house"
NOT_PUBLIC = ("rfp.cli",)
_HOMES: dict[int, str] = {}  # identity of a class or function -> the name it is documented under


@dataclass(frozen=True)
class Page:
    """A module and the names that are documented on its page."""

    module: ModuleType
    names: list[str]

    @property
    def name(self) -> str:
        return self.module.__name__


def public_modules() -> list[str]:
    """Names of all public modules, the package first."""
    found = ["rfp"]
    for info in pkgutil.walk_packages(rfp.__path__, "rfp."):
        last = info.name.rpartition(".")[2]
        kernels = last.startswith("triton_")
        if not (kernels or any(part.startswith("_") for part in info.name.split("."))):
            found.append(info.name)
    return [name for name in found if not name.startswith(NOT_PUBLIC)]


def public_names(module: ModuleType) -> list[str]:
    """What a module offers."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("_")]
    return [
        name for name, value in vars(module).items() if not name.startswith("_") and _defined_in(module, name, value)
    ]


def _defined_in(module: ModuleType, name: str, value: Any) -> bool:
    if inspect.ismodule(value):
        return False
    if inspect.isclass(value) or inspect.isroutine(value):
        return bool(value.__module__ == module.__name__)
    return name.isupper() and f"\n{name}" in inspect.getsource(module)


def pages() -> dict[str, list[Page]]:
    """Every page by its group."""
    modules = public_modules()
    groups = {group: [name for name in names if name in modules] for group, names in FACES.items()}
    listed = {name for names in groups.values() for name in names}
    groups["Other libraries"] += [m for m in modules if m.startswith("rfp.integrations.") and m not in listed]
    listed = {name for names in groups.values() for name in names}
    groups[INSIDE] = sorted(name for name in modules if name not in listed)
    found: dict[str, list[Page]] = {}
    for group, names in groups.items():
        for module in map(import_module, names):
            fresh = [name for name in public_names(module) if not _has_home(module, name)]
            if fresh or (module.__doc__ and group != INSIDE):
                found.setdefault(group, []).append(Page(module, fresh))
    return found


def _has_home(module: ModuleType, name: str) -> bool:
    """Whether a name is documented on an earlier page; it has its home here if not."""
    value = getattr(module, name)
    if inspect.ismodule(value):
        return True
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return False
    here = f"{module.__name__}.{name}"
    return _HOMES.setdefault(id(value), here) != here


def section(page: Page, underline: str, faces: set[str]) -> str:
    """reStructuredText for one module and its names."""
    lines = [page.name, underline * len(page.name), "", f".. automodule:: {page.name}"]
    lines += ["   :no-index:", ""] if page.name in faces else [""]  # a function of the same name has the place
    for name in page.names:
        value = getattr(page.module, name)
        if inspect.isclass(value):
            kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
            inherited = ["   :inherited-members:"] if _built_on_ours(value) else []
            lines += [f".. {kind}:: {page.name}.{name}", "   :members:", *inherited, ""]
        elif inspect.isroutine(value):
            lines += [f".. autofunction:: {page.name}.{name}", ""]
        else:
            lines += [f".. py:data:: {name}", f"   :module: {page.name}", ""]
            lines += [f"   {_comment_above(page.module, name)}", ""]
    return "\n".join(lines)


def _built_on_ours(value: type) -> bool:
    """Whether a class has bases and all of them are ours: what they define is then shown with it."""
    bases = value.__mro__[1:-1]
    return is_dataclass(value) and bool(bases) and all(base.__module__.startswith("rfp.") for base in bases)


def _comment_above(module: ModuleType, name: str) -> str:
    """What the source says about a constant, in the lines above it; the names of its choices where it is a table."""
    value = getattr(module, name)
    above = re.search(rf"((?:^#.*\n)+){name}\b", inspect.getsource(module), re.MULTILINE)
    words = [re.sub(r"([*`_|\\])", r"\\\1", line.lstrip("# ")) for line in above[1].splitlines()] if above else []
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        words.append("Choices: " + ", ".join(f"``{key}``" for key in value) + ".")
    return " ".join(words)


def files(groups: dict[str, list[Page]]) -> dict[str, str]:
    """Name of a page -> its text: one for each module that users import, one for each part of the house."""
    faces = {f"{page.name}.{name}" for members in groups.values() for page in members for name in page.names}
    parts: dict[str, list[Page]] = {}
    for page in groups[INSIDE]:
        part = ".".join(page.name.split(".")[:2])
        parts.setdefault(part if hasattr(import_module(part), "__path__") else "rfp", []).append(page)
    texts = {page.name: section(page, "=", faces) for g, ps in groups.items() if g != INSIDE for page in ps}
    for part, members in parts.items():
        title = f"Inside {part}"
        texts[f"inside-{part}"] = "\n".join([title, "=" * len(title), "", *(section(p, "-", faces) for p in members)])
    return texts


def contents_text(groups: dict[str, list[Page]], names: Iterable[str]) -> str:
    """The table of contents of the reference, in Markdown."""
    lines = []
    for group, members in groups.items():
        if group != INSIDE:
            lines += [f"## {group}", "", "| module | what it is |", "|---|---|"]
            lines += [f"| [`{page.name}`]({page.name}.rst) | {_summary(page.module)} |" for page in members]
            lines += ["", "```{toctree}", ":hidden:", "", *(page.name for page in members), "```", ""]
    inside = [name for name in names if name.startswith("inside-")]
    return "\n".join([*lines, f"## {INSIDE}", "", "```{toctree}", "", *inside, "```", ""])


def _summary(module: ModuleType) -> str:
    text = " ".join((module.__doc__ or "").strip().split("\n\n")[0].split()).replace("|", "\\|")
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")


def generate(app: Sphinx) -> None:
    groups = pages()
    texts = files(groups)
    for path in FOLDER.glob("*.rst"):
        if path.stem not in texts:
            path.unlink()  # of a module that is gone
    for name, text in texts.items():
        write(FOLDER / f"{name}.rst", text)
    write(PARTS / "reference.md", contents_text(groups, texts))


def resolve(app: Sphinx, env: Any, node: Any, text: Any) -> Any:
    """A reference to where an object is defined leads to where it is documented.

    What exists without a place of its own (a type variable, a private class in a signature) stays plain text; what does
    not exist stays a warning.
    """
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not target.startswith("rfp"):
        return None
    found = _look_up(target)
    if found is None:
        return None
    value, path = found
    home = _HOMES.get(id(value))
    if home is None:
        return text
    domain = env.domains.python_domain
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", ".".join([home, *path]), node, text)


def _look_up(target: str) -> tuple[Any, list[str]] | None:
    """The module member that a dotted name means, and the attribute of it that is meant, if one is."""
    parts = target.split(".")
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        with contextlib.suppress(ImportError, AttributeError, ValueError):
            if importlib.util.find_spec(name) is None:
                continue
            module = import_module(name)
            if cut == len(parts):
                return module, []
            value = getattr(module, parts[cut])
            for part in parts[cut + 1 :]:
                getattr(value, part)
            return value, parts[cut + 1 :]
    return None


def _footnote(label: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"[#{label}-{found[1] or found[2]}]"


def prepare(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make a docstring fit to stand on a page with others, before Napoleon reads it.

    Footnotes are numbered in each docstring by itself: they get names. Napoleon takes what stands before a colon in the
    first line of a property for its type: an empty comment stops it.
    """
    label = name.replace(".", "-")
    lines[:] = [re.sub(r"(?<=\.\. )\[(\d+)\](?= )|(?<=\s)\[(\d+)\](?=_)", _footnote(label), line) for line in lines]
    if what in ("property", "attribute", "data") and lines:
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", generate)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-docstring", prepare, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
