"""What training minimises, by the kind of task; means over the rows that count, without waiting for the device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rfp.data.loaded import LoadedTask
from rfp.errors import unknown_choice
from rfp.nn.kinds import ALL_KINDS


@dataclass(frozen=True)
class MeanLoss:
    r"""The mean over known labels of counted rows, :math:`\sum_{i \in C} \ell(p_i, y_i) / |C|`; 0 if there are none.

    Args:
        kind: A key of :data:`rfp.nn.kinds.ALL_KINDS`, which says what is lost by a row.
        complete: Whether no label is NaN: then nothing has to be masked.

    Example:
        >>> import torch
        >>> loss = MeanLoss("regression")
        >>> loss(torch.tensor([[1.0], [5.0]]), torch.tensor([[3.0], [0.0]]), torch.tensor([True, False]))
        tensor(2.)
    """

    kind: str
    complete: bool = True

    def __post_init__(self) -> None:
        if self.kind not in ALL_KINDS:
            raise unknown_choice("kind", self.kind, ALL_KINDS)

    @classmethod
    def of(cls, loaded: LoadedTask) -> MeanLoss:
        """The loss of a task; looks once whether labels are missing."""
        return cls(loaded.task.kind, not (loaded.y.is_floating_point() and bool(loaded.y.isnan().any())))

    def __call__(self, prediction: Tensor, label: Tensor, counted: Tensor | None = None) -> Tensor:
        """The loss of some rows.

        Args:
            prediction: ``[rows, outputs]``.
            label: ``[rows]`` classes, or ``[rows, outputs]``, NaN where unknown.
            counted: ``[rows]`` bool; all rows by default.
        """
        loss = ALL_KINDS[self.kind].loss
        if self.complete and counted is None:
            return loss(prediction, label)
        weight = prediction.new_ones(label.shape) if self.complete else (~label.isnan()).to(prediction.dtype)
        if counted is not None:
            weight = weight * counted.view(-1, *[1] * (label.dim() - 1))
        if not self.complete:
            label = label.nan_to_num()
        return (loss(prediction, label, reduction="none") * weight).sum() / weight.sum().clamp_min(1)
