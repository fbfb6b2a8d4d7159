"""Classification with any number of labels a text, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.records import JsonObject, Record, document_of
from bmtools.tasks.metrics.counts import Scores
from bmtools.tasks.metrics.labels import join_by_document, score_label_sets
from bmtools.tasks.settings import MultilabelConfig
from bmtools.tasks.task import TRAIN, Arrays, Evaluation, Example, Outputs, Split
from bmtools.tasks.texts import TextInput, TextTask, note_unseen, stack_targets

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_DIGITS = 4
_THRESHOLDS = [number / 100 for number in range(5, 100, 5)]


@dataclass(frozen=True)
class LabelSetExample(Example[TextInput]):
    """A record: one input, its gold labels, and the document that it comes from."""

    labels: frozenset[str] = frozenset()
    document: str = ""


class MultilabelTask(TextTask[LabelSetExample]):
    """Classification with labels that do not exclude each other: each is a yes or a no.

    The loss is a mean over texts and labels; outputs are logits. Scores are of documents, which
    have the labels of all their sentences, as BLURB and BLUE score HoC, and of records.
    """

    config: MultilabelConfig
    config_class = MultilabelConfig
    problem_type = "multi_label_classification"
    key = "labels"
    metrics = ("micro_f1", "macro_f1", "example_f1", "record_micro_f1", "record_macro_f1")

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[LabelSetExample]:
        """Read records with lists of labels; `train` determines the labels, alphabetically.

        Raises:
            DataError: no record has a label.
        """
        kept = self.usable(records, "a list of labels, empty for none", reject)
        labels = Counter(label for record in kept for label in {*record["labels"]})
        if not labels:
            raise DataError(f"{setting(name)}: found no labels in {len(kept)} records, expected "
                            "some whose key 'labels' is not empty")
        if name == TRAIN:
            self.labels = sorted(labels)
        examples = [LabelSetExample((replace(item, targets=self._targets(record["labels"])),),
                                    frozenset(record["labels"]), document_of(record))
                    for record, item in zip(kept, self.inputs(kept), strict=True)]
        unseen = {label: labels[label] for label in sorted(labels.keys() - {*self.labels})}
        counts, notes = self.describe(name, examples)
        return Split(examples, {
            **counts, "documents": len({example.document for example in examples}),
            "unlabelled": sum(not example.labels for example in examples),
            "labels": dict(sorted(labels.items())), "unseen_labels": unseen},
            [*note_unseen(name, unseen, len(kept)), *notes])

    def _targets(self, labels: Iterable[str]) -> np.ndarray:
        return np.isin(self.labels, [*labels]).astype(np.float32)

    def encode(self, records: Sequence[Record]) -> Sequence[LabelSetExample]:
        """Encode text and text_pair; labels are not read."""
        return [LabelSetExample((item,)) for item in self.inputs(records)]

    def collate_labels(self, inputs: Sequence[TextInput], batch: Arrays) -> np.ndarray:
        """Stack 1 for labels and 0 for others, (batch, labels) float32."""
        return stack_targets(inputs)

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the loss over texts and labels: binary cross-entropy in nats, or `label_loss`."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        labelled = labels[:, 0] != IGNORED
        logits, labels = logits[labelled].float(), labels[labelled]
        if self.label_loss is not None:
            return self.label_loss(logits, labels)
        return binary_cross_entropy_with_logits(logits, labels, reduction="sum")

    def outputs(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute logits, (batch, labels)."""
        return model(**batch).logits.float()

    def predict(self, record: Record, example: LabelSetExample, outputs: Outputs) -> JsonObject:
        """Make the `labels` whose probability reaches the threshold, and all `probabilities`."""
        [logits] = outputs
        return self._likely(dict(zip(self.labels, _sigmoid(logits).tolist(), strict=True)))

    def _likely(self, probabilities: Mapping[str, float]) -> JsonObject:
        return {"labels": [label for label, value in probabilities.items()
                           if value >= self.config.threshold],
                "probabilities": {label: round(value, _DIGITS)
                                  for label, value in probabilities.items()}}

    def score(self, examples: Sequence[LabelSetExample], outputs: Sequence[Outputs]) -> Evaluation:
        """Score labels of documents and records, and the mean loss, and choose a threshold."""
        logits = np.stack([output for [output] in outputs]).astype(float)
        probabilities = _sigmoid(logits)
        threshold = self.config.threshold or max(_THRESHOLDS, key=lambda one: (
            self._scores(examples, probabilities >= one)[0][self.metric], -abs(one - 0.5)))
        scores, by_label = self._scores(examples, probabilities >= threshold)
        targets = self.collate_labels([example.inputs[0] for example in examples], {})
        loss = float((np.logaddexp(0, logits) - logits * targets).mean())
        return Evaluation(scores, {"threshold": threshold, "by_label": by_label}, loss,
                          {"threshold": threshold})

    def _scores(self, examples: Sequence[LabelSetExample],
                given: np.ndarray) -> tuple[Scores, dict[str, Scores]]:
        """Score labels, (examples, labels) bool: documents, and records under `record_`."""
        names = np.array(self.labels)
        predicted = [set(names[row].tolist()) for row in given]
        gold = [example.labels for example in examples]
        documents = [example.document for example in examples]
        scores, by_label = score_label_sets([*join_by_document(documents, gold).values()],
                                            [*join_by_document(documents, predicted).values()])
        records, _ = score_label_sets(gold, predicted)
        return {**scores, **{f"record_{name}": records[name]
                             for name in ("micro_f1", "macro_f1")}}, by_label


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -logits.astype(float)))
