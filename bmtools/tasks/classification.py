"""Classification: one label for a text or for a pair of texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.evaluation.labels import score_labels
from bmtools.masking.corruption import IGNORED
from bmtools.records import Record
from bmtools.tasks.pairs import PairEncoder, TextInput
from bmtools.tasks.settings import ClassificationConfig
from bmtools.tasks.task import TRAIN, Evaluation, Example, Split, Task, annotated, mean_loss

if TYPE_CHECKING:
    from bmtools.models.checkpoint import Checkpoint

_DIGITS = 4


@dataclass(frozen=True)
class LabelledExample(Example[TextInput]):
    """A record: one input, and its gold label, empty in prediction."""

    label: str = ""


class ClassificationTask(Task[LabelledExample, TextInput]):
    """Single-label classification with a linear layer over the first token's pooled state.

    The head is transformers' for the architecture: BERT's pooler, RoBERTa's or ModernBERT's dense
    layer, then dropout and one linear layer. The loss is cross-entropy.

    Source: Devlin et al. 2019, section 4.1.
    """

    config_class = ClassificationConfig
    model_class = "AutoModelForSequenceClassification"
    key = "label"
    metrics = ("accuracy", "macro_f1", "micro_f1")
    replaced: ClassVar[Mapping[str, str]] = {"label": "{} labels of the input replaced",
                                             "score": "{} scores of the input replaced"}

    def __init__(self, config: ClassificationConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self._encoder = PairEncoder(checkpoint.tokenizer, checkpoint.model.config,
                                    self.max_length, config.truncation_side)

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[LabelledExample]:
        """Read labelled records; `train` determines the labels, in alphabetical order.

        Raises:
            DataError: no labels, or only one in the training set.
        """
        kept = [*self.readable(annotated(records, "label", "the name of a class, as text",
                                         reject), reject)]
        labels = Counter(record["label"] for record in kept)
        if name == TRAIN:
            self.labels = sorted(labels)
        if len(labels) < (2 if name == TRAIN else 1):
            raise DataError(f"{setting(name)}: found {len(labels)} labels in {len(kept)} records, "
                            "expected records whose key 'label' names one of two or more classes")
        ids = {label: number for number, label in enumerate(self.labels)}
        examples = []
        for record, example in zip(kept, self.encode(kept), strict=True):
            text = replace(example.inputs[0], label_id=ids.get(record["label"], IGNORED))
            examples.append(LabelledExample((text,), record["label"]))
        unseen = {label: labels[label] for label in sorted(labels.keys() - ids.keys())}
        notes = [f"{setting(name)}: {count} of {len(kept)} records have the label {label}, which "
                 f"{setting(TRAIN)} lacks; they count as missed" for label, count in unseen.items()]
        truncated = sum(bool(example.inputs[0].truncated) for example in examples)
        if truncated:
            notes.append(f"{setting(name)}: {truncated} of {len(kept)} records are longer than "
                         f"{self.max_length} tokens and were truncated")
        pairs = sum(self.texts(record)[1] is not None for record in kept)
        return Split(examples, {
            "records": len(kept), "pairs": pairs,
            "truncated": truncated, "labels": dict(sorted(labels.items())),
            "unseen_labels": unseen}, notes)

    def texts(self, record: Record) -> tuple[str, str | None]:
        """Name the text of a record and the second one, if it has one."""
        return record["text"], record.get("text_pair") or None

    def readable(self, records: Iterable[Record], reject: Reject = refuse) -> Iterable[Record]:
        """Yield the records that have what the task reads beside labels; others are rejected."""
        return records

    def encode(self, records: Sequence[Record]) -> Sequence[LabelledExample]:
        """Encode texts; labels are not read."""
        texts = [self.texts(record) for record in self.readable(records)]
        return [LabelledExample((text,)) for text in self._encoder.encode(texts)]

    def collate(self, inputs: Sequence[TextInput]) -> dict[str, np.ndarray]:
        """Pad inputs; all (batch, tokens) int64."""
        return self._encoder.collate(inputs)

    def collate_labels(self, inputs: Sequence[TextInput],
                       batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Stack label ids, (batch,) int64."""
        return np.array([item.label_id for item in inputs], dtype=np.int64)

    def predict(self, record: Record, example: LabelledExample,
                outputs: Sequence[np.ndarray]) -> dict[str, Any]:
        """Make the likeliest `label`, its probability as `score`, and all `probabilities`."""
        [log_probabilities] = outputs
        return _likeliest({label: math.exp(value) for label, value
                           in zip(self.labels, log_probabilities, strict=True)})

    def vote(self, record: Record, predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Average the models' probabilities."""
        return _likeliest({label: fmean(one["probabilities"][label] for one in predictions)
                           for label in self.labels})

    def score(self, examples: Sequence[LabelledExample],
              outputs: Sequence[Sequence[np.ndarray]]) -> Evaluation:
        """Score labels, and the mean cross-entropy of those that the training set has."""
        log_probabilities = np.stack([output for [output] in outputs])
        predicted = [self.labels[best] for best in log_probabilities.argmax(axis=1)]
        scores, by_label = score_labels([example.label for example in examples], predicted)
        label_ids = np.array([example.inputs[0].label_id for example in examples])
        return Evaluation(scores, {"by_label": by_label}, mean_loss(log_probabilities, label_ids))


def _likeliest(probabilities: Mapping[str, float]) -> dict[str, Any]:
    label = max(probabilities, key=probabilities.__getitem__)
    rounded = {name: round(value, _DIGITS) for name, value in probabilities.items()}
    return {"label": label, "score": rounded[label], "probabilities": rounded}
