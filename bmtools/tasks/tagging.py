"""A token classifier at work: from texts to scored entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bmtools.errors import CheckpointError
from bmtools.io.manifest import read_manifest
from bmtools.models.checkpoint import Checkpoint, load_fine_tuned, max_tokens
from bmtools.models.hardware import resolve_device
from bmtools.records import Record
from bmtools.tasks.settings import NerConfig, PredictConfig
from bmtools.tasks.tag_schemes import is_bio, tags_to_spans
from bmtools.tasks.windows import Window, WindowedText, cut_into_windows, pad_windows

_BATCHES_AT_ONCE = 8
_DIGITS = 4


@dataclass(frozen=True)
class Tagger:
    """A model that names the tag of each word.

    Args:
        checkpoint: the model, ready to predict.
        labels: its tags by id.
        max_length: longest window, special tokens included.
    """

    checkpoint: Checkpoint
    labels: list[str]
    max_length: int


def load_tagger(directory: Path, settings: PredictConfig) -> Tagger:
    """Load a fine-tuned model; windows are as long as in training unless asked otherwise.

    Raises:
        CheckpointError: no token classifier, or one whose labels are not BIO.
        BmtoolsError: no such device.
    """
    checkpoint = load_fine_tuned(directory, "AutoModelForTokenClassification",
                                 resolve_device(settings.device))
    named: Any = checkpoint.model.config.id2label
    labels = [named[number] for number in range(len(named))]
    if not is_bio(labels):
        raise CheckpointError(
            f"{directory}: found labels {', '.join(labels[:5])}, expected O, B-TYPE and I-TYPE; "
            "train a model with bmtools finetune --task ner")
    trained = read_manifest(directory).get("settings", {}).get("max_length")
    wanted = settings.max_length or trained or NerConfig.max_length
    return Tagger(checkpoint, labels, min(int(wanted), max_tokens(checkpoint.model)))


def predict(records: Iterable[Record], tagger: Tagger,
            settings: PredictConfig) -> Iterator[Record]:
    """Give each record the entities that the model finds in its text, in place of its own.

    Relations go, as they name entities that are no longer there. Some batches of records are
    held at a time; order is kept.
    """
    model, tokenizer = tagger.checkpoint.model, tagger.checkpoint.tokenizer
    pending = iter(records)
    while chunk := list(islice(pending, settings.batch_size * _BATCHES_AT_ONCE)):
        texts = [record["text"] for record in chunk]
        documents = list(cut_into_windows(tokenizer, texts, tagger.max_length))
        found = tag_documents(model, tokenizer, documents, settings.batch_size)
        for record, document, logs in zip(chunk, documents, found, strict=True):
            entities = _entities(record["text"], document, logs, tagger.labels)
            yield record.without("relations").replace(entities=entities)


def tag_documents(model: Any, tokenizer: Any, documents: Sequence[WindowedText],
                  batch_size: int) -> Iterator[np.ndarray]:
    """Yield log probabilities (words, labels) for each document, in order.

    Windows of like length share a pass. Dropout is off, and put back as it was.
    """
    windows = [window for document in documents for window in document.windows]
    found = _tag_windows(model, tokenizer, windows, batch_size)
    place = 0
    for document in documents:
        parts = found[place:place + len(document.windows)]
        place += len(parts)
        yield np.concatenate([np.zeros((0, model.config.num_labels), dtype=np.float32), *parts])


def _tag_windows(model: Any, tokenizer: Any, windows: Sequence[Window],
                 batch_size: int) -> list[np.ndarray]:
    order = sorted(range(len(windows)), key=lambda number: len(windows[number].ids))
    found: list[np.ndarray] = [np.empty(0)] * len(windows)
    was_training = model.training
    model.eval()
    for start in range(0, len(order), batch_size):
        members = order[start:start + batch_size]
        ids, attended = pad_windows([windows[number] for number in members], tokenizer)
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(ids).to(model.device),
                           attention_mask=torch.from_numpy(attended).long().to(model.device)).logits
            logs = logits.float().log_softmax(dim=-1).cpu().numpy()
        for row, number in zip(logs, members, strict=True):
            found[number] = row[windows[number].firsts + 1]
    model.train(was_training)
    return found


def _entities(text: str, document: WindowedText, logs: np.ndarray,
              labels: Sequence[str]) -> list[dict[str, Any]]:
    """Make entities of the likeliest tags; a score is the mean probability of its words' tags."""
    best = np.exp(logs.max(axis=1))
    tags = [labels[number] for number in logs.argmax(axis=1)]
    entities = []
    for number, (first, after, kind) in enumerate(tags_to_spans(tags), 1):
        start, end = int(document.words[first, 0]), int(document.words[after - 1, 1])
        entities.append({"id": f"T{number}", "start": start, "end": end, "type": kind,
                         "text": text[start:end],
                         "score": round(float(best[first:after].mean()), _DIGITS)})
    return entities
