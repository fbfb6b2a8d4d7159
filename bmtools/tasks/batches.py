"""Fine-tuning batches, which group similar lengths and repeat rare labels; and label losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bmtools.data.batches import RankBatch
from bmtools.data.masking.corruption import IGNORED
from bmtools.tasks.task import AnyTask, ModelInput

if TYPE_CHECKING:
    from bmtools.tasks.settings import LabelConfig


_BUFFERED_BATCHES = 64
_LABELS_AT_ONCE = 1024


@dataclass(frozen=True)
class TaskBatches:
    """Collated batches of a task's training inputs.

    Args:
        task: collates inputs and their labels.
        inputs: inputs to learn from.
        order: numbers of the inputs in each batch.
        micro_batch_size: inputs per pass; 0 for the whole batch.
    """

    task: AnyTask
    inputs: Sequence[ModelInput]
    order: Sequence[np.ndarray]
    micro_batch_size: int = 0

    def batch(self, number: int, rank: int = 0, world_size: int = 1) -> RankBatch:
        """Make one process's share of a batch; it depends only on the batch number.

        All processes must take part in an update. If a small batch has no inputs for a process, the
        process gets one input with weight 0.
        """
        own = self.order[number][rank::world_size]
        inputs = [self.inputs[item] for item in (own if len(own) else self.order[number][:1])]
        batch = self.task.collate(inputs)
        tokens = int(batch["attention_mask"].sum())
        batch["labels"] = labels = self.task.collate_labels(inputs, batch)
        if not len(own):
            return RankBatch([{**{name: torch.from_numpy(value) for name, value in batch.items()},
                               "weight": torch.tensor(0.0)}], {"tokens": 0, "labels": 0})
        size = self.micro_batch_size or len(inputs)
        micro_batches = [{name: torch.from_numpy(value[start:start + size])
                          for name, value in batch.items()}
                         for start in range(0, len(inputs), size)]
        return RankBatch(micro_batches, {"tokens": tokens,
                                         "labels": int((labels != IGNORED).sum())})


def shuffle_batches(lengths: np.ndarray, batch_size: int, seed: int,
                    epoch: int) -> list[np.ndarray]:
    """Shuffle inputs into batches of indices, (batch_size,) each; one batch may be shorter.

    Groups of batches are sorted by length, which reduces padding, and these batches are shuffled
    again, like `group_by_length` in transformers.

    Args:
        lengths: (inputs,) number of tokens.
        batch_size: inputs per batch.
        seed: seed of the order, together with the epoch.
        epoch: number of the epoch, from 0.
    """
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), batch_size * _BUFFERED_BATCHES):
        buffer = order[start:start + batch_size * _BUFFERED_BATCHES]
        by_length = buffer[np.argsort(lengths[buffer], kind="stable")]
        similar = np.split(by_length, range(batch_size, len(buffer), batch_size))
        batches.extend(similar[index] for index in rng.permutation(len(similar)))
    return batches


def input_labels(task: AnyTask, inputs: Sequence[ModelInput]) -> list[np.ndarray]:
    """List the label ids of each input, (labels,) each, without IGNORED.

    For label sets, which are vectors of ones and zeros, list the positions of the ones.
    """
    label_sets = task.problem_type == "multi_label_classification"
    found: list[np.ndarray] = []
    for start in range(0, len(inputs), _LABELS_AT_ONCE):
        chunk = inputs[start:start + _LABELS_AT_ONCE]
        for row in task.collate_labels(chunk, task.collate(chunk)):
            ids = np.flatnonzero(row) if label_sets else np.atleast_1d(row)
            found.append(ids[ids != IGNORED])
    return found


def repeat_rare(labels: Sequence[np.ndarray], share: float) -> np.ndarray:
    """Return input numbers in which inputs with rare labels are repeated.

    Args:
        labels: label ids of each input; an input counts for its rarest label.
        share: share of the most frequent label's count that every other label must reach.

    Returns:
        (inputs after repetition,) numbers of inputs, in order.
    """
    counts = np.bincount(np.concatenate([np.unique(ids) for ids in labels]))
    rarest = np.array([ids[counts[ids].argmin()] if len(ids) else -1 for ids in labels])
    sizes = np.bincount(rarest[rarest >= 0])
    wanted = round(share * sizes.max())
    repeats = np.ones(len(labels), dtype=np.int64)
    for label in np.nonzero((sizes > 0) & (sizes < wanted))[0]:
        [members] = np.nonzero(rarest == label)
        whole, rest = divmod(wanted, len(members))
        repeats[members] = whole
        repeats[members[:rest]] += 1
    return np.repeat(np.arange(len(labels)), repeats)


Loss = Callable[[Tensor, Tensor], Tensor]
"""Sums losses of logits, (items, labels), for label ids, (items,), or for label sets of 1 and 0."""
_SMOOTHING = 1.0


def make_loss(config: LabelConfig, labels: Sequence[np.ndarray], outputs: int,
              label_sets: bool = False) -> Loss:
    """Return the loss that the settings specify.

    Args:
        config: settings of the task.
        labels: label ids of the training inputs, for balanced weights.
        outputs: number of labels.
        label_sets: labels do not exclude each other; for each label separately, inputs with it
            and inputs without it get equal weight.
    """
    counts = np.bincount(np.concatenate(labels), minlength=outputs)
    table = [balanced_weights(np.array([len(labels) - count, count])) for count in counts] \
        if label_sets else [balanced_weights(counts)]
    weights = torch.stack(table) if config.class_weights == "balanced" else None

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        logits = logits.float()
        if config.loss == "dice":
            losses = dice_losses(logits, targets, label_sets)
        elif label_sets:
            losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        else:
            losses = functional.cross_entropy(logits, targets, reduction="none")
        if weights is None:
            return losses.sum()
        own = weights.to(losses)
        return (losses * (torch.where(targets > 0, own[:, 1], own[:, 0]) if label_sets
                          else own[0, targets])).sum()

    return loss


def balanced_weights(counts: np.ndarray) -> Tensor:
    """Weight labels by the inverse of their share, with a mean weight of 1 over all items.

    A label that does not occur has weight 0.
    """
    present = counts > 0
    weights = np.zeros(len(counts))
    weights[present] = counts.sum() / (present.sum() * counts[present])
    return torch.from_numpy(weights)


def dice_losses(logits: Tensor, targets: Tensor, label_sets: bool = False) -> Tensor:
    """Compute the self-adjusting dice loss of each item, (items,), a mean over labels.

    p is a label's probability, q = (1 - p) p, and y is 1 for the correct label and 0 for others.
    A label's loss is 1 - (2 q y + 1) / (q + y + 1). This departs from the paper: the weight 1 - p
    is a constant in the gradient. Otherwise the gradient would vanish at p = 0.5 and pull p down
    above it.

    Source: Li et al. 2020 (Dice Loss for Data-imbalanced NLP Tasks), section 3.3, with a smoothing
    of 1, for each label against the others.

    Args:
        logits: (items, labels).
        targets: label ids, or 1 and 0 for labels that do not exclude each other.
        label_sets: whether targets are 1 and 0; losses are then (items, labels).
    """
    probabilities = logits.sigmoid() if label_sets else logits.softmax(dim=-1)
    right = targets if label_sets else functional.one_hot(targets, logits.shape[-1]).to(logits)
    adjusted = (1 - probabilities.detach()) * probabilities
    losses = 1 - (2 * adjusted * right + _SMOOTHING) / (adjusted + right + _SMOOTHING)
    return losses if label_sets else losses.mean(dim=-1)
