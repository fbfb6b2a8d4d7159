"""The protocol of a task: everything that fine-tuning and prediction need from it.

A task consists of a file with a subclass of `Task`, its settings, and one line in the registry.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bmtools.corpus.overlap import folded, text_key
from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import CheckpointError, RecordError, Reject, count_of, refuse, setting
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import Checkpoint, load_checkpoint, load_for_inference
from bmtools.models.exported.formats import read_exported
from bmtools.models.model_files import read_config
from bmtools.records import JsonObject, Record
from bmtools.tasks.heads import (
    MakeHead,
    StateIndex,
    StatesHead,
    new_layer,
    output_layer,
    pack,
    read_weights,
    with_new_head,
)
from bmtools.tasks.settings import HeadConfig, TaskConfig
from bmtools.vocab.tokenizer import special_tokens_as_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

IMPOSSIBLE = -1e9
"""Logit of an answer in padding."""

_TEXTS_AT_ONCE = 256
QUESTION = {"question": "a question that the text answers"}
TRAIN, DEV, TEST = "train", "dev", "test"
ProblemType = Literal["regression", "single_label_classification", "multi_label_classification"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """A sequence that a model reads; its length is in tokens.

    Args:
        ids: (tokens,) int32.
        target: training target of the outputs; IGNORED if there is no label, or the label is not in
            the training set.
        truncated: number of tokens that were cut off.
    """

    ids: np.ndarray
    target: np.ndarray = field(default_factory=lambda: np.array(IGNORED))
    truncated: int = 0

    def __len__(self) -> int:
        return len(self.ids)


InputT = TypeVar("InputT", bound=ModelInput)
InputT_co = TypeVar("InputT_co", bound=ModelInput, covariant=True)
ExampleT = TypeVar("ExampleT", bound="Example[ModelInput]")
Arrays = Mapping[str, np.ndarray]
"""A collated batch: the model's arguments by name."""
Outputs = Sequence[np.ndarray]
"""The outputs for the inputs of an example, one each."""


@dataclass(frozen=True)
class Example(Generic[InputT_co]):
    """A record, or part of a record, prepared for a task.

    Args:
        inputs: sequences that the model reads, such as the windows of a long text.
        record: the record that they come from.
    """

    inputs: Sequence[InputT_co]
    record: Record


@dataclass
class Split(Generic[ExampleT]):
    """The examples of a training, development or test set.

    Args:
        examples: in the order of the records.
        counts: number of records and other counts for the report.
        notes: one line per problem with data that the task cannot use or represent completely.
    """

    examples: list[ExampleT]
    counts: JsonObject = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> list[ModelInput]:
        """The inputs of all examples, in order."""
        return [item for example in self.examples for item in example.inputs]


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a set.

    Args:
        scores: scores by name, including the task's metrics; reported after every epoch.
        details: scores reported only for the best epoch, such as scores by type.
        loss: mean loss in nats; infinite if the set has no label of the model.
        settings: task settings that were chosen on this set, by name. The test set is scored with
            the settings from the development set, and they are saved with the model.
    """

    scores: JsonObject
    details: JsonObject
    loss: float
    settings: JsonObject = field(default_factory=dict)


class Task(ABC, Generic[ExampleT, InputT]):
    """A supervised task over a pretrained encoder: its data, head, loss and scores.

    Fine-tuning calls `read` for each set, starting with `train`. For each seed it then calls
    `new_model`; `logits` and `loss` on batches from `collate` and `collate_labels`; and `score` on
    the outputs for `dev` and `test`. Prediction calls `load` and `accept_labels`, and for each
    record `encode` and `predict`. The loss is cross-entropy unless a task overrides it.

    Attributes:
        model_class: auto class of transformers whose head the task trains; see `head_for`.
        pooling: states that other heads read: `cls` for the first one, or empty for all.
        problem_type: how transformers interprets the outputs; written into `config.json`. None if
            the class allows only one interpretation.
        key: key of records that contains the annotation to learn.
        dependent: further keys of records to remove if predictions replace the annotation.
        metrics: scores whose mean over seeds is reported.
        metric: score that selects the epoch and the seed, higher is better: the setting
            `metric_for_best_model`, or the first of the metrics.
        labels: labels of the model's outputs by id; set after `train` is read or a model loaded.
        label_loss: sums the losses of logits and label ids; None for cross-entropy.
        fixed_labels: whether the labels are the same for every training set.
        normalized: whether outputs are log probabilities instead of logits.
        reads_titles: whether titles are part of the model's input.
        into: key of records where predictions are added.

    Args:
        config: settings of the task.
        checkpoint: the encoder to fine-tune, or the fine-tuned model.
    """

    model_class: ClassVar[str]
    pooling: ClassVar[str] = ""
    problem_type: ClassVar[ProblemType | None] = None
    key: ClassVar[str]
    dependent: ClassVar[Sequence[str]] = ()
    metrics: tuple[str, ...]
    fixed_labels: ClassVar[bool] = False
    normalized: ClassVar[bool] = True
    reads_titles: ClassVar[bool] = False

    def __init__(self, config: TaskConfig, checkpoint: Checkpoint) -> None:
        self.config = config
        self.checkpoint = checkpoint
        self.max_length = min(config.max_length, max_tokens(checkpoint.model))
        self.metric: str = getattr(config, "metric_for_best_model", self.metrics[0])
        self.labels: list[str] = []
        self.label_loss: Callable[[Tensor, Tensor], Tensor] | None = None
        self.into = ""

    # Data

    @abstractmethod
    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[ExampleT]:
        """Read an annotated set; the one named `train` determines the labels.

        The examples contain only inputs that the model can learn from.

        Raises:
            DataError: if the model cannot learn from the set or be scored on it.
        """

    @abstractmethod
    def encode(self, records: Sequence[Record]) -> Sequence[ExampleT]:
        """Encode records for prediction, one example each; ignore annotations."""

    @abstractmethod
    def collate(self, inputs: Sequence[InputT]) -> dict[str, np.ndarray]:
        """Pad inputs to a batch of the model's arguments, including `attention_mask`."""

    def collate_labels(self, inputs: Sequence[InputT], batch: Arrays) -> np.ndarray:
        """Make the labels of a collated batch; IGNORED for positions without a label."""
        return np.stack([item.target for item in inputs])

    # Model

    @classmethod
    def head_for(cls, config: TaskConfig) -> tuple[str, MakeHead | None]:
        """Return the auto class of transformers whose head the task trains with these settings.

        Returns:
            the class, and the function that makes a module to replace its output layer, or None.
        """
        if not isinstance(config, HeadConfig) or config.is_plain:
            return cls.model_class, None
        return (cls.model_class.replace("Sequence", "Token"),
                partial(StatesHead, config, getattr(config, "pooling", cls.pooling)))

    def new_model(self, seed: int) -> PreTrainedModel:
        """Copy the encoder and give it a head for the labels.

        The head is the checkpoint's own if `trained_head` finds one, or initialized from the seed.
        """
        _, make_head = self.head_for(self.config)
        model = with_new_head(self.checkpoint, self.labels, seed, make_head, self.trained_head())
        if self.problem_type:
            model.config.problem_type = self.problem_type
        return model

    def finish(self, model: PreTrainedModel) -> PreTrainedModel:
        """Convert a trained model in place to the form that is written."""
        return model

    def trained_head(self) -> nn.Module | None:
        """Load the checkpoint's output layer if it has this form and the same labels."""
        encoder = self.checkpoint
        config = read_config(encoder.path)
        stated = config.get("id2label") or {}
        own = [stated.get(str(number)) for number in range(len(stated))]
        if config.get("architectures") != [type(encoder.model).__name__] \
                or not (self.fixed_labels or own == self.labels):
            return None
        name, old = output_layer(encoder.model, 1, encoder.path)
        weights = read_weights(encoder.path, f"{name}.")
        with torch.random.fork_rng(devices=[]):
            head = new_layer(old, len(self.labels), self.head_for(self.config)[1])
        if {key: weight.shape for key, weight in weights.items()} != \
                {key: weight.shape for key, weight in head.state_dict().items()}:
            return None
        head.load_state_dict(weights)
        return head

    @classmethod
    def load(cls, directory: Path, device: str, config: TaskConfig) -> Checkpoint:
        """Load a model that this task fine-tuned.

        Args:
            directory: the fine-tuned model.
        device: device to run it on.
        config: settings that it was trained with.

        Raises:
            CheckpointError: if the directory or weights of encoder or head are missing.
        """
        model_class, make_head = cls.head_for(config)
        if make_head is None or read_exported(directory):
            return load_for_inference(directory, device, model_class)
        checkpoint = load_checkpoint(directory, device, model_class, new_head=True)
        model = checkpoint.model
        outputs = len(model.config.id2label or {})
        name, old = output_layer(model, outputs, directory)
        head = make_head(old.in_features, outputs)
        try:
            head.load_state_dict(read_weights(directory, f"{name}."))
        except RuntimeError as error:
            raise CheckpointError(f"{directory}: the weights of {name} do not fit a "
                                  f"{type(head).__name__}, expected weights as bmtools finetune "
                                  "writes them with the settings in bmtools.json") from error
        head.to(device).eval().replace_layer(model, name)
        return checkpoint

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Set the labels of a loaded model.

        Raises:
            CheckpointError: if the labels do not belong to this task.
        """
        self.labels = list(labels)

    def logits(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute logits of a batch, (batch, ..., labels)."""
        return model(**batch).logits

    def states_read(self, batch: dict[str, Tensor],
                    labels: Tensor) -> tuple[StateIndex | None, Tensor]:
        """Find the states needed for the labelled logits, and restrict the batch to them.

        Returns:
            rows and positions in (batch, tokens), or None for all; and the labels of the logits.
        """
        if getattr(self.config, "head", "") == "bilstm":
            return None, labels
        if "mentions" in batch:
            rows, positions, _ = pack(batch["mentions"].any(dim=1))
            batch["mentions"] = batch["mentions"].transpose(1, 2)[rows, positions].transpose(1, 2)
            return (rows, positions), labels
        return ((slice(None), slice(0, 1)) if "Sequence" in self.model_class else None), labels

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the loss over labels: cross-entropy in nats, or the result of `label_loss`."""
        labelled = labels != IGNORED
        logits = logits[labelled].float()
        if self.label_loss is not None:
            return self.label_loss(logits, labels[labelled])
        return cross_entropy(logits, labels[labelled], reduction="sum")

    def outputs(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the outputs that `predict` and `score` read, (batch, ...), in float32."""
        logits = self.logits(model, batch).float()
        return logits.log_softmax(dim=-1) if self.normalized else logits

    def trim(self, item: InputT, output: np.ndarray) -> np.ndarray:
        """Keep the part of an input's output that is needed; the output still contains padding."""
        return output

    # Predictions

    @abstractmethod
    def predict(self, example: ExampleT, outputs: Outputs) -> JsonObject:
        """Return the predictions for a record, by key, from the outputs for its inputs."""

    @abstractmethod
    def score(self, examples: Sequence[ExampleT], outputs: Sequence[Outputs]) -> Evaluation:
        """Score predictions for a set, from the outputs for each example's inputs."""


AnyTask = Task[Any, Any]
AnySplit = Split[Any]


def with_keys(records: Iterable[Record], expected: Mapping[str, str],
              reject: Reject = refuse) -> Iterator[Record]:
    """Yield the records that have all expected keys, with text that is not empty; reject others.

    Args:
        records: records to check.
        expected: description of each key's content, for a message.
        reject: receives the other records.
    """
    for record in records:
        lacking = [key for key in expected if record.get(key) is None
                   or (isinstance(record[key], str) and not record[key].strip())]
        if lacking:
            key = lacking[0]
            state = "missing" if record.get(key) is None else "empty"
            reject(RecordError(record.place, f"key {key!r} is {state}; expected {expected[key]}",
                               record))
        else:
            yield record


def unread_titles(task: AnyTask, records: Iterable[Record]) -> int:
    """Count the titles that a task does not read."""
    return 0 if task.reads_titles else sum(bool(record.get("title")) for record in records)


def note_on_titles(titles: int) -> str:
    """Write a note that titles are not read, with a fix."""
    return (f"found {count_of(titles, 'titles')} of records, which this task does not read, "
            "because offsets count from the start of the text; to use titles, add them to "
            "'text'")


def notes_on_sets(task: AnyTask, splits: Mapping[str, AnySplit]) -> Iterator[str]:
    """Yield notes on titles that are not read, and on texts that two sets have in common.

    Records with a question must also have the same question. Case and white space are ignored.
    """
    sets = {name: [example.record for example in one.examples] for name, one in splits.items()}
    for name, records in sets.items():
        if titles := unread_titles(task, records):
            yield f"{setting(name)}: {note_on_titles(titles)}"
    keys = {name: [hash((text_key(record), folded(record.get("question", ""))))
                   for record in records] for name, records in sets.items()}
    for first, second in combinations(keys, 2):
        known = {*keys[first]}
        if count := sum(key in known for key in keys[second]):
            what = "scores on them are too optimistic" if first == TRAIN else \
                "these records also select the epoch and the seed"
            yield (f"{setting(second)}: {count} of {count_of(len(keys[second]), 'records')} have "
                   f"the text of a record in {setting(first)}; {what}; run bmtools split to make "
                   "sets without such records")


def unseen_labels(counts: Mapping[str, int], known: Collection[str],
                  of: str) -> tuple[dict[str, int], list[str]]:
    """List the labels of a set that are not in the training set, with a note on each.

    Args:
        counts: how often each label occurs in the set.
        known: labels of the training set.
        of: start of the note after the count, such as "of 9 relations are".
    """
    unseen = {label: counts[label] for label in sorted(counts) if label not in known}
    return unseen, [f"{count} {of} {label}, which is not in {setting(TRAIN)}; they count as missed"
                    for label, count in unseen.items()]


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Iterator[Encoding]:
    """Encode texts in order, without special tokens; a chunk is encoded at a time."""
    pending, backend = iter(texts), tokenizer.backend_tokenizer
    while chunk := list(islice(pending, _TEXTS_AT_ONCE)):
        yield from backend.encode_batch(list(special_tokens_as_text(backend, chunk)),
                                        add_special_tokens=False)


def pad(sequences: Sequence[np.ndarray], fill: int) -> np.ndarray:
    """Stack sequences of different lengths, (batch, tokens) int64."""
    padded = np.full((len(sequences), max(map(len, sequences))), fill, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[:len(sequence)] = sequence
    return padded


def pad_ids(ids: Sequence[np.ndarray], fill: int) -> dict[str, np.ndarray]:
    """Pad the ids of inputs to `input_ids` and `attention_mask`, (batch, tokens) int64 each."""
    return {"input_ids": pad(ids, fill),
            "attention_mask": pad([np.ones_like(item) for item in ids], 0)}


def mean_loss(log_probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """Average the cross-entropy over labels, in nats; infinite without labels.

    Args:
        log_probabilities: (items, labels).
        label_ids: (items,), IGNORED for items without a label.
    """
    [known] = np.nonzero(label_ids != IGNORED)
    losses = -log_probabilities[known, label_ids[known]]
    return float(losses.mean(dtype=np.float64)) if len(known) else math.inf
