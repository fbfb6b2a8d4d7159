"""Parallel encoding of records: blocks of a megabyte of lines, in order.

Worker processes import this module, so it must not import transformers, which would cost each of
them seconds and hundreds of megabytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from bmtools.data.masking.ragged import offsets
from bmtools.data.settings import ShardConfig
from bmtools.data.shard_files import DocumentBatch
from bmtools.errors import RecordError
from bmtools.io.jsonl import Block
from bmtools.records import ORIGINS, Record, full_text
from bmtools.text.segment import sentence_spans
from bmtools.vocab.encoding import Encoder
from bmtools.vocab.segmenters import Segmenter
from bmtools.vocab.tokenizer import unknown_ids


@dataclass(frozen=True)
class EncodedBlock:
    """Encoded records of a block.

    Args:
        block: number of the block.
        before: hash of all content before it.
        documents: those with tokens.
        counts: records, characters and so on, by name; records by origin, as `lang:it`.
        rejects: place, reason and content of each bad record.
    """

    block: int
    before: str
    documents: DocumentBatch
    counts: Counter[str]
    rejects: list[tuple[str, str, Any]]


class BlockEncoder:
    """Parser and encoder of the records of a block, in a worker process.

    Args:
        tokenizer: as JSON.
        config: of the shards.
        segmenter: finds words instead of the tokenizer.
        lang_setting: spelling of the setting `lang` in messages, which a new process cannot know.
    """

    def __init__(self, tokenizer: str, config: ShardConfig, segmenter: Segmenter | None,
                 lang_setting: str) -> None:
        self._config = config
        self._lang_setting = lang_setting
        backend = Tokenizer.from_str(tokenizer)
        self._encoder = Encoder(backend, segmenter)
        self._unknown_ids = unknown_ids(backend)

    def __call__(self, block: Block) -> EncodedBlock:
        rejects: list[tuple[str, str, Any]] = []

        def reject(error: RecordError) -> None:
            rejects.append((error.place, error.reason, error.content))

        texts: list[str] = []
        origins: Counter[str] = Counter()
        points: list[list[int]] = []
        for record in block.records(reject):
            if self._config.sentences and not (record.get("lang") or self._config.lang):
                reject(RecordError(record.place, "found no language, expected the key 'lang' or "
                                   f"{self._lang_setting} to find sentences by", dict(record)))
                continue
            texts.append(full_text(record))
            origins.update(f"{key}:{record[key]}" for key in ORIGINS if record.get(key))
            if self._config.sentences:
                points.append(_sentence_points(record, self._config.lang))
        found = self._encoder.encode(texts, points if self._config.sentences else None)
        sentences = None
        if found.tokens_at:
            # The first sentence starts with the text, and none is empty.
            starts = [np.unique(np.array([0, *tokens])) for tokens in found.tokens_at]
            sentences = np.concatenate([
                tokens[tokens < length] + origin for tokens, length, origin
                in zip(starts, found.lengths, offsets(found.lengths)[:-1], strict=True)])
        # Half the bytes to send between processes, if the ids allow it.
        narrow = np.uint16 if not len(found.ids) or found.ids.max() < 1 << 16 else np.uint32
        # Texts without tokens are left out.
        documents = DocumentBatch(found.ids.astype(narrow), found.word_starts,
                                  found.lengths[found.lengths > 0], sentences)
        counts = Counter(
            records=len(texts), characters=sum(map(len, texts)),
            encoded_whole=len(texts) * (not found.in_chunks), documents=len(documents.lengths),
            empty=len(texts) - len(documents.lengths), tokens=len(found.ids),
            words=int(found.word_starts.sum()), **origins,
            unknown=sum(int(np.count_nonzero(found.ids == one)) for one in self._unknown_ids))
        if sentences is not None:
            counts["sentences"] = len(sentences)
        return EncodedBlock(block.number, block.before, documents, counts, rejects)


def _sentence_points(record: Record, lang: str) -> list[int]:
    """Find where sentences begin in the full text; the title is one of them."""
    shift = len(record["title"]) + 1 if record.get("title") else 0
    spans = sentence_spans(record["text"], record.get("lang") or lang)
    return [*([0] if shift else []), *(start + shift for start, _ in spans)]
