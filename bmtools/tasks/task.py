"""The protocol of a task: all that fine-tuning and prediction need to know of it.

A task is one file with a subclass of `Task`, its settings, and one line of the registry.
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
        target: what its outputs are trained towards; IGNORED where there is no label, or the
            training set lacks it.
        truncated: tokens that were cut off.
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
"""A collated batch: arguments of a model by name."""
Outputs = Sequence[np.ndarray]
"""The output of each input of an example."""


@dataclass(frozen=True)
class Example(Generic[InputT_co]):
    """A record, or a part of one, as a task sees it.

    Args:
        inputs: sequences that the model reads, such as the windows of a long text.
        record: that they are made from.
    """

    inputs: Sequence[InputT_co]
    record: Record


@dataclass
class Split(Generic[ExampleT]):
    """The examples of a training, development or test set.

    Args:
        examples: in the order of the records.
        counts: number of records and the like, for the report.
        notes: one line each about data that the task cannot use or express fully.
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
        scores: by name, among them the task's metrics; reported after every epoch.
        details: reported of the best epoch only, such as scores by type.
        loss: mean loss in nats; infinite where the set has no label that the model knows.
        settings: of the task that were chosen on this set, by name; with those of the development
            set the test set is scored, and they are saved with the model.
    """

    scores: JsonObject
    details: JsonObject
    loss: float
    settings: JsonObject = field(default_factory=dict)


class Task(ABC, Generic[ExampleT, InputT]):
    """A supervised task over a pretrained encoder: its data, head, loss and scores.

    Fine-tuning calls `read` for each set, `train` first, then for each seed `new_model`, `logits`
    and `loss` on batches that `collate` and `collate_labels` make, and `score` on the outputs for
    `dev` and `test`. Prediction calls `load`, `accept_labels`, and for each record
    `encode` and `predict`. The loss is cross-entropy unless a task overrides it.

    Attributes:
        model_class: transformers' auto class whose head the task trains; see `head_for`.
        pooling: states that other heads read, if not those of all tokens: `cls`, the first one.
        problem_type: what transformers makes of the outputs; written into `config.json`. None
            where the class leaves no choice.
        key: of records, that holds the annotation which the task learns.
        dependent: further keys of records that go where predictions take the annotation's place.
        metrics: scores whose mean over seeds is reported.
        metric: the score that chooses the epoch and the seed, higher is better: the setting
            `metric_for_best_model`, or the first of the metrics.
        labels: of the model's outputs by id; known once `train` was read, or from a checkpoint.
        label_loss: sums the losses of logits and label ids; None for cross-entropy.
        fixed_labels: the outputs mean the same whatever the training set.
        normalized: outputs are log probabilities, not logits.
        reads_titles: titles are a part of what the model reads.
        into: key of records that predictions are added under.

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

        Its examples have only inputs that something can be learned from.

        Raises:
            DataError: a set that the model cannot learn from or be scored by.
        """

    @abstractmethod
    def encode(self, records: Sequence[Record]) -> Sequence[ExampleT]:
        """Encode records for prediction, one example each; annotations are not read."""

    @abstractmethod
    def collate(self, inputs: Sequence[InputT]) -> dict[str, np.ndarray]:
        """Pad inputs to a batch; the keys are arguments of the model, `attention_mask` is one."""

    def collate_labels(self, inputs: Sequence[InputT], batch: Arrays) -> np.ndarray:
        """Make the labels of a collated batch, IGNORED where there is none."""
        return np.stack([item.target for item in inputs])

    # Model

    @classmethod
    def head_for(cls, config: TaskConfig) -> tuple[str, MakeHead | None]:
        """Name transformers' auto class whose head the task trains with these settings.

        Returns:
            the class, and what makes the module in place of its output layer; None keeps that.
        """
        if not isinstance(config, HeadConfig) or config.is_plain:
            return cls.model_class, None
        return (cls.model_class.replace("Sequence", "Token"),
                partial(StatesHead, config, getattr(config, "pooling", cls.pooling)))

    def new_model(self, seed: int) -> PreTrainedModel:
        """Copy the encoder and give it a head for the labels.

        It is the checkpoint's own where `trained_head` finds one, else drawn from the seed alone.
        """
        _, make_head = self.head_for(self.config)
        model = with_new_head(self.checkpoint, self.labels, seed, make_head, self.trained_head())
        if self.problem_type:
            model.config.problem_type = self.problem_type
        return model

    def finish(self, model: PreTrainedModel) -> PreTrainedModel:
        """Change a trained model into what is written, in place."""
        return model

    def trained_head(self) -> nn.Module | None:
        """Load the checkpoint's output layer if it is of this kind, and for the same labels."""
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
            device: where it will run.
            config: settings that it was trained with.

        Raises:
            CheckpointError: no such directory, or weights of encoder or head are missing.
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
                                  f"{type(head).__name__}, expected those that bmtools finetune "
                                  "wrote with the settings of bmtools.json") from error
        head.to(device).eval().replace_layer(model, name)
        return checkpoint

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Take the labels of a loaded model.

        Raises:
            CheckpointError: labels that are not this task's.
        """
        self.labels = list(labels)

    def logits(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute logits of a batch, (batch, ..., labels)."""
        return model(**batch).logits

    def states_read(self, batch: dict[str, Tensor],
                    labels: Tensor) -> tuple[StateIndex | None, Tensor]:
        """Find the states that logits with labels come from; the batch is changed accordingly.

        Returns:
            rows and positions, (batch, tokens) before; None for all; and the labels of logits.
        """
        if getattr(self.config, "head", "") == "bilstm":
            return None, labels
        if "mentions" in batch:
            rows, positions, _ = pack(batch["mentions"].any(dim=1))
            batch["mentions"] = batch["mentions"].transpose(1, 2)[rows, positions].transpose(1, 2)
            return (rows, positions), labels
        return ((slice(None), slice(0, 1)) if "Sequence" in self.model_class else None), labels

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the loss over labels: cross-entropy in nats, or what `label_loss` computes."""
        labelled = labels != IGNORED
        logits = logits[labelled].float()
        if self.label_loss is not None:
            return self.label_loss(logits, labels[labelled])
        return cross_entropy(logits, labels[labelled], reduction="sum")

    def outputs(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute what `predict` and `score` read, (batch, ...), in float32."""
        logits = self.logits(model, batch).float()
        return logits.log_softmax(dim=-1) if self.normalized else logits

    def trim(self, item: InputT, output: np.ndarray) -> np.ndarray:
        """Keep of an input's output what is needed; padding is still in it."""
        return output

    # Predictions

    @abstractmethod
    def predict(self, example: ExampleT, outputs: Outputs) -> JsonObject:
        """Make the predictions for a record, by key, from the output of each of its inputs."""

    @abstractmethod
    def score(self, examples: Sequence[ExampleT], outputs: Sequence[Outputs]) -> Evaluation:
        """Score predictions for a set, from the output of each input of each example."""


AnyTask = Task[Any, Any]
AnySplit = Split[Any]


def with_keys(records: Iterable[Record], expected: Mapping[str, str],
              reject: Reject = refuse) -> Iterator[Record]:
    """Yield the records that have some keys, with text where it is text; others are rejected.

    Args:
        records: to look at.
        expected: what each key holds, for a message.
        reject: receives the others.
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
    """Say that titles are not read, and what to do."""
    return (f"found {count_of(titles, 'titles')} of records, which this task does not read, "
            "because offsets count from the start of the text; to have titles read, put them into "
            "'text'")


def notes_on_sets(task: AnyTask, splits: Mapping[str, AnySplit]) -> Iterator[str]:
    """Say how many titles are not read, and how many texts each set shares with an earlier one.

    Records with a question also have it in common; case and white space make no difference.
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
            what = "scores on them are too good" if first == TRAIN else \
                "these records also choose the epoch and the seed"
            yield (f"{setting(second)}: {count} of {count_of(len(keys[second]), 'records')} have "
                   f"the text of a record of {setting(first)}; {what}, and bmtools split makes "
                   "sets without such records")


def unseen_labels(counts: Mapping[str, int], known: Collection[str],
                  of: str) -> tuple[dict[str, int], list[str]]:
    """List the labels of a set that the training set lacks, and a note on each.

    Args:
        counts: of the set's labels.
        known: labels of the training set.
        of: what has a label, such as "of 9 relations are".
    """
    unseen = {label: counts[label] for label in sorted(counts) if label not in known}
    return unseen, [f"{count} {of} {label}, which {setting(TRAIN)} lacks; they count as missed"
                    for label, count in unseen.items()]


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Iterator[Encoding]:
    """Encode texts in order, without special tokens; some are encoded at a time."""
    pending, backend = iter(texts), tokenizer.backend_tokenizer
    while chunk := list(islice(pending, _TEXTS_AT_ONCE)):
        yield from backend.encode_batch(list(special_tokens_as_text(backend, chunk)),
                                        add_special_tokens=False)


def pad(sequences: Sequence[np.ndarray], fill: int) -> np.ndarray:
    """Stack sequences of several lengths, (batch, tokens) int64."""
    padded = np.full((len(sequences), max(map(len, sequences))), fill, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[:len(sequence)] = sequence
    return padded


def pad_ids(ids: Sequence[np.ndarray], fill: int) -> dict[str, np.ndarray]:
    """Pad the ids of inputs: `input_ids` and `attention_mask`, (batch, tokens) int64 each."""
    return {"input_ids": pad(ids, fill),
            "attention_mask": pad([np.ones_like(item) for item in ids], 0)}


def mean_loss(log_probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """Average the cross-entropy over labels, in nats; infinite where there is none.

    Args:
        log_probabilities: (items, labels).
        label_ids: (items,), IGNORED where there is no label.
    """
    [known] = np.nonzero(label_ids != IGNORED)
    losses = -log_probabilities[known, label_ids[known]]
    return float(losses.mean(dtype=np.float64)) if len(known) else math.inf
