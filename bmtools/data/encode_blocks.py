"""Parallel encoding of records: blocks of a megabyte of lines, in order.

Worker processes import this module, so it must not import transformers, which would cost each of
them seconds and hundreds of megabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from bmtools.data.settings import ShardConfig
from bmtools.data.shard_files import DocumentBatch
from bmtools.errors import RecordError
from bmtools.io.jsonl import parse_records
from bmtools.io.parallel import Block, map_blocks
from bmtools.masking.ragged import offsets
from bmtools.records import Record, full_text
from bmtools.search.segment import sentence_spans
from bmtools.vocab.encoding import EncodedTexts, Encoder, MarkWordStarts


@dataclass(frozen=True)
class EncodeTask:
    """Work order of a worker process.

    Args:
        tokenizer: as JSON.
        settings: of the shards.
        mark_words: finds word starts instead of the tokenizer.
    """

    tokenizer: str
    settings: ShardConfig
    mark_words: MarkWordStarts | None


@dataclass(frozen=True)
class EncodedBlock:
    """Encoded records of a block.

    Args:
        block: number of the block.
        before: hash of all content before it.
        documents: those with tokens.
        counts: records, characters and so on, by name.
        rejects: place, reason and content of each bad record.
    """

    block: int
    before: str
    documents: DocumentBatch
    counts: Counter[str]
    rejects: list[tuple[str, str, Any]]


def encode_blocks(blocks: Iterator[Block], task: EncodeTask,
                  processes: int) -> Generator[EncodedBlock]:
    """Encode blocks, in order.

    Args:
        blocks: read ahead by a few for each process.
        task: tokenizer and settings.
        processes: 0 for one a core; one works in this process, and so does a single block.

    Raises:
        BmtoolsError: a process died.
    """
    return map_blocks(blocks, partial(BlockEncoder, task), processes,
                      "go on with --resume and fewer --processes")


class BlockEncoder:
    """Parser and encoder of the records of a block."""

    def __init__(self, task: EncodeTask) -> None:
        self._settings = task.settings
        self._encoder = Encoder(Tokenizer.from_str(task.tokenizer), task.mark_words)

    def __call__(self, block: Block) -> EncodedBlock:
        rejects: list[tuple[str, str, Any]] = []

        def reject(error: RecordError) -> None:
            rejects.append((error.place, error.reason, error.content))

        texts: list[str] = []
        points: list[list[int]] = []
        lines = block.lines.split(b"\n")
        for record in parse_records(lines, block.name, reject, block.first_line - 1):
            if self._settings.sentences and not (record.get("lang") or self._settings.lang):
                reject(RecordError(record.place, "found no language, expected the key 'lang' or "
                                                 "--lang to find sentences by", dict(record)))
                continue
            texts.append(full_text(record))
            if self._settings.sentences:
                points.append(_sentence_points(record, self._settings.lang))
        found = self._encoder.encode(texts, points if self._settings.sentences else None)
        counts = Counter(records=len(texts), characters=sum(map(len, texts)),
                         encoded_whole=len(texts) * (not found.in_chunks))
        return EncodedBlock(block.number, block.before, _documents(found, counts), counts, rejects)


def _sentence_points(record: Record, lang: str) -> list[int]:
    """Find where sentences begin in the full text; the title is one of them."""
    shift = len(record["title"]) + 1 if record.get("title") else 0
    spans = sentence_spans(record["text"], record.get("lang") or lang)
    return [*([0] if shift else []), *(start + shift for start, _ in spans)]


def _documents(found: EncodedTexts, counts: Counter[str]) -> DocumentBatch:
    """Leave texts without tokens out, and count the others."""
    kept = found.lengths[found.lengths > 0]
    sentences = None
    if found.tokens_at:
        sentences = _sentence_starts(found)
        counts["sentences"] = len(sentences)
    counts.update(documents=len(kept), empty=len(found.lengths) - len(kept),
                  tokens=len(found.ids), words=int(found.starts.sum()))
    # Half the bytes to send between processes, if the ids allow it.
    narrow = np.uint16 if not len(found.ids) or found.ids.max() < 1 << 16 else np.uint32
    return DocumentBatch(found.ids.astype(narrow), found.starts, kept, sentences)


def _sentence_starts(found: EncodedTexts) -> np.ndarray:
    """Concatenate sentence starts; the first is the beginning of the text, none is empty."""
    origins = offsets(found.lengths)[:-1]
    starts = [np.unique(np.array([0, *points])) for points in found.tokens_at]
    return np.concatenate([
        points[points < length] + origin
        for points, length, origin in zip(starts, found.lengths, origins, strict=True)])
