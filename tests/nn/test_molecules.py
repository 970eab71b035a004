"""Categorical encoders against plain embedding tables."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import pytest
import torch

from rfp.errors import ArgumentError
from rfp.nn import CategoricalEncoder
from rfp.nn.molecules import ATOM_FEATURES, BOND_FEATURES


@pytest.mark.parametrize("sizes", [*ATOM_FEATURES.values(), *BOND_FEATURES.values()])
def test_equals_the_sum_of_lookups(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    encoder = CategoricalEncoder(sizes, 5)
    x = torch.stack([torch.randint(0, size, (40,)) for size in sizes], dim=1)
    tables = torch.split(encoder.weight, list(sizes))
    expected = sum(table[x[:, f]] for f, table in enumerate(tables))
    assert torch.allclose(encoder(x), expected, atol=1e-6)
    target = torch.randn(40, 5)
    grad = torch.autograd.grad((encoder(x) * target).sum(), encoder.weight)[0]
    by_lookup = torch.autograd.grad((expected * target).sum(), encoder.weight)[0]
    assert torch.allclose(grad, by_lookup, atol=1e-5)


def test_public_sizes() -> None:
    assert ATOM_FEATURES["ogb"] == (119, 5, 12, 12, 10, 6, 6, 2, 2)
    assert BOND_FEATURES["ogb"] == (5, 6, 2)
    assert ATOM_FEATURES["zinc"] == (28,)
    assert BOND_FEATURES["zinc"] == (4,)


def test_one_feature_may_be_flat_and_no_rows_are_fine() -> None:
    encoder = CategoricalEncoder((4,), 3)
    x = torch.tensor([0, 3, 1])
    assert torch.equal(encoder(x), encoder(x[:, None]))
    assert encoder(torch.empty(0, dtype=torch.long)).shape == (0, 3)


def test_bad_values() -> None:
    encoder = CategoricalEncoder((5, 6), 3)
    with pytest.raises(ArgumentError, match=r"feature 1 must be in 0\.\.5, got 6"):
        encoder(torch.tensor([[0, 6]]))
    with pytest.raises(ArgumentError, match=r"feature 0 must be in 0\.\.4, got -1"):
        encoder(torch.tensor([[-1, 0]]))
    with pytest.raises(ArgumentError, match="expected 2 integer features a row"):
        encoder(torch.tensor([0, 1]))
    with pytest.raises(ArgumentError, match=r"got torch\.float32"):
        encoder(torch.zeros(3, 2))


@pytest.mark.data
@pytest.mark.parametrize(("name", "sizes"), [("node-feat", ATOM_FEATURES["ogb"]), ("edge-feat", BOND_FEATURES["ogb"])])
def test_values_of_molhiv_fit_the_tables(name: str, sizes: tuple[int, ...], data_root: Path) -> None:
    with gzip.open(data_root / "ogbg_molhiv" / "raw" / f"{name}.csv.gz", "rt") as lines:
        rows = [[int(value) for value in line.split(",")] for line in islice(lines, 20_000)]
    largest = torch.tensor(rows).amax(0)
    assert len(largest) == len(sizes)
    assert (largest < torch.tensor(sizes)).all()
