"""The wheel: complete, and enough of itself. Run by ``make dist`` after the build.

For each extra there is a folder that holds the wheel and exactly the packages that the extra declares, with what those
need, linked from the environment of development: what is not declared cannot be imported. Without extras and with all
of them pip installs the wheel into an environment of its own, and finds there what it declares. Nothing is downloaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rfp import __version__
from tests.branches import Answer, Branches

ROOT = Path(__file__).resolve().parent.parent
WHEEL = ROOT / "dist" / f"torch_rfp-{__version__}-py3-none-any.whl"
SDIST = ROOT / "dist" / f"torch_rfp-{__version__}.tar.gz"
# What the wheel itself declares, not what an older installation of the project did.
OURS: Distribution = PathDistribution(zipfile.Path(WHEEL, f"torch_rfp-{__version__}.dist-info/"))
RING = "(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)"
# Extra -> what must work with it alone: lines of Python, or of the command rfp.
WORKS: dict[str, list[str]] = {
    "": [
        f"import rfp, torch; rfp.encode({RING}, num_channels=2)",
        "import rfp.nn, rfp.transforms, rfp.theory, rfp.baselines, rfp.products, rfp.streaming, rfp.io, rfp.data",
    ],
    "cli": [
        "rfp encode karate.csv -k 2 -P 2 -o karate.parquet --quiet",
        "rfp plot karate.csv -k 2 -P 2 -o karate.png",
        "rfp count karate.csv --pattern triangle --exact",
    ],
    "cluster": ["import distributed, bokeh, rfp.partitioned"],
    "explore": ["import rfp.explorer.app, rfp.explorer.server", "rfp explore --help"],
    "fast": ["import numba; from rfp.available import compiled_available; assert compiled_available()"],
    "frames": ["import pyarrow, rfp; rfp.read_graph(pyarrow.table({'source': [0, 1], 'target': [1, 2]}))"],
    "graphgym": ["import rfp.integrations.graphgym"],
    "large": ["import rfp.partitioned, duckdb, pyarrow"],
    "sklearn": ["from rfp.sklearn import RandomFeaturePropagation"],
    "train": ["import rfp.train, rfp.reproduce, lightning, optuna, yaml"],
}
# Runs them in one process; a line that fails is named.
SCRIPT = """
import sys
sys.path.insert(0, {site!r})
for line in {lines!r}:
    try:
        if line.startswith("rfp "):
            sys.argv = line.split()
            from rfp.cli.main import main
            main()
        else:
            exec(line, {{}})
    except SystemExit as stop:
        if stop.code:
            raise RuntimeError(f"{{line}}: exit code {{stop.code}}") from stop
    except Exception as error:
        raise RuntimeError(line) from error
"""


def declared(extra: str) -> dict[str, Path]:
    """Packages that ``torch-rfp[extra]`` brings, with what they need: name of a file or folder -> where it lies."""
    found: dict[str, Path] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [("torch-rfp", extra)]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            package = OURS if name == "torch-rfp" else distribution(name)
        except PackageNotFoundError:
            continue  # for another system
        if name != "torch-rfp":
            tops = {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}
            found |= {top: Path(str(package.locate_file(top))) for top in tops}
        for text in package.requires or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": wanted}):
                waiting += [(canonical(need.name), one) for one in need.extras or [""]]
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def link(extra: str, folder: Path) -> None:
    """Put the declared packages into a folder that is to be on Python's path."""
    for name, place in declared(extra).items():
        if place.exists() and not (folder / name).exists():
            (folder / name).symlink_to(place)


def environment(folder: Path, extra: str) -> Path:
    """A folder to be put on Python's path: the wheel and the declared packages."""
    site = folder / "site"
    site.mkdir()
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(site)
    link(extra, site)
    return site


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Branches]:
    """Processes that know the standard library, and torch and what else is declared without any extra, loaded once."""
    base = tmp_path_factory.mktemp("base")
    link("", base)
    prelude = f"sys.path.insert(0, {str(base)!r})\nimport numpy, scipy.sparse, torch, torch_geometric.data"
    found = Branches(prelude, options=("-S", "-E", "-s"))
    yield found
    found.close()


def run_there(branches: Branches, site: Path, lines: list[str]) -> Answer:
    """Run lines with that folder first on the path."""
    return branches.run(site.parent, "lines", SCRIPT.format(site=str(site), lines=lines))


@pytest.mark.parametrize("extra", WORKS)
def test_what_an_extra_declares_is_enough(branches: Branches, extra: str, tmp_path: Path) -> None:
    site = environment(tmp_path, extra)
    shutil.copy(ROOT / "examples" / "karate.csv", tmp_path)
    done = run_there(branches, site, WORKS[extra])
    assert done.status == 0, f"[{extra}]\n{done.output}"


def test_every_extra_for_users_is_tried() -> None:
    extras = set(OURS.metadata.get_all("Provides-Extra") or [])
    assert extras - {"all", "bench", "dev", "docs"} == WORKS.keys() - {""}


def test_a_command_without_its_extra_names_it(branches: Branches, tmp_path: Path) -> None:
    done = run_there(branches, environment(tmp_path, ""), ["rfp --version"])
    assert done.status != 0
    assert "torch-rfp[cli]" in done.output


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else() -> None:
    tracked = subprocess.run(["git", "ls-files", "src/rfp"], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {name.removeprefix("src/") for name in tracked.stdout.split()}
    with zipfile.ZipFile(WHEEL) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = {name.partition(".dist-info/")[2] for name in wheel.namelist()} - {""}
    assert held == wanted
    assert {"rfp/py.typed", "rfp/explorer/static/index.html", "rfp/reproduce/paper.csv"} <= held
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE"} <= about


def test_the_source_distribution_builds_the_same_package() -> None:
    with tarfile.open(SDIST) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(WHEEL) as wheel:
        held = {f"src/{name}" for name in wheel.namelist() if ".dist-info/" not in name}
    assert held <= names
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "constraints.txt"} <= names
    assert not any(name.startswith((".venv", "docs/_build", ".data")) for name in names)
    assert SDIST.stat().st_size < 20_000_000


def pythons() -> list[str]:
    """An interpreter of each version: on the path, or kept by pyenv, whose names on the path may not run."""
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = []
    for minor in (11, 12, 13, 14):
        on_path = shutil.which(f"python3.{minor}")
        places = [*([on_path] if on_path else []), *map(str, sorted(kept.glob(f"3.{minor}.*/bin/python3.{minor}")))]
        running = (place for place in places if subprocess.run([place, "-V"], capture_output=True).returncode == 0)
        found += [place for place in [next(running, None)] if place]
    return found


def venv(python: str, folder: Path, packages: Path | None = None) -> Path:
    """The interpreter of a new environment; the packages of a folder are seen in it as if installed."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    if packages is not None:
        site = next((folder / "lib").glob("python3.*")) / "site-packages"
        (site / "packages.pth").write_text(f"{packages}\n")
    return folder / "bin" / "python"


def install(inside: Path, *what: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(inside), "install", "--quiet", "--no-index", "--no-compile"]
    command += what
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_it_installs_into_an_empty_environment(python: str, tmp_path: Path) -> None:
    """By pip, into a new environment without any package; what needs none of them works there."""
    inside = venv(python, tmp_path / "venv")
    install(inside, "--no-deps", str(WHEEL))
    code = "import rfp, sys; assert sys.prefix in rfp.__file__; print(rfp.__version__, 'torch' in sys.modules)"
    done = subprocess.run([str(inside), "-E", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [__version__, "False"]
    assert (tmp_path / "venv" / "bin" / "rfp").exists()
    if Path(python).name != f"python3.{sys.version_info.minor}":  # the tests compile what they import for theirs
        package = tmp_path / "venv" / "lib" / Path(python).name / "site-packages" / "rfp"
        subprocess.run([str(inside), "-m", "compileall", "-q", str(package)], check=True)


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("", ["python", "-E", "-c", WORKS[""][0]]),
        ("all", ["rfp", "encode", "karate.csv", "-k", "2", "--backend", "sparse", "-o", "karate.parquet", "--quiet"]),
    ],
    ids=["without extras", "all extras"],
)
def test_pip_finds_what_the_wheel_declares(extra: str, command: list[str], tmp_path: Path) -> None:
    """In a new environment whose other packages are those that the extra declares: pip resolves and adds the wheel."""
    (tmp_path / "packages").mkdir()
    link(extra, tmp_path / "packages")
    inside = venv(sys.executable, tmp_path / "venv", tmp_path / "packages")
    install(inside, f"{WHEEL}[{extra}]" if extra else str(WHEEL))
    shutil.copy(ROOT / "examples" / "karate.csv", tmp_path)
    environment = {"PATH": f"{inside.parent}", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [str(inside.parent / command[0]), *command[1:]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
