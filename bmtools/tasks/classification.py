"""Tasks on one text or a pair of texts: one label, any number of labels, or a number."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import CheckpointError, DataError, Reject, refuse, setting, suggestion
from bmtools.models.checkpoint import Checkpoint
from bmtools.records import JsonObject, Record, document_of, full_text
from bmtools.tasks.heads import output_layer
from bmtools.tasks.inputs import PairEncoder, TextInput
from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.metrics.spans import Scores
from bmtools.tasks.settings import (
    ClassificationConfig,
    MultilabelConfig,
    SimilarityConfig,
    TaskConfig,
)
from bmtools.tasks.task import (
    QUESTION,
    TRAIN,
    Evaluation,
    Example,
    Outputs,
    Split,
    Task,
    mean_loss,
    unseen_labels,
    with_keys,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_DIGITS = 4
_SCORE_DIGITS = 6
_OUTPUT = "score"
_THRESHOLDS = [number / 100 for number in range(5, 100, 5)]
_PAIR = {"text_pair": "the second text of a pair"}
TextExample = Example[TextInput]


class TextTask(Task[TextExample, TextInput]):
    """A task with one prediction for a text or pair, from the pooled state of the first token.

    The head is the architecture's head in transformers: BERT's pooler, or the dense layer of
    RoBERTa or ModernBERT, then dropout and one linear layer.

    Source: Devlin et al. 2019, section 4.1.

    Attributes:
        needed: keys of required texts with a description of each; other records are rejected.
        expected: description of the annotation, for a message.
    """

    model_class = "AutoModelForSequenceClassification"
    pooling = "cls"
    needed: ClassVar[Mapping[str, str]] = {}
    expected: ClassVar[str]
    reads_titles = True

    def __init__(self, config: TaskConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self._encoder = PairEncoder(checkpoint.tokenizer, checkpoint.model.config,
                                    self.max_length)

    def texts(self, record: Record) -> tuple[str, str | None]:
        """Return the text of a record with its title, and its second text or None."""
        return full_text(record), record.get("text_pair") or None

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[TextExample]:
        """Read annotated records; `train` determines the labels, in alphabetical order.

        Raises:
            DataError: if the set cannot be learned from.
        """
        kept = [*with_keys(records, {self.key: self.expected, **self.needed}, reject)]
        counts, notes = self.learn(name, kept)
        examples = [replace(one, inputs=[replace(item, target=self.target(one.record))
                                         for item in one.inputs]) for one in self.encode(kept)]
        truncated = sum(bool(example.inputs[0].truncated) for example in examples)
        if truncated:
            notes = [*notes, f"{truncated} of {len(kept)} records are longer than "
                     f"{self.max_length} tokens and were truncated"]
        return Split(examples, {"records": len(kept), "truncated": truncated, **counts},
                     notes)

    @abstractmethod
    def learn(self, name: str, records: Sequence[Record]) -> tuple[JsonObject, list[str]]:
        """Set the labels from `train`; return counts and notes for a set."""

    @abstractmethod
    def target(self, record: Record) -> np.ndarray:
        """Return the training target for a record's outputs."""

    def count_labels(self, name: str, labels: Counter[str],
                     records: int) -> tuple[JsonObject, list[str]]:
        """Count labels. Set the task's labels from `train`, and note labels that are not in it."""
        if name == TRAIN:
            self.labels = sorted(labels)
        unseen, notes = unseen_labels(labels, self.labels, f"of {records} records have the label")
        return {"labels": dict(sorted(labels.items())), "unseen_labels": unseen}, notes

    def encode(self, records: Sequence[Record]) -> Sequence[TextExample]:
        """Encode texts and ignore annotations.

        Raises:
            RecordError: if a record does not have the texts that the task needs.
        """
        inputs = self._encoder.encode([self.texts(record)
                                       for record in with_keys(records, self.needed)])
        return [Example([item], record) for record, item in zip(records, inputs, strict=True)]

    def collate(self, inputs: Sequence[TextInput]) -> dict[str, np.ndarray]:
        """Pad inputs; all (batch, tokens) int64."""
        return self._encoder.collate(inputs)


class ClassificationTask(TextTask):
    """Single-label classification of a text or pair; the loss is cross-entropy."""

    config: ClassificationConfig
    problem_type = "single_label_classification"
    key = "label"
    expected = "the name of a class, as text"
    metrics = ("accuracy", "macro_f1", "micro_f1")
    dependent = ("score",)

    def learn(self, name: str, records: Sequence[Record]) -> tuple[JsonObject, list[str]]:
        """Require two labels to learn, including the negative class if one is set."""
        labels = Counter(record["label"] for record in records)
        if len(labels) < (2 if name == TRAIN else 1):
            raise DataError(f"{setting(name)}: found {len(labels)} labels in {len(records)} "
                            "records, expected records whose key 'label' names one of two or more "
                            "classes")
        counts, notes = self.count_labels(name, labels, len(records))
        if self.config.negative and self.config.negative not in self.labels:
            raise DataError(f"{setting('negative')}: found {self.config.negative!r}, "
                            f"{suggestion(self.config.negative, self.labels)}")
        return {"pairs": sum(self.texts(record)[1] is not None for record in records),
                **counts}, notes

    def target(self, record: Record) -> np.ndarray:
        """Return the id of the label; IGNORED if the label is not in the training set."""
        known = record["label"] in self.labels
        return np.array(self.labels.index(record["label"]) if known else IGNORED)

    def predict(self, example: TextExample, outputs: Outputs) -> JsonObject:
        """Return the most probable `label`, its probability as `score`, and all `probabilities`."""
        [log_probabilities] = outputs
        rounded = {label: round(math.exp(value), _DIGITS) for label, value
                   in zip(self.labels, log_probabilities, strict=True)}
        label = self.labels[int(log_probabilities.argmax())]
        return {"label": label, "score": rounded[label], "probabilities": rounded}

    def score(self, examples: Sequence[TextExample], outputs: Sequence[Outputs]) -> Evaluation:
        """Score labels, and average the cross-entropy of labels that are in the training set."""
        scores, by_label = measure(
            "classification", [example.record for example in examples],
            [self.predict(*pair) for pair in zip(examples, outputs, strict=True)],
            self.config.negative or None)
        scores.setdefault("micro_f1", scores["accuracy"])
        log_probabilities = np.stack([output for [output] in outputs])
        loss = mean_loss(log_probabilities,
                         np.array([example.inputs[0].target for example in examples]))
        return Evaluation(scores, {"by_label": by_label}, loss)


class NliTask(ClassificationTask):
    """Natural language inference: how a premise, `text`, relates to a hypothesis, `text_pair`."""

    needed = _PAIR


class YesNoTask(ClassificationTask):
    """Classification of a question about a text as yes or no (BioASQ), or also maybe (PubMedQA).

    Source: Jin et al. 2019, section 4; Gu et al. 2021, section 4.6 (BLURB).
    """

    needed = QUESTION

    def texts(self, record: Record) -> tuple[str, str | None]:
        """Return the question of a record and its text."""
        return record["question"], full_text(record) or None


class MultilabelTask(TextTask):
    """Classification with labels that do not exclude each other; each label is predicted or not.

    The loss is a mean over texts and labels; outputs are logits. Scores are computed over records
    and over documents, which have the labels of all their sentences, like HoC in BLURB and BLUE.
    """

    config: MultilabelConfig
    problem_type = "multi_label_classification"
    key = "labels"
    normalized = False
    expected = "a list of labels, empty for none"
    metrics = ("micro_f1", "macro_f1", "example_f1", "record_micro_f1", "record_macro_f1")

    def learn(self, name: str, records: Sequence[Record]) -> tuple[JsonObject, list[str]]:
        """Require at least one label."""
        labels = Counter(label for record in records for label in {*record["labels"]})
        if not labels:
            raise DataError(f"{setting(name)}: found no labels in {len(records)} records, expected "
                            "some whose key 'labels' is not empty")
        counts, notes = self.count_labels(name, labels, len(records))
        return {"documents": len({*map(document_of, records)}),
                "unlabelled": sum(not record["labels"] for record in records), **counts}, notes

    def target(self, record: Record) -> np.ndarray:
        """Return 1 for labels and 0 for others, (labels,) float32."""
        return np.isin(self.labels, [*record["labels"]]).astype(np.float32)

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the loss over texts and labels: binary cross-entropy in nats, or `label_loss`."""
        if self.label_loss is not None:
            return self.label_loss(logits.float(), labels)
        return binary_cross_entropy_with_logits(logits.float(), labels, reduction="sum")

    def predict(self, example: TextExample, outputs: Outputs) -> JsonObject:
        """Return the `labels` whose probability reaches the threshold, and all `probabilities`."""
        [logits] = outputs
        probabilities = _sigmoid(logits)
        return {"labels": self._likely(probabilities, self.config.threshold),
                "probabilities": {label: round(value, _DIGITS) for label, value
                                  in zip(self.labels, probabilities.tolist(), strict=True)}}

    def _likely(self, probabilities: np.ndarray, threshold: float) -> list[str]:
        return [self.labels[number] for number in np.flatnonzero(probabilities >= threshold)]

    def score(self, examples: Sequence[TextExample], outputs: Sequence[Outputs]) -> Evaluation:
        """Score labels of documents and records, average the loss, and choose a threshold."""
        logits = np.stack([output for [output] in outputs]).astype(float)
        probabilities = _sigmoid(logits)

        def scores_at(threshold: float) -> tuple[Scores, dict[str, Scores]]:
            gold = [example.record for example in examples]
            predicted = [{"labels": self._likely(row, threshold)} for row in probabilities]
            scores, by_label = measure("multilabel", gold, predicted, by_document=True)
            records, _ = measure("multilabel", gold, predicted)
            return {**scores, **{f"record_{name}": records[name]
                                 for name in ("micro_f1", "macro_f1")}}, by_label

        threshold = self.config.threshold or max(_THRESHOLDS, key=lambda one: (
            scores_at(one)[0][self.metric], -abs(one - 0.5)))
        scores, by_label = scores_at(threshold)
        targets = self.collate_labels([example.inputs[0] for example in examples], {})
        loss = float((np.logaddexp(0, logits) - logits * targets).mean())
        return Evaluation(scores, {"threshold": threshold, "by_label": by_label}, loss,
                          {"threshold": threshold})


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -logits.astype(float)))


class SimilarityTask(TextTask):
    """Regression of a pair's score, such as BIOSSES' 0 to 4; the loss is the mean square error.

    Gold scores are standardized in training with the training set's mean and standard deviation,
    so the learning rate and the loss do not depend on their scale. The written model predicts on
    the scale of the gold scores.
    """

    problem_type = "regression"
    needed = _PAIR
    key = "score"
    normalized = False
    expected = "the similarity of the texts, a number"
    metrics = ("pearson", "spearman")

    def __init__(self, config: SimilarityConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self._mean, self._deviation = 0.0, 1.0

    def learn(self, name: str, records: Sequence[Record]) -> tuple[JsonObject, list[str]]:
        """Require two different scores; set the mean and the standard deviation from `train`."""
        scores = np.array([record["score"] for record in records], dtype=float)
        if len(np.unique(scores)) < 2:
            raise DataError(f"{setting(name)}: found {len(np.unique(scores))} different scores in "
                            f"{len(records)} records, expected two or more")
        if name == TRAIN:
            self.labels = [_OUTPUT]
            self._mean, self._deviation = float(scores.mean()), float(scores.std())
        described = {"mean": scores.mean(), "deviation": scores.std(), "lowest": scores.min(),
                     "highest": scores.max()}
        return {"scores": {key: round(float(value), _SCORE_DIGITS)
                           for key, value in described.items()}}, []

    def target(self, record: Record) -> np.ndarray:
        """Return the standardized score, (1,) float32."""
        return np.array([(record["score"] - self._mean) / self._deviation], dtype=np.float32)

    def trained_head(self) -> nn.Module | None:
        """Load the output layer of a trained model, and adapt it to standardized scores."""
        layer = cast("nn.Linear | None", super().trained_head())
        if layer is not None:
            layer.weight.data.div_(self._deviation)
            layer.bias.data.sub_(self._mean).div_(self._deviation)
        return layer

    def finish(self, model: PreTrainedModel) -> PreTrainedModel:
        """Change the output layer's weights so that outputs have the scale of the gold scores."""
        _, layer = output_layer(model, 1, self.checkpoint.path)
        layer.weight.data.mul_(self._deviation)
        layer.bias.data.mul_(self._deviation).add_(self._mean)
        return model

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Set the label of the only output.

        Raises:
            CheckpointError: if there are several labels.
        """
        if len(labels) != 1:
            raise CheckpointError(f"{self.checkpoint.path}: found {len(labels)} labels, expected "
                                  "a model for similarity, which has one output")
        super().accept_labels(labels)

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the squared errors of standardized scores."""
        return mse_loss(logits.float(), labels, reduction="sum")

    def predict(self, example: TextExample, outputs: Outputs) -> JsonObject:
        """Return the `score`."""
        [[score]] = outputs
        return {"score": round(float(score), _SCORE_DIGITS)}

    def score(self, examples: Sequence[TextExample], outputs: Sequence[Outputs]) -> Evaluation:
        """Correlate predictions with gold scores; 0 if all predictions are equal."""
        predicted = np.array([score for [[score]] in outputs], dtype=float)
        targets = self.collate_labels([example.inputs[0] for example in examples], {})[:, 0]
        found, _ = measure("similarity", [example.record for example in examples],
                           [{"score": score} for score in predicted.tolist()])
        scores = {name: found[name] for name in self.metrics}
        return Evaluation(scores, {}, float(((predicted - targets) ** 2).mean()))
