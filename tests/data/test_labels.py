"""Labels are read as what they must be; where they could be two things, the reader asks."""

import pytest
import torch

from rfp.data.data_config import DataConfig
from rfp.data.labels import choose_masks, labels_from_numbers, labels_from_texts
from rfp.errors import ArgumentError

NAN = float("nan")


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_text_is_a_class() -> None:
    labels = labels_from_texts(["b", None, "a", "b"], None, "f")
    assert (labels.kind, labels.num_outputs, labels.names) == ("classification", 2, ("a", "b"))
    assert labels.y.tolist() == [1, -1, 0, 1]
    assert labels.known.tolist() == [True, False, True, True]
    with pytest.raises(ArgumentError, match=r"labels are text, .* but kind is 'regression'"):
        labels_from_texts(["a", "b"], "regression", "f")
    with pytest.raises(ArgumentError, match="at least two classes"):
        labels_from_texts(["a", "a"], None, "f")


def test_whole_numbers_are_asked_about_unless_their_type_says_it() -> None:
    with pytest.raises(ArgumentError, match=r"say which with kind=.*data\.kind in a config, or --set data\.kind=class"):
        labels_from_numbers(column(0, 1, 1), None, "f")
    assert labels_from_numbers(column(0, 1, 1), None, "f", integer_type=True).kind == "classification"
    assert labels_from_numbers(column(0, 0.5, 1), None, "f").kind == "regression"


def test_classes_need_not_be_consecutive() -> None:
    labels = labels_from_numbers(column(7, 3, NAN, 7), "classification", "f")
    assert labels.y.tolist() == [1, 0, -1, 1]
    assert labels.names == ("3", "7")
    assert labels_from_numbers(column(1, 0), "classification", "f").names == ()
    with pytest.raises(ArgumentError, match="not whole numbers"):
        labels_from_numbers(column(0.5, 1), "classification", "f")
    with pytest.raises(ArgumentError, match="got 2 label columns"):
        labels_from_numbers(torch.ones(3, 2).double(), "classification", "f")


def test_minus_one_beside_classes_is_no_label() -> None:
    labels = labels_from_numbers(column(0, -1, 1, 2, NAN, -1), None, "f", integer_type=True)
    assert (labels.num_outputs, labels.names) == (3, ())
    assert labels.y.tolist() == [0, -1, 1, 2, -1, -1]
    assert labels.known.tolist() == [True, False, True, True, False, False]
    assert labels.notes == ("2 labels are -1 beside the classes, and were read as none",)
    assert labels_from_numbers(column(0, 1, 2), "classification", "f").notes == ()


@pytest.mark.parametrize("values", [(-1, 1), (-1, 0), (-2, -1, 0, 1, 2)])
def test_minus_one_is_a_class_where_it_can_be_nothing_else(values: tuple[int, ...]) -> None:
    labels = labels_from_numbers(column(*values), "classification", "f")
    assert labels.names == tuple(map(str, values))
    assert labels.y.tolist() == list(range(len(values)))
    assert bool(labels.known.all())
    assert labels.notes == ()


@pytest.mark.parametrize(("values", "told"), [((-1, 0, 1), "0, 1"), ((3, -1, 1, 2, 7), "1, 2, 3, ...")])
def test_minus_one_that_could_be_both_is_asked_about(values: tuple[int, ...], told: str) -> None:
    with pytest.raises(ArgumentError, match=f"f: the label -1 beside {told} may be a class or mean that there is none"):
        labels_from_numbers(column(*values), "classification", "f")
    assert labels_from_numbers(column(*values), "regression", "f").kind == "regression"


def test_yes_and_no() -> None:
    values = torch.tensor([[0, NAN], [1, 1], [NAN, NAN]], dtype=torch.float64)
    labels = labels_from_numbers(values, "binary", "f", names=("p", "q"))
    assert (labels.num_outputs, labels.names) == (2, ("p", "q"))
    assert labels.known.tolist() == [True, True, False]
    assert labels.y.dtype == torch.float32
    with pytest.raises(ArgumentError, match="needs labels 0 and 1, got 2"):
        labels_from_numbers(column(0, 2), "binary", "f")


def test_metric() -> None:
    labels = labels_from_numbers(column(0, 1), "binary", "f")
    assert labels.task("t", "graph", DataConfig(path="x")).metric == "roc_auc"
    assert labels.task("t", "graph", DataConfig(path="x", metric="average_precision")).metric == "average_precision"
    with pytest.raises(ArgumentError, match="metric 'mae' is not for binary"):
        labels.task("t", "graph", DataConfig(path="x", metric="mae"))


def test_a_split_needs_labels() -> None:
    labels = labels_from_numbers(column(0.5, NAN, 2, 3), None, "f")
    masks = {part: torch.zeros(4, 1, dtype=torch.bool) for part in ("train", "val", "test")}
    masks["train"][0] = masks["val"][2] = masks["test"][3] = True
    assert torch.equal(choose_masks(masks, labels, DataConfig(path="x"), "f", "how")["val"], masks["val"])
    masks["train"][1] = True
    with pytest.raises(ArgumentError, match="f: row 2 is in train but has no label"):
        choose_masks(masks, labels, DataConfig(path="x"), "f", "how")
    with pytest.raises(ArgumentError, match=r"f: there is no split; how, or ask for one with random_split"):
        choose_masks(None, labels, DataConfig(path="x"), "f", "how")
    drawn = choose_masks(masks, labels, DataConfig(path="x", random_split=(0.4, 0.3, 0.3)), "f", "how")
    assert [int(drawn[part].sum()) for part in ("train", "val", "test")] == [1, 1, 1]
    assert not bool(drawn["train"][1])
