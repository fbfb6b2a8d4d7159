"""Entity recognition as something to train: its loss, its batches and its scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.data.batches import RankBatch
from bmtools.errors import DataError, Reject, refuse
from bmtools.masking.corruption import IGNORED
from bmtools.models.checkpoint import max_tokens
from bmtools.records import Record
from bmtools.tasks.epoch_sampler import EpochSampler
from bmtools.tasks.finetune import Evaluation
from bmtools.tasks.heads import load_encoder, with_new_head
from bmtools.tasks.ner import Examples, mentions, read_examples
from bmtools.tasks.settings import NerConfig
from bmtools.tasks.span_scores import Mention, score_spans, score_spans_by_type
from bmtools.tasks.tag_schemes import label_names
from bmtools.tasks.tagging import tag_documents
from bmtools.tasks.windows import Window, pad_windows
from bmtools.training.objectives import LossTerm, Objective


class NerObjective(Objective):
    """Name the tag of each word at its first piece."""

    loss_terms = {"ner": LossTerm(1.0, "words")}  # noqa: RUF012

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str,
                                                                                         Tensor]:
        """Sum cross-entropy, in nats, over first pieces; all inputs (batch, tokens)."""
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask.long()).logits
        asked = labels != IGNORED
        return {"ner": functional.cross_entropy(logits[asked].float(), labels[asked],
                                                reduction="sum")}


class TaggedBatches:
    """Batches of tagged windows; each epoch sees every window exactly once.

    Args:
        windows: with at least one word each.
        labels: (words,) int64 label ids of each window.
        tokenizer: of the model.
        batch_size: windows a step; the last batch of an epoch holds what is left.
        seed: seed of the order.
    """

    def __init__(self, windows: list[Window], labels: list[np.ndarray], tokenizer: Any,
                 batch_size: int, seed: int) -> None:
        self._windows = windows
        self._labels = labels
        self._tokenizer = tokenizer
        lengths = np.array([len(window.ids) for window in windows])
        self._sampler = EpochSampler(lengths, batch_size, seed)

    @property
    def per_epoch(self) -> int:
        """Batches that show every window once."""
        return self._sampler.batches_per_epoch

    def batch(self, number: int, process: int = 0, processes: int = 1) -> RankBatch:
        """Make one process's part of a batch from its number alone."""
        members = self._sampler.batch(number)[process::processes]
        windows = [self._windows[member] for member in members]
        ids, attended = pad_windows(windows, self._tokenizer)
        labels = np.full_like(ids, IGNORED)
        for row, member, window in zip(labels, members, windows, strict=True):
            row[window.firsts + 1] = self._labels[member]
        inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(attended),
                  "labels": torch.from_numpy(labels)}
        return RankBatch([inputs], {"tokens": int(attended.sum()),
                                    "words": int((labels != IGNORED).sum())})


class NerTask:
    """Recognise entities with a linear head over each word's first piece.

    Args:
        directory: checkpoint to start from.
        settings: how records become windows.
        batch_size: windows a pass.

    Raises:
        CheckpointError: the checkpoint cannot be used.
    """

    metric = "f1"

    def __init__(self, directory: Path, settings: NerConfig, batch_size: int) -> None:
        checkpoint = load_encoder(directory)
        self.tokenizer = checkpoint.tokenizer
        self.vocabulary = checkpoint.vocabulary
        self._model = checkpoint.model
        self._settings = settings
        self._row_tokens = min(settings.max_length, max_tokens(checkpoint.model))
        self._batch_size = batch_size
        self._splits: dict[str, Examples] = {}
        self._labels: list[str] = []

    def read(self, splits: Mapping[str, Iterable[Record]],
             reject: Reject = refuse) -> Iterator[dict[str, Any]]:
        """Read the sets, `train` first, and tell of each what it holds and what it lacks.

        Raises:
            DataError: a set names no entity at all.
        """
        for name, records in splits.items():
            examples = read_examples(records, self.tokenizer, self._row_tokens,
                                     self._settings.merge_types, reject)
            if not examples.tally.entities:
                raise DataError(f"--{name}: found no entities in {examples.tally.records} records, "
                                "expected records whose key 'entities' names some")
            self._splits[name] = examples
            if name == "train":
                self._labels = label_names(examples.tally.types)
            known = self._splits["train"].tally.types
            unseen = {kind: count for kind, count in sorted(examples.tally.types.items())
                      if kind not in known}
            yield {"split": name, **examples.tally.line(), "unseen_types": unseen}

    def settings(self) -> dict[str, Any]:
        """What the task adds to the settings of the run, as resolved."""
        return {"max_length": self._row_tokens, "merge_types": self._settings.merge_types}

    def start(self, seed: int) -> Any:
        """Make a model to train."""
        return with_new_head(self._model, self._labels, seed)

    def objective(self, model: Any) -> NerObjective:
        """Put the loss around a model."""
        return NerObjective(model)

    def batches(self, seed: int) -> TaggedBatches:
        """Make the batches of a run; windows without a word, ends of endless ones, are left out."""
        numbers = {label: number for number, label in enumerate(self._labels)}
        windows, labels = [], []
        for example in self._splits["train"].members:
            tags = np.array([numbers[tag] for tag in example.tags], dtype=np.int64)
            place = 0
            for window in example.document.windows:
                held = tags[place:place + len(window.firsts)]
                place += len(held)
                if len(held):
                    windows.append(window)
                    labels.append(held)
        return TaggedBatches(windows, labels, self.tokenizer, self._batch_size, seed)

    def evaluate(self, model: Any, name: str) -> Evaluation:
        """Score a model on a set: strict entities, and the mean loss of its words in nats."""
        examples = self._splits[name]
        numbers = {label: number for number, label in enumerate(self._labels)}
        documents = [example.document for example in examples.members]
        found: list[Mention] = []
        losses: list[np.ndarray] = []
        for number, (example, logs) in enumerate(zip(
                examples.members,
                tag_documents(model, self.tokenizer, documents, self._batch_size), strict=True)):
            tags = [self._labels[best] for best in logs.argmax(axis=1)]
            found += [(number, *span) for span in mentions(example.document, tags)]
            known = [(place, numbers[tag]) for place, tag in enumerate(example.tags)
                     if tag in numbers]
            losses.append(-logs[[place for place, _ in known], [label for _, label in known]])
        gold = list(examples.gold())
        by_type = {kind: score.line() for kind, score in score_spans_by_type(gold, found).items()}
        loss = float(np.concatenate(losses).mean(dtype=np.float64))
        return Evaluation(score_spans(gold, found).line(), {"by_type": by_type}, loss)
