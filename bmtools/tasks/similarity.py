"""Similarity of two texts as a number, such as BIOSSES' 0 to 4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from bmtools.errors import CheckpointError, DataError, Reject, refuse, setting
from bmtools.records import JsonObject, Record
from bmtools.statistics.samples import pearson, spearman
from bmtools.tasks.metrics.counts import Scores, rounded
from bmtools.tasks.settings import SimilarityConfig
from bmtools.tasks.task import TRAIN, Arrays, Evaluation, Example, Outputs, Split
from bmtools.tasks.texts import TextInput, TextTask, stack_targets

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from bmtools.models.checkpoint import Checkpoint

_DIGITS = 6
_OUTPUT = "score"


@dataclass(frozen=True)
class ScoredExample(Example[TextInput]):
    """A record: one input, a pair, and its gold score, 0 in prediction."""

    score: float = 0.0


class SimilarityTask(TextTask[ScoredExample]):
    """Regression of a pair's score; the loss is the mean square error.

    In training, gold scores are standardised by the mean and the deviation of the training set, so
    that neither the learning rate nor the loss depends on their scale; the model that is written
    predicts in the scale of the gold scores.
    """

    config_class = SimilarityConfig
    problem_type = "regression"
    paired = True
    key = "score"
    metrics = ("pearson", "spearman")

    def __init__(self, config: SimilarityConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self._mean, self._deviation = 0.0, 1.0

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[ScoredExample]:
        """Read pairs with scores; `train` determines their mean and deviation.

        Raises:
            DataError: fewer than two different scores.
        """
        kept = self.usable(records, "the similarity of the texts, a number", reject)
        scores = np.array([record["score"] for record in kept], dtype=float)
        if len(np.unique(scores)) < 2:
            raise DataError(f"{setting(name)}: found {len(np.unique(scores))} different scores in "
                            f"{len(kept)} records, expected two or more")
        if name == TRAIN:
            self.labels = [_OUTPUT]
            self._mean, self._deviation = float(scores.mean()), float(scores.std())
        targets = ((scores - self._mean) / self._deviation).astype(np.float32)
        examples = [ScoredExample((replace(item, targets=target[None]),), score)
                    for item, target, score in zip(self.inputs(kept), targets, scores.tolist(),
                                                   strict=True)]
        counts, notes = self.describe(name, examples)
        described = {"mean": scores.mean(), "deviation": scores.std(), "lowest": scores.min(),
                     "highest": scores.max()}
        return Split(examples, {**counts, "scores": {
            key: round(float(value), _DIGITS) for key, value in described.items()}}, notes)

    def encode(self, records: Sequence[Record]) -> Sequence[ScoredExample]:
        """Encode text and text_pair; scores are not read."""
        return [ScoredExample((item,)) for item in self.inputs(records)]

    def collate_labels(self, inputs: Sequence[TextInput], batch: Arrays) -> np.ndarray:
        """Stack standardised scores, (batch, 1) float32."""
        return stack_targets(inputs)

    def trained_head(self) -> nn.Module | None:
        """Load the output layer of a model that is trained further, for standardised scores."""
        layer = cast("nn.Linear | None", super().trained_head())
        if layer is not None:
            layer.weight.data.div_(self._deviation)
            layer.bias.data.sub_(self._mean).div_(self._deviation)
        return layer

    def finish(self, model: PreTrainedModel) -> PreTrainedModel:
        """Bring outputs into the scale of the gold scores, by the output layer's weights."""
        from bmtools.tasks.heads import linear_layer, output_layer

        layer = linear_layer(model, output_layer(self.checkpoint, 1))
        layer.weight.data.mul_(self._deviation)
        layer.bias.data.mul_(self._deviation).add_(self._mean)
        return model

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Take the name of the only output.

        Raises:
            CheckpointError: several labels.
        """
        if len(labels) != 1:
            raise CheckpointError(f"{self.checkpoint.path}: found {len(labels)} labels, expected "
                                  "a model for similarity, which has one output")
        super().accept_labels(labels)

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the squares of errors of standardised scores."""
        from torch.nn.functional import mse_loss

        return mse_loss(logits.float(), labels, reduction="sum")

    def outputs(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute scores, (batch, 1)."""
        return model(**batch).logits.float()

    def predict(self, record: Record, example: ScoredExample, outputs: Outputs) -> JsonObject:
        """Make the `score`."""
        [[score]] = outputs
        return {"score": round(float(score), _DIGITS)}

    def score(self, examples: Sequence[ScoredExample], outputs: Sequence[Outputs]) -> Evaluation:
        """Correlate predictions with gold scores; 0 where all predictions are equal."""
        predicted = np.array([score for [[score]] in outputs], dtype=float)
        targets = self.collate_labels([example.inputs[0] for example in examples], {})[:, 0]
        found = score_correlation([example.score for example in examples], predicted.tolist())
        return Evaluation({name: 0.0 if value is None else value for name, value in found.items()},
                          {}, float(((predicted - targets) ** 2).mean()))


def score_correlation(gold: Sequence[float], predicted: Sequence[float]) -> Scores:
    """Compute both coefficients; None where either side is constant."""
    weights = np.ones((1, len(gold)))
    values = {"pearson": pearson(gold, predicted, weights)[0],
              "spearman": spearman(gold, predicted, weights)[0]}
    return {**{name: None if np.isnan(value) else rounded(value)
               for name, value in values.items()}, "support": len(gold)}
