"""The layers: a module imports from smaller numbers only; importing and asking for help stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rfp

ROOT = Path(rfp.__file__).parent
# First parts of the modules' names after `rfp.`; each imports from lines above its own.
ORDER = [
    ["_version", "available", "errors", "hashing", "kernel_looks", "memo", "pages", "precision", "ragged", "rounding"],
    ["atomic", "csr", "differentiable_once", "durations", "environment", "plain_values"],
    ["triton_last_program", "triton_launch"],
    ["compiled", "node_offsets", "triton_hashing"],
    ["triton_norms", "triton_pattern"],
    ["graph", "triton_features"],
    ["edge_table", "features", "operators", "normalization"],
    ["operator_norms"],
    ["conversion", "report", "settings"],
    ["backends"],
    ["sinks"],
    ["one_loop"],
    ["trajectory"],
    ["propagate"],
    ["estimate", "cache"],
    ["encode"],
    ["io", "new_nodes", "products", "theory", "streaming"],
    ["baselines", "hetero", "links", "partitioned", "sklearn"],
    ["file_contents", "transforms"],
    ["encode_file"],
    ["step_clock"],
    ["encode_folder"],
    ["nn"],
    ["data", "integrations"],
    ["train"],
    ["bench"],
    ["viz"],
    ["reproduce"],
    ["explorer"],
    ["cli"],
    ["__main__"],
]
LAYERS = {name: layer for layer, names in enumerate(ORDER) for name in names}
# Modules that only an extra brings; `import rfp` must not touch them.
HEAVY = (
    "matplotlib",
    "numba",
    "triton",
    "lightning",
    "networkx",
    "pandas",
    "pyarrow",
    "typer",
    "rich",
    "ogb",
    "dask",
    "duckdb",
    "starlette",
    "narwhals",
    "sklearn",
)


def imported_parts(source: str) -> set[str]:
    """First parts of the rfp modules a file imports, at its top or in a function, by path or through the package."""
    parts = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "rfp" else [node.module]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            names = [part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)][:1]
        for name in names:
            if name == "rfp":  # whoever has the package has all of its public names
                parts |= set(rfp._HOMES.values())
            elif isinstance(name, str) and name.startswith("rfp."):
                part = name.split(".")[1]
                parts.add(rfp._HOMES.get(part, part))
    return parts


def upward(own: str, source: str) -> list[str]:
    """Which imports of a file, whose module name begins with ``own``, are not of a smaller layer."""
    return sorted(part for part in imported_parts(source) if part != own and LAYERS[part] >= LAYERS[own])


def test_modules_import_downwards_only() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        own = path.relative_to(ROOT).with_suffix("").parts[0]
        if own != "__init__":
            wrong += [f"{path.relative_to(ROOT)} imports {part}" for part in upward(own, path.read_text())]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "from rfp.encode import encode",
        "import rfp.encode",
        "from rfp import encode",
        "import rfp",
        "def later():\n    import rfp\n    return rfp.encode",
        "def later():\n    import rfp as package\n    return package.new_nodes",
        "def later():\n    from rfp import encode",
        "from importlib import import_module\nlater = import_module('rfp.encode')",
        "import importlib\ndef later(name):\n    return importlib.import_module(f'rfp.encode.{name}')",
    ],
)
def test_no_way_up_is_hidden(source: str) -> None:
    assert "encode" in upward("trajectory", source)
    assert "encode" not in upward("cli", source)


# Public names of several packages, the same thing in each: scikit-learn's estimator and the module; `rfp.encode` and
# `rfp.partitioned.encode`; `rfp.data.load` and `rfp.new_nodes.load`. And what starts a program.
SEVERAL = {"RandomFeaturePropagation", "encode", "load", "main"}


def public_names(path: Path) -> set[str]:
    """The classes, functions and constants that a file defines at its top."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        parts = [part for target in targets if target is not None for part in ast.walk(target)]
        names |= {part.id for part in parts if isinstance(part, ast.Name) and part.id.isupper()}
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")}


def homes_of(names: dict[Path, set[str]]) -> dict[str, list[str]]:
    homes: dict[str, list[str]] = {}
    for path, found in names.items():
        for name in found:
            homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return {name: found for name, found in homes.items() if len(found) > 1}


def test_a_name_stands_once() -> None:
    twice = homes_of({path: public_names(path) for path in sorted(ROOT.rglob("*.py"))})
    assert {name: found for name, found in twice.items() if name not in SEVERAL} == {}


def test_a_file_has_a_name_of_its_own() -> None:
    """But for the verbs of the command, which are called as the user calls them."""
    files = [path for path in sorted(ROOT.rglob("*.py")) if path.stem != "__init__" and path.parent != ROOT / "cli"]
    assert homes_of({path: {path.stem} for path in files}) == {}


def test_every_file_has_a_layer() -> None:
    parts = {path.relative_to(ROOT).with_suffix("").parts[0] for path in ROOT.rglob("*.py")} - {"__init__"}
    assert parts - set(LAYERS) == set()


# What a first `import rfp` must not cost; torch and NumPy are what the mathematics needs.
NOT_AT_IMPORT = (*HEAVY, "scipy", "torch_geometric", "sklearn", "torch._dynamo", "torch._inductor", "torch.onnx")


def loaded_by(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after running ``code``."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(['', *sys.modules]))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = loaded_by("import rfp")
    assert not {"torch", "numpy", "scipy"} & loaded
    assert {name for name in loaded if name.startswith("rfp.")} == {"rfp._version"}


def test_all_public_names_load_little_beside_torch() -> None:
    loaded = loaded_by("import rfp\nfor name in rfp.__all__: getattr(rfp, name)")
    assert not loaded & set(NOT_AT_IMPORT)
    more = loaded - loaded_by("import torch, numpy.typing")
    assert {name.split(".")[0] for name in more} == {"rfp"}
    assert len(more) < 70


def test_help_and_version_load_no_numbers() -> None:
    for argument in ("--help", "--version"):
        call = f"import sys; sys.argv = ['rfp', {argument!r}]\nfrom rfp.cli.main import main"
        loaded = loaded_by(f"{call}\ntry: main()\nexcept SystemExit: pass")
        assert not loaded & {*NOT_AT_IMPORT, "torch", "numpy", "scipy"} - {"typer"}
        assert len(loaded) < 250


def _loaded_by_encoding(edges: Path, output: Path) -> set[str]:
    call = f"import sys; sys.argv = ['rfp', 'encode', {str(edges)!r}, '-o', {str(output)!r}]"
    loaded = loaded_by(f"{call}\nfrom rfp.cli.main import main\ntry: main()\nexcept SystemExit: pass")
    assert output.exists()
    return loaded


def test_encoding_a_small_file_loads_what_it_uses(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target,weight\n5,1,0.5\n1,2,2\n")
    loaded = _loaded_by_encoding(edges, tmp_path / "e.npy")
    unused = {"polars", "scipy", "sympy", "llvmlite", "rfp.partitioned"}
    assert not loaded & (unused | set(NOT_AT_IMPORT) - {"typer"})
    assert len(loaded - loaded_by("import torch, typer")) < 165


def test_public_names_win_over_submodules() -> None:
    code = (
        "import rfp, rfp.encode, rfp.estimate, rfp.propagate\n"
        "from rfp.encode import encode as function\n"
        "assert rfp.encode is function and callable(rfp.estimate) and callable(rfp.propagate)\n"
        "assert rfp.normalization.l2 and rfp.theory.count_triangles\n"  # submodules come at their first use
        "assert set(rfp.__all__) <= set(dir(rfp))\n"
        "assert not hasattr(rfp, 'no_such_name')\n"
        "rfp.encode = None; assert rfp.encode is None\n"  # and can be replaced, as any name of a module
    )
    loaded_by(code)


def test_type_checkers_see_the_same_public_names() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text())
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rfp.")
        for alias in node.names
        if alias.name != "__version__"
    }
    assert seen == {name: f"rfp.{home}" for name, home in rfp._HOMES.items()}
    assert all(alias.isidentifier() for alias in seen)


def test_import_is_light_and_acts_on_nothing() -> None:
    code = (
        "import os, sys, torch, torch_geometric, numpy, scipy.sparse\n"
        "loaded, environment = set(sys.modules), dict(os.environ)\n"
        "seed, precision = torch.initial_seed(), torch.get_float32_matmul_precision()\n"
        "import rfp; [getattr(rfp, name) for name in rfp.__all__]\n"
        f"new = {{m.split('.')[0] for m in set(sys.modules) - loaded}} & set({HEAVY!r})\n"
        "assert not new, new\n"
        "assert dict(os.environ) == environment\n"
        "assert torch.initial_seed() == seed\n"
        "assert torch.get_float32_matmul_precision() == precision\n"
        "assert torch.is_grad_enabled()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
