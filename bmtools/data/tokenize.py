"""Tokenization of records into shards by several processes; it can be resumed after a kill.

Worker processes import this module, so it must not import transformers, which needs seconds and
hundreds of megabytes in each of them.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from tokenizers import Tokenizer

from bmtools.data.settings import ShardConfig
from bmtools.data.shards import (
    SHARDS,
    Corpus,
    DocumentBatch,
    Shard,
    ShardWriter,
    is_shards,
    shard_path,
    stated_licences,
)
from bmtools.errors import CheckpointError, DataError, RecordError, Reject, setting, start_again
from bmtools.io.directories import beside, discard_run, new_directory, refuse_existing
from bmtools.io.failures import reading
from bmtools.io.json_files import read_manifest
from bmtools.io.jsonl import Block, RecordReader
from bmtools.io.output import new_file
from bmtools.io.parts import read_blocks
from bmtools.io.provenance.manifest import Manifest, is_finished
from bmtools.io.sources import source_name
from bmtools.io.step import Step
from bmtools.io.unfinished import RUN, refuse_unfinished, remove_abandoned
from bmtools.io.workers import map_parallel
from bmtools.ragged import offsets
from bmtools.records import ORIGINS, JsonObject, Record, full_text
from bmtools.settings import split_settings
from bmtools.text.segment import sentence_spans
from bmtools.vocab.encoding import Encoder
from bmtools.vocab.segmenters import Segmenter, load_segmenter
from bmtools.vocab.tokenizer import fingerprint, save_tokenizer, unknown_ids
from bmtools.vocab.unknown_tokens import warn_of_unknown_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Rejected = tuple[str, str, object]
"""Place, reason and content of a bad record."""
_PROGRESS = "progress.json"


@dataclass(frozen=True)
class EncodedBlock:
    """Encoded records of a block.

    Args:
        block: number of the block.
        before: hash of all content before the block.
        documents: documents with tokens.
        counts: counts by name, such as records and characters; records by origin, such as
            `lang:it`.
        rejects: the bad records.
    """

    block: int
    before: str
    documents: DocumentBatch
    counts: Counter[str]
    rejects: list[RecordError]


class BlockEncoder:
    """Parser and encoder of a block's records, in a worker process.

    Args:
        tokenizer: the tokenizer as JSON.
        config: settings of the shards.
        segmenter: finds words instead of the tokenizer.
        lang_setting: name of the setting `lang` in messages, which a new process does not know.
    """

    def __init__(self, tokenizer: str, config: ShardConfig, segmenter: Segmenter | None,
                 lang_setting: str) -> None:
        self._config = config
        self._lang_setting = lang_setting
        backend = Tokenizer.from_str(tokenizer)
        self._encoder = Encoder(backend, segmenter)
        self._unknown_ids = unknown_ids(backend)

    def __call__(self, block: Block) -> EncodedBlock:
        rejects: list[RecordError] = []
        texts: list[str] = []
        origins: Counter[str] = Counter()
        points: list[list[int]] = []
        for record in block.records(rejects.append):
            if self._config.sentences and not (record.get("lang") or self._config.lang):
                rejects.append(RecordError(
                    record.place, "found no language, expected the key 'lang' or "
                    f"{self._lang_setting} to split sentences", dict(record)))
                continue
            texts.append(full_text(record))
            origins.update(f"{key}:{record[key]}" for key in ORIGINS if record.get(key))
            if self._config.sentences:
                points.append(_sentence_points(record, self._config.lang))
        found = self._encoder.encode(texts, points if self._config.sentences else None)
        sentences = None
        if found.tokens_at:
            # The first sentence starts with the text. No sentence is empty.
            starts = [np.unique(np.array([0, *tokens])) for tokens in found.tokens_at]
            sentences = np.concatenate([
                tokens[tokens < length] + origin for tokens, length, origin
                in zip(starts, found.lengths, offsets(found.lengths)[:-1], strict=True)])
        # Send half the bytes between processes, if the ids allow it.
        narrow = np.uint16 if not len(found.ids) or found.ids.max() < 1 << 16 else np.uint32
        # Skip texts without tokens.
        documents = DocumentBatch(found.ids.astype(narrow), found.word_starts,
                                  found.lengths[found.lengths > 0], sentences)
        counts = Counter(
            records=len(texts), characters=sum(map(len, texts)),
            documents=len(documents.lengths), empty=len(texts) - len(documents.lengths),
            tokens=len(found.ids), words=int(found.word_starts.sum()), **origins,
            unknown=sum(int(np.count_nonzero(found.ids == one)) for one in self._unknown_ids))
        if sentences is not None:
            counts["sentences"] = len(sentences)
        return EncodedBlock(block.number, block.before, documents, counts, rejects)


def _sentence_points(record: Record, lang: str) -> list[int]:
    """Return the starts of sentences in the full text; the title is a sentence."""
    shift = len(record["title"]) + 1 if record.get("title") else 0
    spans = sentence_spans(record["text"], record.get("lang") or lang)
    return [*([0] if shift else []), *(start + shift for start, _ in spans)]


Watch = Callable[[Iterator[EncodedBlock]], Iterable[EncodedBlock]]
"""Function that wraps the iterator over encoded blocks, to show progress."""


@dataclass(frozen=True)
class _Progress:
    """Progress of the shards on disk; written after each shard.

    Args:
        identity: settings that must stay the same when a run is resumed, by name.
        shards: number of complete shards.
        block: number of the block that the last shard's last document came from.
        before: hash of all content before that block.
        taken: number of documents in shards that come from that block.
        counts: counts of all earlier blocks, by name.
        rejects: bad records of the earlier blocks.
    """

    identity: dict[str, object]
    shards: int = 0
    block: int = 0
    before: str = ""
    taken: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    rejects: list[Rejected] = field(default_factory=list)


def tokenize(records: RecordReader | str | PathLike[str],
             tokenizer: PreTrainedTokenizerBase | str | PathLike[str], output: str | PathLike[str],
             settings: ShardConfig | None = None, *, processes: int = 1, resume: bool = False,
             overwrite: bool = False, watch: Watch = iter, step: Step | None = None,
             **fields: object) -> JsonObject:
    """Encode titles and texts, and write shards: `tokenize("texts.jsonl", "vocabulary", "shards")`.

    The output has the same bytes for any number of processes and interruptions. Memory does not
    grow with the input: a shard and about a hundred megabytes in each process are kept. A killed
    run leaves complete shards next to the output.

    Args:
        records: a file, or a reader of several files; its `reject` receives bad records, and its
            `hashes` are filled.
        tokenizer: a fast tokenizer, or the directory of one.
        output: directory to write.
        settings: settings of the shards.
        processes: number of encoding processes; 0 for one per core, 1 for this process.
        resume: continue an unfinished run, if any, after its complete shards. Their text is read
            again and compared, but not encoded. If the shards are finished, check that they were
            made from this text.
        overwrite: replace existing output.
        step: the running command, if any.
        watch: wraps the iterator over blocks of text.
        fields: fields of `ShardConfig`, instead of `settings`.

    Returns:
        the manifest; `empty` in its results counts texts without tokens, which are skipped.

    Raises:
        BmtoolsError: the output exists, the unfinished run has other inputs, or there is no text.
    """
    if settings is None:
        [settings] = split_settings(fields, ShardConfig)
    if isinstance(records, str | PathLike):
        records = RecordReader([str(records)])
    if isinstance(tokenizer, str | PathLike):
        from bmtools.vocab.loading import load_tokenizer

        tokenizer = load_tokenizer(Path(tokenizer))
    output = Path(output)
    check_shard_target(output, resume, overwrite)
    identity = {**asdict(settings), "vocabulary": fingerprint(tokenizer)}
    run = beside(output, RUN)
    if resume and _has_shards(output):
        return _confirmed(output, run, records, identity)
    started = time.monotonic()
    if run.exists() and not resume:
        shutil.rmtree(run)
    encoder = partial(BlockEncoder, tokenizer.backend_tokenizer.to_str(), settings,
                      load_segmenter(settings.segmenter), setting("lang"))
    run.mkdir(parents=True, exist_ok=True)
    remove_abandoned(run)
    try:
        progress = _read_progress(run, identity, records.reject)
        ids = 1 + max(tokenizer.get_vocab().values())
        writer = ShardWriter(run, identity["vocabulary"], ids, settings.shard_tokens,
                             progress.shards)
        blocks = _skip_done(read_blocks(records), progress, run)
        remedy = f"continue with {setting('resume')} and fewer {setting('workers')}"
        with closing(map_parallel(blocks, encoder, processes, remedy)) as encoded:
            counts = _write_shards(run, writer, watch(encoded), progress, records.reject)
        if not counts["documents"]:
            raise DataError("no text in the input; give records with text")
    except BaseException:
        if not (run / _PROGRESS).exists():  # there is no shard to resume from
            shutil.rmtree(run)
        raise
    warn_of_unknown_tokens(tokenizer.name_or_path, counts["unknown"], counts["tokens"],
                           [source_name(name) for name in records.names])
    manifest = Manifest("tokenize", asdict(settings), identity["vocabulary"], inputs=records.hashes,
                        wall_seconds=time.monotonic() - started,
                        results={"shards": writer.number, **_results(counts)},
                        licences={"text": stated_licences(_results(counts))}, step=step)
    return _finish(run, output, tokenizer, manifest, overwrite)


def check_shard_target(output: Path, resume: bool = False, overwrite: bool = False) -> None:
    """Raise an error early if shards or an unfinished run would be overwritten.

    Raises:
        BmtoolsError: one of them exists.
    """
    if not (resume and _has_shards(output)):
        refuse_existing(output, overwrite)
    refuse_unfinished(beside(output, RUN), resume, overwrite)


def _has_shards(output: Path) -> bool:
    return is_shards(output) and is_finished(output, beside(output, RUN))


def _skip_done(blocks: Iterator[Block], progress: _Progress, run: Path) -> Iterator[Block]:
    """Skip the blocks that are in shards, and check that their text is the same."""
    if not progress.shards:
        return blocks
    first = next(islice(blocks, progress.block, None), None)
    if first is None or first.before != progress.before:
        raise CheckpointError(f"{run}: the unfinished run read a different text; resume with "
                              f"the files it was started with, or {start_again()}")
    return chain([first], blocks)


def _write_shards(run: Path, writer: ShardWriter, encoded: Iterable[EncodedBlock],
                  progress: _Progress, reject: Reject) -> Counter[str]:
    """Write shards and the progress after each; return the counts of all blocks."""
    counts, rejects, skipped = Counter(progress.counts), progress.rejects, progress.taken
    for one in encoded:
        for each in one.rejects:
            reject(each)
        rest, taken, skipped = one.documents.split(skipped)[1], skipped, 0
        while True:
            fitting = writer.room(rest)
            head, rest = rest.split(fitting)
            writer.add(head)
            taken += fitting
            if not len(rest.lengths):
                break
            writer.close()
            with new_file(run / _PROGRESS) as stream:
                stream.write(msgspec.json.encode(_Progress(
                    progress.identity, writer.number, one.block, one.before, taken, counts,
                    rejects)))
        counts.update(one.counts)
        rejects = [*rejects, *((each.place, each.reason, each.content) for each in one.rejects)]
    writer.close()
    return counts


def _results(counts: Mapping[str, int]) -> JsonObject:
    """Collect the counts of records by language and by licence under one key each."""
    results: JsonObject = {}
    for name, number in sorted(counts.items()):
        key, _, value = name.partition(":")
        if value:
            results.setdefault(ORIGINS[key], {})[value] = number
        else:
            results[name] = number
    return results


def _read_progress(run: Path, identity: dict[str, object], reject: Reject) -> _Progress:
    """Read the progress of an unfinished run, and reject its bad records again."""
    path = run / _PROGRESS
    if not path.exists():
        return _Progress(identity)
    with reading(path, "cannot be read", f"the unfinished run is damaged, {start_again()}"):
        progress = msgspec.json.decode(path.read_bytes(), type=_Progress)
    _same_identity(run, progress.identity, identity)
    for each in progress.rejects:
        reject(RecordError(*each))
    Shard.read(shard_path(run, progress.shards - 1))
    return progress


def _same_identity(place: Path, old: Mapping[str, object], new: Mapping[str, object]) -> None:
    for name in new:
        if old.get(name) != new[name]:
            raise CheckpointError(
                f"{place}: made with {name} {old.get(name)}, found {new[name]}; resume with the "
                f"same settings, or {start_again()}")


def _confirmed(output: Path, run: Path, records: RecordReader,
               identity: Mapping[str, object]) -> JsonObject:
    """Check that finished shards have this text and these settings; read their manifest."""
    manifest = read_manifest(output)
    _same_identity(output, {**manifest.get("settings", {}),
                            "vocabulary": manifest.get("vocabulary")}, identity)
    deque(read_blocks(records), maxlen=0)
    if sorted(records.hashes.values()) != sorted(manifest.get("inputs", {}).values()):
        raise CheckpointError(f"{output}: made from a different text; give another name, or "
                              f"{setting('overwrite')} without {setting('resume')} to replace it")
    Corpus.open(output)
    discard_run(run)  # a kill may have left it
    return manifest


def _finish(run: Path, output: Path, tokenizer: PreTrainedTokenizerBase, manifest: Manifest,
            overwrite: bool) -> JsonObject:
    """Turn the run's directory into the output; a kill at any moment leaves one of them."""
    with new_directory(output, overwrite) as unfinished:
        for path in run.glob(SHARDS):
            try:
                os.link(path, unfinished / path.name)
            except OSError:  # a file system without links
                path.rename(unfinished / path.name)
        save_tokenizer(tokenizer, unfinished)
        written = manifest.write(unfinished)
    discard_run(run)
    return written
