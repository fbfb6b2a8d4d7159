"""Losses of tasks whose inputs or words have labels, and weights of rare ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from bmtools.tasks.settings import LabelConfig

Loss = Callable[[Tensor, Tensor], Tensor]
"""Sums the losses of logits, (items, labels), and label ids, (items,), or label sets, 1 or 0."""
_SMOOTHING = 1.0


def make_loss(config: LabelConfig, labels: Sequence[np.ndarray], outputs: int,
              label_sets: bool = False) -> Loss:
    """Make the loss that settings ask for.

    Args:
        config: of the task.
        labels: label ids of the training inputs, for balanced weights.
        outputs: number of labels.
        label_sets: labels do not exclude each other; those that an input has and those that it
            lacks are balanced for each label.
    """
    counts = np.bincount(np.concatenate(labels), minlength=outputs)
    table = [balanced_weights(np.array([len(labels) - count, count])) for count in counts] \
        if label_sets else [balanced_weights(counts)]
    weights = torch.stack(table) if config.class_weights == "balanced" else None
    losses_of = _LOSSES[config.loss, label_sets]

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        losses = losses_of(logits.float(), targets)
        if weights is None:
            return losses.sum()
        own = weights.to(losses)
        return (losses * (torch.where(targets > 0, own[:, 1], own[:, 0]) if label_sets
                          else own[0, targets])).sum()

    return loss


def balanced_weights(counts: np.ndarray) -> Tensor:
    """Weigh labels by the inverse of their share; the mean weight of all items is 1.

    A label that does not occur weighs nothing.
    """
    present = counts > 0
    weights = np.zeros(len(counts))
    weights[present] = counts.sum() / (present.sum() * counts[present])
    return torch.from_numpy(weights)


def dice_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the self-adjusting dice loss of each item, (items,), a mean over labels.

    With q = (1 - p) p, where p is a label's probability, and y = 1 for the right label alone, a
    label's loss is 1 - (2 q y + 1) / (q + y + 1). A departure from the paper: the gradient takes
    the weight 1 - p as a constant; else it would vanish at p = 0.5 and pull p down above it.

    Source: Li et al. 2020 (Dice Loss for Data-imbalanced NLP Tasks), section 3.3, with a smoothing
    of 1, each label against the others.
    """
    right = functional.one_hot(targets, logits.shape[-1]).to(logits)
    return _dice(logits.softmax(dim=-1), right).mean(dim=-1)


def binary_dice_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute `dice_losses` of labels that do not exclude each other, (items, labels)."""
    return _dice(logits.sigmoid(), targets)


def _dice(probabilities: Tensor, right: Tensor) -> Tensor:
    adjusted = (1 - probabilities.detach()) * probabilities
    return 1 - (2 * adjusted * right + _SMOOTHING) / (adjusted + right + _SMOOTHING)


_LOSSES: dict[tuple[str, bool], Loss] = {
    ("cross-entropy", False): partial(functional.cross_entropy, reduction="none"),
    ("cross-entropy", True): partial(functional.binary_cross_entropy_with_logits,
                                     reduction="none"),
    ("dice", False): dice_losses, ("dice", True): binary_dice_losses}
