"""Tokenization of records into shards by several processes; resumable after a kill."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bmtools.data.encode_blocks import BlockEncoder, EncodedBlock
from bmtools.data.settings import ShardConfig
from bmtools.data.shard_files import PROGRESS, SHARDS, ShardWriter, shard_path
from bmtools.data.shards import COMMAND, Corpus, Shard, is_shards, stated_licences
from bmtools.errors import BmtoolsError, CheckpointError, DataError, RecordError, Reject, setting
from bmtools.io.directories import RUN, beside, discard_run, new_directory, refuse_existing
from bmtools.io.failures import reading
from bmtools.io.jsonl import Block, RecordReader, parse_json
from bmtools.io.parallel import map_parallel, read_blocks
from bmtools.io.provenance.manifest import Manifest, is_finished, read_manifest
from bmtools.io.sources import source_name
from bmtools.io.unfinished import remove_abandoned
from bmtools.records import ORIGINS
from bmtools.vocab.segmenters import load_segmenter
from bmtools.vocab.tokenizer import fingerprint, require_same_vocabulary, save_tokenizer
from bmtools.vocab.unknown_tokens import warn_of_unknown_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Watch = Callable[[Iterator[EncodedBlock]], Iterable[EncodedBlock]]
"""Wraps the iterator over encoded blocks, to show progress."""


@dataclass(frozen=True)
class _Progress:
    """Progress of the shards on disk; written before each shard.

    Args:
        identity: settings that must be equal for a run to be resumed, by name.
        block: number of the block that the last shard's last document came from.
        before: hash of all content before that block.
        taken: documents of that block that are in shards.
        counts: of all blocks before it, by name.
        rejects: bad records of the blocks completed since the shard before.
    """

    identity: Mapping[str, Any]
    block: int = 0
    before: str = ""
    taken: int = 0
    counts: Mapping[str, int] | None = None
    rejects: Sequence[tuple[str, str, Any]] = ()


def tokenize(records: RecordReader, tokenizer: PreTrainedTokenizerBase, output: Path,
             settings: ShardConfig | None = None, *, processes: int = 1, resume: bool = False,
             overwrite: bool = False, watch: Watch = iter) -> dict[str, Any]:
    """Encode titles and texts, and write a directory of shards.

    The output has the same bytes for any number of processes and of interruptions. Memory does
    not grow with the input: it holds a shard, and about a hundred megabytes in each process. A
    killed run leaves complete shards beside the output.

    Args:
        records: of the files to read; its `reject` receives bad records, its `hashes` are filled.
        tokenizer: a fast tokenizer.
        output: directory to write.
        settings: of the shards.
        processes: encoding processes; 0 for one a core. One encodes in this process.
        resume: continue an unfinished run after its complete shards, if there is one; their text
            is read again, to check that it is the same, but not encoded. Finished shards are
            checked to be of this text.
        overwrite: replace existing output.
        watch: wraps the iterator over blocks of text.

    Returns:
        the manifest; among its results, `empty` counts texts without tokens, which are skipped,
        and `encoded_whole` those that could not be encoded piece by piece.

    Raises:
        BmtoolsError: the output exists, the unfinished run is another one, or there is no text.
    """
    settings = settings or ShardConfig()
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
        progress, number = _read_progress(run, identity, records.reject)
        ids = 1 + max(tokenizer.get_vocab().values())
        writer = ShardWriter(run, identity["vocabulary"], ids, settings.shard_tokens, number)
        blocks = _skip_done(read_blocks(records), progress, run)
        remedy = f"continue with {setting('resume')} and fewer {setting('processes')}"
        with closing(map_parallel(blocks, encoder, processes, remedy)) as encoded:
            counts = _write_shards(writer, watch(encoded), progress, records.reject)
        if not counts["documents"]:
            raise DataError("no text in the input; expected records with some text")
    except BaseException:
        if not shard_path(run, 0).exists():  # nothing to resume
            shutil.rmtree(run)
        raise
    warn_of_unknown_tokens(tokenizer.name_or_path, counts["unknown"], counts["tokens"],
                           [source_name(name) for name in records.names])
    manifest = Manifest(COMMAND, asdict(settings), identity["vocabulary"], inputs=records.hashes,
                        wall_seconds=time.monotonic() - started,
                        results={"shards": writer.number, **_results(counts)},
                        licences={"text": stated_licences(_results(counts))})
    return _finish(run, output, tokenizer, manifest, overwrite)


def check_shard_target(output: Path, resume: bool = False, overwrite: bool = False) -> None:
    """Refuse to overwrite shards or an unfinished run, before any heavy work.

    Raises:
        BmtoolsError: there is one.
    """
    if not (resume and _has_shards(output)):
        refuse_existing(output, overwrite)
    run = beside(output, RUN)
    if run.exists() and not resume and not overwrite:
        raise BmtoolsError(f"{run} holds an unfinished run; {setting('resume')} continues it, "
                           f"{setting('overwrite')} starts again")


def _has_shards(output: Path) -> bool:
    return is_shards(output) and is_finished(output, beside(output, RUN))


def open_corpus(paths: Sequence[Path], vocabulary: str) -> Corpus:
    """Map directories of shards as one corpus, for a model of a given vocabulary.

    Raises:
        CheckpointError: no shards, damaged ones, or made with another tokenizer.
    """
    corpus = Corpus.open(*paths)
    require_same_vocabulary(corpus.vocabulary, vocabulary, str(paths[0]))
    return corpus


def _skip_done(blocks: Iterator[Block], progress: _Progress, run: Path) -> Iterator[Block]:
    """Skip the blocks that are in shards, and check that they are the same text."""
    if progress.counts is None:
        return blocks
    first = next(islice(blocks, progress.block, None), None)
    if first is None or first.before != progress.before:
        raise CheckpointError(f"{run}: the unfinished run read other text than this; resume with "
                              "the files it was started with, or start again with "
                              f"{setting('overwrite')}")
    return chain([first], blocks)


def _write_shards(writer: ShardWriter, encoded: Iterable[EncodedBlock], progress: _Progress,
                  reject: Reject) -> Counter[str]:
    """Write shards and the progress of each; return the counts of all blocks."""
    counts = Counter(progress.counts or {})
    skipped = progress.taken
    rejects: list[tuple[str, str, Any]] = []
    state = progress
    for one in encoded:
        for each in one.rejects:
            reject(RecordError(*each))
        rest, taken, skipped = one.documents.split(skipped)[1], skipped, 0
        while True:
            fitting = writer.room(rest)
            head, rest = rest.split(fitting)
            writer.add(head)
            taken += fitting
            state = _Progress(progress.identity, one.block, one.before, taken, dict(counts),
                              rejects)
            if not len(rest.lengths):
                break
            writer.close(state)
            rejects = []
        counts.update(one.counts)
        rejects = [*rejects, *one.rejects]
    writer.close(state)
    return counts


def _results(counts: Mapping[str, int]) -> dict[str, Any]:
    """Put the records by language and by licence under keys of their own."""
    results: dict[str, Any] = {}
    for name, number in sorted(counts.items()):
        key, _, value = name.partition(":")
        if value:
            results.setdefault(ORIGINS[key], {})[value] = number
        else:
            results[name] = number
    return results


def _read_progress(run: Path, identity: Mapping[str, Any],
                   reject: Reject) -> tuple[_Progress, int]:
    """Read the progress of an unfinished run, and reject its bad records again.

    Returns:
        the progress, and the number of complete shards.
    """
    progress, number = _Progress(identity), 0
    while shard_path(run, number).exists():
        path = run / PROGRESS.format(number)
        with reading(path, "cannot be read", "the unfinished run is damaged, start again with "
                     f"{setting('overwrite')}"):
            content = parse_json(path.read_text(encoding="utf-8"))
            msgspec.convert(content, _Progress)
            progress = _Progress(**content)
        _same_identity(run, progress.identity, identity)
        for each in progress.rejects:
            reject(RecordError(*each))
        number += 1
    if number:
        Shard.read(shard_path(run, number - 1))
    return progress, number


def _same_identity(place: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in new:
        if old.get(name) != new[name]:
            raise CheckpointError(
                f"{place}: made with {name} {old.get(name)}, found {new[name]}; resume with what "
                f"it was started with, or start again with {setting('overwrite')}")


def _confirmed(output: Path, run: Path, records: RecordReader,
               identity: Mapping[str, Any]) -> dict[str, Any]:
    """Check that finished shards are of this text and these settings; read their manifest."""
    manifest = read_manifest(output)
    _same_identity(output, {**manifest.get("settings", {}),
                            "vocabulary": manifest.get("vocabulary")}, identity)
    deque(read_blocks(records), maxlen=0)
    if sorted(records.hashes.values()) != sorted(manifest.get("inputs", {}).values()):
        raise CheckpointError(f"{output}: made of other text than this; give another name, or "
                              f"{setting('overwrite')} without {setting('resume')} to replace it")
    Corpus.open(output)
    discard_run(run)  # a kill may have left it
    return manifest


def _finish(run: Path, output: Path, tokenizer: PreTrainedTokenizerBase, manifest: Manifest,
            overwrite: bool) -> dict[str, Any]:
    """Turn the run's directory into the output; a kill at any moment leaves one of the two."""
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
