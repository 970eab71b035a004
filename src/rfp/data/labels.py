"""From what people write as labels to tensors, without guessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rfp.data.data_config import DataConfig
from rfp.data.splits import check_disjoint, random_masks
from rfp.data.tasks import Task
from rfp.errors import ArgumentError
from rfp.nn.kinds import KINDS
from rfp.nn.levels import Level


@dataclass(frozen=True)
class Labels:
    """Labels of one kind.

    Args:
        kind: A key of :data:`rfp.nn.kinds.KINDS`.
        y: As :class:`~rfp.data.tasks.Task` describes; -1 or NaN where there is none.
        num_outputs: Classes or targets.
        names: Their names.
        known: ``[rows]``: whether a row can be used for training or scoring.
        notes: What a report on results with them must say.
    """

    kind: str
    y: Tensor
    num_outputs: int
    names: tuple[str, ...]
    known: Tensor
    notes: tuple[str, ...] = ()

    def task(self, name: str, level: Level, config: DataConfig) -> Task:
        """The task with these labels, with the metric asked for or the usual one."""
        return Task(name, level, self.kind, config.metric or KINDS[self.kind].metric, self.num_outputs, self.names)


def labels_from_texts(texts: Sequence[str | None], kind: str | None, source: str) -> Labels:
    """Texts are names of classes, numbered in alphabetical order; ``None`` is no label.

    Example:
        >>> labels = labels_from_texts(["dog", "cat", None, "dog"], None, "nodes.csv")
        >>> labels.y.tolist(), labels.names
        ([1, 0, -1, 1], ('cat', 'dog'))
    """
    if kind not in (None, "classification"):
        raise ArgumentError(f"{source}: labels are text, which can only be classes, but kind is {kind!r}")
    names = tuple(sorted({text for text in texts if text is not None}))
    number = {name: i for i, name in enumerate(names)}
    y = torch.tensor([-1 if text is None else number[text] for text in texts])
    return _classes(y, names, source)


def labels_from_numbers(
    values: Tensor, kind: str | None, source: str, *, names: tuple[str, ...] = (), integer_type: bool = False
) -> Labels:
    """Numbers can be classes, yes/no answers or quantities: those that are not whole must be quantities.

    Of classes, -1 beside 0, 1, 2 and so on, at least three and none left out, is no label: so PyG's data sets say that
    there is none. Alone with one other number it is a class, as in {-1, 1}, and so it is where other numbers are
    negative too. Everything between, {-1, 0, 1} above all, is read either way by somebody, and refused.

    Args:
        values: ``[rows, targets]`` float64, NaN for no label.
        kind: What they are, or ``None`` to find out.
        source: For errors.
        names: Names of the targets.
        integer_type: They are of an integer tensor type, which in PyG means classes.

    Example:
        >>> labels_from_numbers(torch.tensor([[0.5], [2.0]]).double(), None, "nodes.csv").kind
        'regression'
        >>> labels_from_numbers(torch.tensor([[1.0], [2.0]]).double(), None, "nodes.csv")
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: nodes.csv: labels are whole numbers, which may be classes, yes/no answers or \
quantities; say which with kind='classification', 'binary' or 'regression' (data.kind in a config, or --set \
data.kind=classification)
    """
    missing = values.isnan()
    whole = bool((values == values.round())[~missing].all())
    if kind is None and not whole:
        kind = "regression"
    elif kind is None and integer_type and values.size(1) == 1:
        kind = "classification"
    if kind is None:
        raise ArgumentError(
            f"{source}: labels are whole numbers, which may be classes, yes/no answers or quantities; say which with "
            "kind='classification', 'binary' or 'regression' (data.kind in a config, or --set data.kind=classification)"
        )
    if kind == "regression":
        return Labels(kind, values.float(), values.size(1), names, ~missing.any(dim=1))
    if kind == "binary":
        if not bool(((values == 0) | (values == 1) | missing).all()):
            wrong = values[~((values == 0) | (values == 1) | missing)][0].item()
            raise ArgumentError(f"{source}: kind='binary' needs labels 0 and 1, got {wrong:g}")
        return Labels(kind, values.float(), values.size(1), names, ~missing.all(dim=1))
    if values.size(1) != 1 or not whole:
        got = f"{values.size(1)} label columns" if values.size(1) != 1 else "labels that are not whole numbers"
        raise ArgumentError(f"{source}: kind='classification' needs one column of classes, got {got}")
    unlabelled = _without_label(values[~missing], source)
    notes = (f"{unlabelled:,} labels are -1 beside the classes, and were read as none",) if unlabelled else ()
    known = ~missing[:, 0] & ((values[:, 0] != -1) | (unlabelled == 0))
    distinct, number = torch.unique(values[known, 0], return_inverse=True)
    y = torch.full((len(values),), -1)
    y[known] = number
    plain = torch.equal(distinct, torch.arange(len(distinct), dtype=values.dtype))
    labels = _classes(y, () if plain else tuple(f"{value:g}" for value in distinct.tolist()), source, len(distinct))
    return replace(labels, notes=notes)


def _without_label(values: Tensor, source: str) -> int:
    """How many of the numbers of classes are -1 and mean none, by the rule of :func:`labels_from_numbers`."""
    classes = torch.unique(values[values != -1])
    unlabelled = len(values) - int((values != -1).sum())
    if not unlabelled or len(classes) < 2 or bool((classes < 0).any()):
        return 0
    if len(classes) > 2 and torch.equal(classes, torch.arange(len(classes), dtype=values.dtype)):
        return unlabelled
    told = ", ".join(f"{value:g}" for value in classes[:3].tolist()) + (", ..." if len(classes) > 3 else "")
    raise ArgumentError(
        f"{source}: the label -1 beside {told} may be a class or mean that there is none; number the classes from 0 if "
        "it is one, or write NaN (in a table nothing) in its place"
    )


def _classes(y: Tensor, names: tuple[str, ...], source: str, count: int | None = None) -> Labels:
    count = len(names) if count is None else count
    if count < 2:
        raise ArgumentError(f"{source}: classification needs at least two classes, the labels have {count}")
    return Labels("classification", y, count, names, y >= 0)


def choose_masks(
    given: Mapping[str, Tensor] | None, labels: Labels, config: DataConfig, source: str, how: str
) -> dict[str, Tensor]:
    """The split that comes with the data, or the random one that was asked for.

    Args:
        given: Masks ``[rows, num_splits]``, or ``None``.
        labels: Labels of all rows.
        config: May ask for a random split, which then holds.
        source: For errors.
        how: How this form of data can carry a split, for the error that it does not.
    """
    if config.random_split is not None:
        return random_masks(
            len(labels.known),
            config.random_split,
            num_splits=config.num_splits,
            seed=config.split_seed,
            usable=labels.known,
        )
    if given is None:
        raise ArgumentError(f"{source}: there is no split; {how}, or ask for one with random_split=[0.8, 0.1, 0.1]")
    for part, mask in given.items():
        unlabelled = (mask.any(dim=1) & ~labels.known).nonzero()
        if len(unlabelled):
            raise ArgumentError(f"{source}: row {int(unlabelled[0]) + 1} is in {part} but has no label")
    check_disjoint(given, source)
    return dict(given)
