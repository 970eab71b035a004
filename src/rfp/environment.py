"""What a number was measured on."""

from __future__ import annotations

import os
import platform
import re

import torch

from rfp.errors import ArgumentError

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


def find_device(name: str) -> torch.device:
    """The device of this name; ``"auto"`` is a GPU where there is one, else the CPU.

    Raises:
        ArgumentError: There is no such device here.

    >>> find_device("cpu")
    device(type='cpu')
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda" if count else "cpu")
    try:
        device: torch.device | None = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ArgumentError(f"device {name} is not available: torch sees {count} GPUs here; use --device cpu")
    return device


def environment(device: str) -> dict[str, str]:
    """Hardware, versions and thread count, as columns of a result file."""
    from importlib import metadata

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
