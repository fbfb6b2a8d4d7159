"""Records encoded once, by several processes, into shards; killable and resumable."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from bmtools.data.encode_blocks import EncodedBlock, EncodeTask, encode_blocks
from bmtools.data.settings import ShardConfig
from bmtools.data.shard_files import SHARDS, ShardWriter, map_shard, shard_path
from bmtools.data.shards import COMMAND, Corpus, is_shards
from bmtools.errors import BmtoolsError, CheckpointError, DataError, RecordError, Reject
from bmtools.io.atomic import new_directory, new_file, refuse_existing
from bmtools.io.jsonl import RecordReader
from bmtools.io.manifest import Manifest, read_manifest
from bmtools.io.parallel import Block, read_blocks
from bmtools.masking.segmenters import word_marker
from bmtools.vocab.tokenizer import fingerprint, require_same_vocabulary, save_tokenizer

Watch = Callable[[Iterator[EncodedBlock]], Iterable[EncodedBlock]]
"""Passes on what goes by, a megabyte of text at a time, to show progress."""


@dataclass(frozen=True)
class _Progress:
    """How far the shards on disk reach; written before each shard.

    Args:
        identity: what must be equal for a resumed run to be the same run, by name.
        block: number of the block that the last shard's last document came from.
        before: hash of all content before that block.
        taken: documents of that block which are in shards.
        counts: of all blocks before it, by name.
        rejects: bad records of the blocks that became complete since the shard before.
    """

    identity: Mapping[str, Any]
    block: int = 0
    before: str = ""
    taken: int = 0
    counts: Mapping[str, int] | None = None
    rejects: Sequence[Any] = ()


def tokenize(records: RecordReader, tokenizer: Any, output: Path,
             settings: ShardConfig | None = None, *, processes: int = 1, resume: bool = False,
             overwrite: bool = False, watch: Watch = iter) -> dict[str, Any]:
    """Encode titles and texts, and write a directory of shards.

    The same bytes come out whatever the number of processes, and whether a run was interrupted.
    Memory does not grow with the input: it holds a shard, and in each process about a hundred
    megabytes. A killed run leaves whole shards beside the output.

    Args:
        records: names the files; its `reject` receives bad records, its `hashes` are filled.
        tokenizer: a fast one of transformers.
        output: directory to write.
        settings: how.
        processes: that encode; 0 for one a core. One works in this process.
        resume: go on behind the whole shards of an unfinished run, if there is one; text that
            they hold is read again, to make sure that it is the same, but not encoded. Of
            finished shards it is made sure that they are of this text.
        overwrite: replace what is there.
        watch: sees each block of text go by.

    Returns:
        the manifest; among its results, `empty` counts texts without tokens, which are left out,
        and `encoded_whole` those for which the tokenizer allowed no short cut.

    Raises:
        BmtoolsError: the output exists, the unfinished run is another one, or there is no text.
    """
    settings = settings or ShardConfig()
    check_shard_target(output, resume, overwrite)
    identity = {**asdict(settings), "vocabulary": fingerprint(tokenizer)}
    if resume and is_shards(output):
        return _confirmed(output, records, identity)
    started = time.monotonic()
    run = _run_directory(output)
    if run.exists() and not resume:
        shutil.rmtree(run)
    task = EncodeTask(tokenizer.backend_tokenizer.to_str(), settings,
                      word_marker(settings.segmenter))
    with _kept_if_useful(run):
        progress, number = _read_progress(run, identity, records.reject)
        ids = 1 + max(tokenizer.get_vocab().values())
        writer = ShardWriter(run, identity["vocabulary"], ids, settings.shard_tokens, number)
        blocks = _behind(read_blocks(records), progress, run)
        with closing(encode_blocks(blocks, task, processes)) as encoded:
            counts = _fill(writer, run, watch(encoded), progress, records.reject)
        if not counts["documents"]:
            raise DataError("no text in the input; expected records with some text")
    manifest = Manifest(COMMAND, asdict(settings), identity["vocabulary"], inputs=records.hashes,
                        wall_seconds=time.monotonic() - started,
                        results={"shards": writer.number, **dict(sorted(counts.items()))})
    return _finish(run, output, tokenizer, manifest, overwrite)


def check_shard_target(output: Path, resume: bool = False, overwrite: bool = False) -> None:
    """Refuse, before anything heavy, to write over shards or over an unfinished run.

    Raises:
        BmtoolsError: there is one.
    """
    if not (resume and is_shards(output)):
        refuse_existing(output, overwrite)
    run = _run_directory(output)
    if run.exists() and not resume and not overwrite:
        raise BmtoolsError(f"{run} holds an unfinished run; --resume goes on with it, "
                           "--overwrite starts again")


def open_corpus(paths: Sequence[Path], vocabulary: str) -> Corpus:
    """Map directories of shards as one corpus, for a model of a given vocabulary.

    Raises:
        CheckpointError: no shards, damaged ones, or made with another tokenizer.
    """
    corpus = Corpus.open(*paths)
    require_same_vocabulary(corpus.vocabulary, vocabulary, str(paths[0]))
    return corpus


def _run_directory(output: Path) -> Path:
    """Where the shards of an unfinished run lie: beside the directory they will become."""
    return output.with_name(output.name + ".run")


@contextmanager
def _kept_if_useful(run: Path) -> Iterator[None]:
    """Make the directory, and leave it behind after an error only if it holds a whole shard."""
    run.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if not shard_path(run, 0).exists():
            shutil.rmtree(run)
        raise


def _behind(blocks: Iterator[Block], progress: _Progress, run: Path) -> Iterator[Block]:
    """Pass over the blocks that are in shards, and make sure that they are the same text."""
    if progress.counts is None:
        return blocks
    first = next(islice(blocks, progress.block, None), None)
    if first is None or first.before != progress.before:
        raise CheckpointError(f"{run}: the unfinished run read other text than this; resume with "
                              "the files it was started with, or start again with --overwrite")
    return chain([first], blocks)


def _fill(writer: ShardWriter, run: Path, encoded: Iterable[EncodedBlock], progress: _Progress,
          reject: Reject) -> Counter[str]:
    """Write shards, each with the progress that it completes; return the counts of all blocks."""
    counts = Counter(progress.counts or {})
    skipped = progress.taken
    rejects: list[tuple[str, str, Any]] = []
    state = progress
    for one in encoded:
        for each in one.rejects:
            reject(RecordError(*each))
        _, rest = one.documents.split(skipped)
        taken = skipped
        skipped = 0
        while True:
            fitting = writer.room(rest)
            head, rest = rest.split(fitting)
            writer.add(head)
            taken += fitting
            state = _Progress(progress.identity, one.block, one.before, taken, dict(counts),
                              rejects)
            if not len(rest):
                break
            _close(writer, run, state)
            rejects = []
        counts.update(one.counts)
        rejects = [*rejects, *one.rejects]
    _close(writer, run, state)
    return counts


def _close(writer: ShardWriter, run: Path, state: _Progress) -> None:
    if writer.tokens:
        with new_file(_progress_path(run, writer.number)) as stream:
            stream.write(msgspec.json.encode(asdict(state)))
        writer.close()


def _progress_path(run: Path, number: int) -> Path:
    return run / f"progress-{number:05d}.json"


def _read_progress(run: Path, identity: Mapping[str, Any],
                   reject: Reject) -> tuple[_Progress, int]:
    """Read how far an unfinished run came, and pass its bad records on again.

    Returns:
        the progress, and how many shards are whole.
    """
    progress, number = _Progress(identity), 0
    while shard_path(run, number).exists():
        path = _progress_path(run, number)
        try:
            progress = _Progress(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path}: cannot be read ({error}); the unfinished run is "
                                  "damaged, start again with --overwrite") from error
        _same_identity(run, progress.identity, identity)
        for each in progress.rejects:
            reject(RecordError(*each))
        number += 1
    if number:
        map_shard(shard_path(run, number - 1))
    return progress, number


def _same_identity(place: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in new:
        if old.get(name) != new[name]:
            raise CheckpointError(
                f"{place}: made with {name} {old.get(name)}, found {new[name]}; resume with what "
                "it was started with, or start again with --overwrite")


def _confirmed(output: Path, records: RecordReader, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Make sure that finished shards are of this text and these settings; read their manifest."""
    manifest = read_manifest(output)
    _same_identity(output, {**manifest.get("settings", {}),
                            "vocabulary": manifest.get("vocabulary")}, identity)
    deque(read_blocks(records), maxlen=0)
    if sorted(records.hashes.values()) != sorted(manifest.get("inputs", {}).values()):
        raise CheckpointError(f"{output}: made of other text than this; give another name, or "
                              "--overwrite without --resume to replace it")
    Corpus.open(output)
    shutil.rmtree(_run_directory(output), ignore_errors=True)  # a kill may have left it
    return manifest


def _finish(run: Path, output: Path, tokenizer: Any, manifest: Manifest,
            overwrite: bool) -> dict[str, Any]:
    """Turn the run's directory into the output; a kill at any moment leaves one of the two."""
    with new_directory(output, overwrite) as partial:
        for path in run.glob(SHARDS):
            _link(path, partial / path.name)
        save_tokenizer(tokenizer, partial)
        written = manifest.write(partial)
    shutil.rmtree(run)
    return written


def _link(path: Path, target: Path) -> None:
    """Give a file a second name; where the file system has none, move it."""
    try:
        os.link(path, target)
    except OSError:
        path.rename(target)
