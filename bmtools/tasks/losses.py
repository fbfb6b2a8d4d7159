"""Losses of tasks with one label an input or word, and weights of rare labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from bmtools.tasks.settings import LabelConfig

Loss = Callable[[Tensor, Tensor], Tensor]
"""Sums the losses of logits, (items, labels), and label ids, (items,)."""
_SMOOTHING = 1.0


def make_loss(config: LabelConfig, labels: Sequence[np.ndarray], outputs: int) -> Loss:
    """Make the loss that settings ask for.

    Args:
        config: of the task.
        labels: label ids of the training inputs, for balanced weights.
        outputs: number of labels.
    """
    weights = balanced_weights(np.bincount(np.concatenate(labels), minlength=outputs)) \
        if config.class_weights == "balanced" else None
    per_item = dice_losses if config.loss == "dice" else cross_entropies

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        losses = per_item(logits.float(), targets)
        return losses.sum() if weights is None else losses @ weights.to(losses)[targets]

    return loss


def balanced_weights(counts: np.ndarray) -> Tensor:
    """Weigh labels by the inverse of their share; the mean weight of all items is 1.

    A label that does not occur weighs nothing.
    """
    present = counts > 0
    weights = np.zeros(len(counts))
    weights[present] = counts.sum() / (present.sum() * counts[present])
    return torch.from_numpy(weights)


def cross_entropies(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the cross-entropy of each item in nats, (items,)."""
    return functional.cross_entropy(logits, targets, reduction="none")


def dice_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the self-adjusting dice loss of each item, (items,), a mean over labels.

    With q = (1 - p) p, where p is a label's probability, and y = 1 for the right label alone, a
    label's loss is 1 - (2 q y + 1) / (q + y + 1). A departure from the paper: the gradient takes
    the weight 1 - p as a constant; else it would vanish at p = 0.5 and pull p down above it.

    Source: Li et al. 2020 (Dice Loss for Data-imbalanced NLP Tasks), section 3.3, with a smoothing
    of 1, each label against the others.
    """
    probabilities = logits.softmax(dim=-1)
    adjusted = (1 - probabilities.detach()) * probabilities
    right = functional.one_hot(targets, logits.shape[-1]).to(adjusted)
    dice = (2 * adjusted * right + _SMOOTHING) / (adjusted + right + _SMOOTHING)
    return (1 - dice).mean(dim=-1)
