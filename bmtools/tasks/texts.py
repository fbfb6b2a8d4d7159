"""Tasks whose input is one text or a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import Record
from bmtools.tasks.pairs import PairEncoder, TextInput
from bmtools.tasks.settings import TextConfig
from bmtools.tasks.task import ExampleT, Task, annotated

if TYPE_CHECKING:
    from bmtools.models.checkpoint import Checkpoint


class TextTask(Task[ExampleT, TextInput]):
    """A task with one prediction for a text or a pair, from the first token's pooled state.

    The head is transformers' for the architecture: BERT's pooler, RoBERTa's or ModernBERT's dense
    layer, then dropout and one linear layer.

    Source: Devlin et al. 2019, section 4.1.

    Attributes:
        paired: whether records without a second text are refused.
    """

    model_class = "AutoModelForSequenceClassification"
    paired: ClassVar[bool] = False

    def __init__(self, config: TextConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self._encoder = PairEncoder(checkpoint.tokenizer, checkpoint.model.config,
                                    self.max_length, config.truncation_side)

    def texts(self, record: Record) -> tuple[str, str | None]:
        """Name the text of a record and the second one, if it has one."""
        return record["text"], record.get("text_pair") or None

    def readable(self, records: Iterable[Record], reject: Reject = refuse) -> Iterable[Record]:
        """Yield the records whose texts are there; others are rejected."""
        for record in records:
            if self.paired and not record.get("text_pair"):
                reject(RecordError(record.place, "key 'text_pair' is missing; expected the second "
                                   "text of a pair", record))
            else:
                yield record

    def inputs(self, records: Iterable[Record]) -> Iterator[TextInput]:
        """Encode the texts of records, in order.

        Raises:
            RecordError: a record without the texts that the task needs.
        """
        return self._encoder.encode([self.texts(record) for record in self.readable(records)])

    def usable(self, records: Iterable[Record], expected: str, reject: Reject) -> list[Record]:
        """List the records with an annotation and with the texts that the task needs."""
        return [*self.readable(annotated(records, self.key, expected, reject), reject)]

    def describe(self, name: str,
                 examples: Sequence[ExampleT]) -> tuple[dict[str, Any], list[str]]:
        """Count a set's records and truncated inputs, and note the latter."""
        truncated = sum(bool(example.inputs[0].truncated) for example in examples)
        return {"records": len(examples), "truncated": truncated}, [
            f"{setting(name)}: {truncated} of {len(examples)} records are longer than "
            f"{self.max_length} tokens and were truncated"] if truncated else []

    def collate(self, inputs: Sequence[TextInput]) -> dict[str, np.ndarray]:
        """Pad inputs; all (batch, tokens) int64."""
        return self._encoder.collate(inputs)


def stack_targets(inputs: Sequence[TextInput]) -> np.ndarray:
    """Stack what the outputs of inputs are trained towards, (batch, outputs) float32."""
    return np.stack([item.targets for item in inputs if item.targets is not None])


def note_unseen(name: str, unseen: Mapping[str, int], records: int) -> list[str]:
    """Note labels that the training set lacks, and how many records have each."""
    return [f"{setting(name)}: {count} of {records} records have the label {label}, which "
            f"{setting('train')} lacks; they count as missed" for label, count in unseen.items()]
