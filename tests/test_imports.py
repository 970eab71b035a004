"""The layers: a module imports from smaller numbers only, and `import rfp` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import rfp

ROOT = Path(rfp.__file__).parent
# The first part of a module's name after `rfp.` -> its layer.
LAYERS = {
    **dict.fromkeys(["_version", "available", "errors", "environment", "hashing", "csr", "precision"], 0),
    **dict.fromkeys(["graph", "triton_features"], 1),
    **dict.fromkeys(["conversion", "features", "operators", "normalization"], 2),
    **dict.fromkeys(["settings", "backends"], 3),
    "propagate": 4,
    **dict.fromkeys(["estimate", "cache"], 5),
    "encode": 6,
    **dict.fromkeys(["io", "theory", "streaming"], 7),
    "baselines": 8,
    "transforms": 9,
    "nn": 10,
    "data": 11,
    **dict.fromkeys(["train", "bench"], 12),
    **dict.fromkeys(["reproduce", "viz"], 13),
    "cli": 14,
    "__main__": 15,
}
# Modules that only an extra brings; `import rfp` must not touch them.
HEAVY = ("matplotlib", "numba", "triton", "lightning", "networkx", "pandas", "pyarrow", "typer", "rich", "ogb", "dask")


def imported_parts(path: Path) -> set[str]:
    """First parts of the rfp modules that a file imports, lazily or not."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "rfp" else [node.module]
        parts |= {name.split(".")[1] for name in names if name.startswith("rfp.")}
    return parts


def test_modules_import_downwards_only() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        own = path.relative_to(ROOT).with_suffix("").parts[0]
        if own == "__init__":
            continue
        wrong += [
            f"{path.relative_to(ROOT)} imports {part}"
            for part in imported_parts(path)
            if part != own and LAYERS[part] >= LAYERS[own]
        ]
    assert wrong == []


def test_every_file_has_a_layer() -> None:
    parts = {path.relative_to(ROOT).with_suffix("").parts[0] for path in ROOT.rglob("*.py")} - {"__init__"}
    assert parts - set(LAYERS) == set()


def test_import_is_light_and_acts_on_nothing() -> None:
    code = (
        "import os, sys, torch, torch_geometric, numpy, scipy.sparse\n"
        "loaded, environment = set(sys.modules), dict(os.environ)\n"
        "seed, precision = torch.initial_seed(), torch.get_float32_matmul_precision()\n"
        "import rfp\n"
        f"new = {{m.split('.')[0] for m in set(sys.modules) - loaded}} & set({HEAVY!r})\n"
        "assert not new, new\n"
        "assert dict(os.environ) == environment\n"
        "assert torch.initial_seed() == seed\n"
        "assert torch.get_float32_matmul_precision() == precision\n"
        "assert torch.is_grad_enabled()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
