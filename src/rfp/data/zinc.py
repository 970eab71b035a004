"""ZINC-12k (Dwivedi et al. 2020): constrained solubility of molecules of at most 38 atoms.

PyG's ``ZINC`` unpickles the raw files as they are; here they go through the restricted reader of
:mod:`rfp.data.pickles`, and the graphs are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.pickles import load_tensors
from rfp.data.splits import masks_of_consecutive
from rfp.data.tasks import PARTS, Task
from rfp.errors import FileError

RAW = "ZINC/raw"
RAW_NAMES = [f"{part}.{suffix}" for suffix in ("pickle", "index") for part in PARTS]
_SAME_MOLECULES = (
    "ZINC: the .index files are 0, 1, 2, …, so which molecules these are was decided by whoever made the .pickle "
    "files; they need not be the official ten thousand for training (see the data root's own description)"
)


def read_zinc(root: Path, task: Task) -> LoadedTask:
    """Read the molecules that ``{train,val,test}.index`` name, in this order.

    ``x`` is the atom type ``[n, 1]``, ``edge_attr`` the bond type ``[m]`` (1, 2, 3), ``y`` ``[graphs, 1]``. Takes about
    15 s: each tensor in the pickles is a file of its own.
    """
    folder = root / RAW
    atoms, bonds, kinds, targets, sizes = [], [], [], [], []
    identity = True
    for part in PARTS:
        chosen = _index(folder / f"{part}.index")
        identity &= chosen == list(range(len(chosen)))
        path = folder / f"{part}.pickle"
        # The files as downloaded hold twenty times as many molecules.
        for number, molecule in zip(chosen, load_tensors(path, items=chosen), strict=True):
            x, edge_index, edge_attr, y = _molecule(molecule, number, path)
            atoms.append(x)
            bonds.append(edge_index)
            kinds.append(edge_attr)
            targets.append(y)
        sizes.append(len(chosen))
    graphs = GraphCollection.from_sizes(
        torch.cat(bonds, dim=1),
        torch.tensor([len(x) for x in atoms]),
        torch.tensor([len(kind) for kind in kinds]),
        nodes={"x": torch.cat(atoms)},
        edges={"edge_attr": torch.cat(kinds)},
    )
    notes = (_SAME_MOLECULES,) if identity else ()
    return LoadedTask(
        task, graphs.check(), torch.cat(targets)[:, None], masks_of_consecutive(sizes), str(folder), notes=notes
    )


def _index(path: Path) -> list[int]:
    try:
        return [int(number) for number in path.read_text().strip().split(",")]
    except ValueError as error:
        raise FileError(
            f"{path}: expected whole numbers with commas between ({error}); fetch the file again"
        ) from error


def _molecule(molecule: Any, number: int, path: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    try:
        adjacency = molecule["bond_type"]
        edge_index = adjacency.nonzero().t()
        edge_attr = adjacency[edge_index[0], edge_index[1]].long()
        x = molecule["atom_type"].long().view(-1, 1)
        return x, edge_index, edge_attr, molecule["logP_SA_cycle_normalized"].float().view(1)
    except (IndexError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise FileError(
            f"{path}: molecule {number} is not a dict of atom_type, bond_type and logP_SA_cycle_normalized "
            f"({type(error).__name__}: {error}); fetch the file again"
        ) from error
