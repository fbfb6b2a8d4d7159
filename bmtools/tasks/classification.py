"""Classification: one label for a text or for a pair of texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import DataError, Reject, refuse, setting, suggestion
from bmtools.records import JsonObject, Record
from bmtools.tasks.metrics.labels import score_labels
from bmtools.tasks.settings import ClassificationConfig, YesNoConfig
from bmtools.tasks.task import (
    TRAIN,
    Arrays,
    Evaluation,
    Example,
    Outputs,
    Split,
    mean_loss,
    with_question,
)
from bmtools.tasks.texts import TextInput, TextTask, note_unseen

_DIGITS = 4


@dataclass(frozen=True)
class LabelledExample(Example[TextInput]):
    """A record: one input, and its gold label, empty in prediction."""

    label: str = ""


class ClassificationTask(TextTask[LabelledExample]):
    """Single-label classification of a text or of a pair of texts; the loss is cross-entropy."""

    config: ClassificationConfig
    config_class = ClassificationConfig
    problem_type = "single_label_classification"
    key = "label"
    metrics = ("accuracy", "macro_f1", "micro_f1")
    dependent = ("score",)

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[LabelledExample]:
        """Read labelled records; `train` determines the labels, in alphabetical order.

        Raises:
            DataError: no labels, or only one in the training set.
        """
        kept = self.usable(records, "the name of a class, as text", reject)
        labels = Counter(record["label"] for record in kept)
        if name == TRAIN:
            self.labels = sorted(labels)
        if len(labels) < (2 if name == TRAIN else 1):
            raise DataError(f"{setting(name)}: found {len(labels)} labels in {len(kept)} records, "
                            "expected records whose key 'label' names one of two or more classes")
        if self.config.negative and self.config.negative not in self.labels:
            raise DataError(f"{setting('negative')}: found {self.config.negative!r}, "
                            f"{suggestion(self.config.negative, self.labels)}")
        ids = {label: number for number, label in enumerate(self.labels)}
        examples = [LabelledExample((replace(item, label_id=ids.get(record["label"], IGNORED)),),
                                    record["label"])
                    for record, item in zip(kept, self.inputs(kept), strict=True)]
        unseen = {label: labels[label] for label in sorted(labels.keys() - ids.keys())}
        counts, notes = self.describe(name, examples)
        return Split(examples, {
            **counts, "pairs": sum(self.texts(record)[1] is not None for record in kept),
            "labels": dict(sorted(labels.items())),
            "unseen_labels": unseen}, [*note_unseen(name, unseen, len(kept)), *notes])

    def encode(self, records: Sequence[Record]) -> Sequence[LabelledExample]:
        """Encode texts; labels are not read."""
        return [LabelledExample((item,)) for item in self.inputs(records)]

    def collate_labels(self, inputs: Sequence[TextInput], batch: Arrays) -> np.ndarray:
        """Stack label ids, (batch,) int64."""
        return np.array([item.label_id for item in inputs], dtype=np.int64)

    def predict(self, record: Record, example: LabelledExample, outputs: Outputs) -> JsonObject:
        """Make the likeliest `label`, its probability as `score`, and all `probabilities`."""
        [log_probabilities] = outputs
        return _likeliest({label: math.exp(value) for label, value
                           in zip(self.labels, log_probabilities, strict=True)})

    def score(self, examples: Sequence[LabelledExample], outputs: Sequence[Outputs]) -> Evaluation:
        """Score labels, and the mean cross-entropy of those that the training set has."""
        log_probabilities = np.stack([output for [output] in outputs])
        predicted = [self.labels[best] for best in log_probabilities.argmax(axis=1)]
        scores, by_label = score_labels([example.label for example in examples], predicted,
                                        self.config.negative or None)
        label_ids = np.array([example.inputs[0].label_id for example in examples])
        return Evaluation(scores, {"by_label": by_label}, mean_loss(log_probabilities, label_ids))


class NliTask(ClassificationTask):
    """Natural language inference: what a premise, `text`, says of a hypothesis, `text_pair`."""

    paired = True


def _likeliest(probabilities: Mapping[str, float]) -> JsonObject:
    label = max(probabilities, key=probabilities.__getitem__)
    rounded = {name: round(value, _DIGITS) for name, value in probabilities.items()}
    return {"label": label, "score": rounded[label], "probabilities": rounded}


class YesNoTask(ClassificationTask):
    """Classification of a question beside its text: yes or no (BioASQ), or maybe too (PubMedQA).

    Source: Jin et al. 2019, section 4; Gu et al. 2021, section 4.6 (BLURB).
    """

    config_class = YesNoConfig

    def texts(self, record: Record) -> tuple[str, str | None]:
        """Name the question of a record and its text."""
        return record["question"], record["text"] or None

    def readable(self, records: Iterable[Record], reject: Reject = refuse) -> Iterable[Record]:
        """Yield the records that have a question; others are rejected."""
        return with_question(records, reject)
