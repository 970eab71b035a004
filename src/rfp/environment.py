"""What a number was measured on."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata

import torch

_PACKAGES = ("torch_geometric", "numpy", "scipy", "numba", "triton", "lightning", "optuna", "pycleora", "fastrp")


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return _arm_name() or platform.processor() or platform.machine()


def _arm_name() -> str:
    # Arm cores carry a part number instead of a name.
    parts = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2"}
    try:
        with open("/proc/cpuinfo") as lines:
            found = re.search(r"CPU part\s*:\s*(0x[0-9a-f]+)", lines.read())
    except OSError:
        return ""
    return parts.get(found[1], "") if found else ""


def environment(device: str) -> dict[str, str]:
    """Hardware, versions and thread count, as columns of a result file."""
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "cores": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "packages": "; ".join(versions),
    }


def slug(device: str) -> str:
    """A short name of the machine for file names: ``neoverse-n1-2-cores``."""
    if device == "cuda":
        return re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-")
    name = re.sub(r"\(r\)|\(tm\)|cpu|processor|@.*", "", processor(), flags=re.IGNORECASE)
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}-{os.cpu_count()}-cores"
