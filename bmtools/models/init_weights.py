"""Initialization of a checkpoint with a new vocabulary, from checkpoint to checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from bmtools.errors import DataError, RecordError, Reject, refuse, setting
from bmtools.io.atomic import refuse_existing
from bmtools.io.jsonl import RecordReader
from bmtools.io.manifest import Manifest, hash_directory
from bmtools.models.checkpoint import load_checkpoint, save_checkpoint
from bmtools.models.context_embeddings import Sentence
from bmtools.models.settings import (
    READING_METHODS,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.models.transfer import Transfer, transfer
from bmtools.records import Record, span_faults
from bmtools.search.segment import sentence_spans
from bmtools.vocab.tokenizer import fingerprint, load_tokenizer

Config = TypeVar("Config", TransferConfig, FocusConfig, TokenDistillationConfig)


def init_weights(base: str | Path, tokenizer: str | Path, records: Iterable[Record] = (),
                 output: str | Path | None = None, *, lang: str = "en", overwrite: bool = False,
                 reject: Reject = refuse,
                 progress: Callable[[Iterable[Record]], Iterable[Record]] = iter,
                 **settings: Any) -> Transfer:
    """Give a checkpoint a new vocabulary, and initialize the embeddings of new tokens.

    Args:
        base: checkpoint whose weights are kept.
        tokenizer: directory of the new vocabulary.
        records: the corpus, read by methods contextual, focus and distil only. Records with the
            key "targets", as find-contexts writes them, are sentences with the words to use. Of a
            `RecordReader`, hashes of the files are recorded.
        output: checkpoint directory to write; None writes nothing.
        lang: language of records without one; sentences are split by it.
        overwrite: replace the content of the output directory.
        reject: receives records with unusable targets; by default the first one raises.
        progress: passes records on, to show progress.
        settings: of `TransferConfig`, `FocusConfig` or `TokenDistillationConfig`, by name, such as
            `method="focus", focus_window=3`.

    Returns:
        the model with its new vocabulary, and `report`: `tokens` in all, tokens by the source of
        their embedding (`copied`, `folded`, `contextual`, `focus`, `distil`, `averaged`,
        `random`), `sentences` read, and mean norms of old embeddings and of those of new tokens
        (`old_norm`, `new_norm`).

    Raises:
        BmtoolsError: a checkpoint, tokenizer, layer or record that cannot be used, no sentences,
            or an output directory that is not empty.
        TypeError: an unknown setting.
        ValueError: a setting out of range.
    """
    config, focus, distil = (_config(TransferConfig, settings), _config(FocusConfig, settings),
                             _config(TokenDistillationConfig, settings))
    if settings:
        raise TypeError(f"init_weights: unknown settings {', '.join(sorted(settings))}")
    if output is not None:
        refuse_existing(Path(output), overwrite)
    started = time.monotonic()
    checkpoint, new = load_checkpoint(Path(base)), load_tokenizer(Path(tokenizer))
    sentences: Iterable[Sentence] = ()
    if config.method in READING_METHODS:
        sentences = split_sentences(check_targets(progress(records), reject), lang)
    transferred = transfer(checkpoint, new, config, sentences, focus, distil)
    if output is not None:
        own = {"focus": asdict(focus), "distil": asdict(distil)}.get(config.method, {})
        manifest = Manifest(
            "init-weights", {**asdict(config), **own, "base": str(base),
                             "tokenizer": str(tokenizer)},
            fingerprint(new), config.seed,
            records.hashes if isinstance(records, RecordReader) else {},
            {"base": hash_directory(checkpoint.path)}, wall_seconds=time.monotonic() - started,
            results=transferred.report)
        save_checkpoint(Path(output), transferred.model, new, manifest, overwrite)
    return transferred


def _config(kind: type[Config], settings: dict[str, Any]) -> Config:
    """Make a config of the settings that it has, and take them out."""
    return kind(**{field.name: settings.pop(field.name) for field in fields(kind)
                   if field.name in settings})


def split_sentences(records: Iterable[Record], lang: str = "en") -> Iterator[Sentence]:
    """Split records into sentences; those with targets are sentences already.

    Args:
        records: with text.
        lang: language of records without one.

    Raises:
        DataError: there are no sentences.
    """
    is_empty = True
    for record in records:
        text, targets = record["text"], record.get("targets")
        spans = sentence_spans(text, record.get("lang", lang)) if targets is None else \
            [(0, len(text))]
        words = tuple((one["word"], one["start"], one["end"]) for one in targets or ())
        for start, end in spans:
            is_empty = False
            yield Sentence(text[start:end], words)
    if is_empty:
        raise DataError("no sentences in the input; expected records with some text, or "
                        f"{setting('method')} average, which reads none")


def check_targets(records: Iterable[Record], reject: Reject = refuse) -> Iterator[Record]:
    """Pass records on, except those with unusable targets, which `reject` receives."""
    for record in records:
        fault = _target_fault(record) if "targets" in record else ""
        if fault:
            reject(RecordError(record.place, fault, record))
        else:
            yield record


def _target_fault(record: Record) -> str:
    """Describe what is wrong with the targets of a record, if anything."""
    targets = record["targets"]
    if not isinstance(targets, list):
        return f"key 'targets': found {type(targets).__name__}, expected a list"
    for number, one in enumerate(targets):
        if not isinstance(one, dict) or not isinstance(one.get("word"), str) \
                or not all(type(one.get(name)) is int for name in ("start", "end")):
            return (f"key 'targets[{number}]': found {str(one)[:60]}, expected an object with "
                    "word, start and end")
        for fault in span_faults(record["text"], {"start": one["start"], "end": one["end"]},
                                 f"targets[{number}]"):
            return fault
    return ""
