from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from bmtools.tasks.batches import (
    balanced_weights,
    dice_losses,
    make_loss,
    repeat_rare,
)
from bmtools.tasks.settings import LabelConfig

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.1, 0.2, -3.0], [-1.0, 4.0, 1.0]])
TARGETS = torch.tensor([0, 2, 1])


def test_dice_equals_its_definition() -> None:
    expected = []
    for row, target in zip(LOGITS.tolist(), TARGETS.tolist(), strict=True):
        total = sum(map(math.exp, row))
        terms = []
        for label, logit in enumerate(row):
            p, y = math.exp(logit) / total, float(label == target)
            terms.append(1 - (2 * (1 - p) * p * y + 1) / ((1 - p) * p + y + 1))
        expected.append(sum(terms) / len(terms))
    assert dice_losses(LOGITS, TARGETS).tolist() == pytest.approx(expected)


def test_balanced_weights_equal_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    ids = np.array([0] * 7 + [1] * 2 + [3])
    theirs = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=ids)
    ours = balanced_weights(np.bincount(ids, minlength=5)).tolist()
    assert [ours[0], ours[1], ours[3]] == pytest.approx(theirs.tolist())
    assert ours[2] == ours[4] == 0
    assert np.array(ours)[ids].mean() == pytest.approx(1)


def test_weighted_cross_entropy_equals_torch() -> None:
    labels = [np.array([0, 0, 1]), np.array([2]), np.array([], dtype=np.int64)]
    weights = balanced_weights(np.array([2, 1, 1])).float()
    loss = make_loss(LabelConfig(class_weights="balanced"), labels, 3)(LOGITS, TARGETS)
    theirs = torch.nn.CrossEntropyLoss(weight=weights, reduction="sum")(LOGITS, TARGETS)
    assert float(loss) == pytest.approx(float(theirs))


LABEL_SETS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0]])


def test_dice_of_label_sets_equals_its_definition_and_lowers_errors() -> None:
    logits = LOGITS.clone().requires_grad_()
    found = dice_losses(logits, LABEL_SETS, label_sets=True)
    for row, right, losses in zip(LOGITS.tolist(), LABEL_SETS.tolist(), found.tolist(),
                                  strict=True):
        for logit, y, loss in zip(row, right, losses, strict=True):
            p = 1 / (1 + math.exp(-logit))
            expected = 1 - (2 * (1 - p) * p * y + 1) / ((1 - p) * p + y + 1)
            assert loss == pytest.approx(expected, abs=1e-6)
    found.sum().backward()
    assert logits.grad is not None
    assert ((logits.grad < 0) == (LABEL_SETS > 0)).all()


@pytest.mark.parametrize("loss", ["cross-entropy", "dice"])
def test_label_set_weights_equal_scikit_learn(loss: Any) -> None:
    from sklearn.utils.class_weight import compute_sample_weight

    training = np.array([[1, 0, 1]] * 6 + [[0, 0, 1]] * 3 + [[0, 1, 1]])
    labels = [np.flatnonzero(row) for row in training]
    weights = np.zeros((3, 2))
    for label, column in enumerate(training.T):
        for value, weight in zip(column, compute_sample_weight("balanced", column), strict=True):
            weights[label, value] = weight
    logits, targets = LOGITS.numpy().astype(float), LABEL_SETS.numpy().astype(int)
    p = 1 / (1 + np.exp(-logits))
    plain = -np.log(np.where(targets, p, 1 - p)) if loss == "cross-entropy" else \
        1 - (2 * (1 - p) * p * targets + 1) / ((1 - p) * p + targets + 1)
    expected = (plain * np.take_along_axis(weights[None].repeat(3, 0), targets[..., None],
                                           axis=2)[..., 0]).sum()
    ours = make_loss(LabelConfig(loss=loss, class_weights="balanced"), labels, 3,
                     label_sets=True)(LOGITS, LABEL_SETS)
    assert float(ours) == pytest.approx(expected)
    # The ratio of both weights is torch's pos_weight: texts without the label / texts with it.
    assert weights[0, 1] / weights[0, 0] == pytest.approx(4 / 6)


@pytest.mark.parametrize(("share", "sizes"), [
    (1.0, [6, 6, 6]), (0.5, [6, 3, 3]), (0.2, [6, 2, 1])])
def test_rare_labels_are_repeated_up_to_a_share(share: float, sizes: list[int]) -> None:
    labels = [np.array([0])] * 6 + [np.array([1])] * 2 + [np.array([2])]
    numbers = repeat_rare(labels, share)
    assert [int((numbers < 6).sum()), int(((numbers >= 6) & (numbers < 8)).sum()),
            int((numbers == 8).sum())] == sizes


def test_inputs_count_for_their_rarest_label() -> None:
    labels = [np.array([0, 0]), np.array([0]), np.array([0]), np.array([0, 1, 0]),
              np.array([], dtype=np.int64)]
    assert repeat_rare(labels, 1.0).tolist() == [0, 1, 2, 3, 3, 3, 4]
