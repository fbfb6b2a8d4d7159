"""Shard files, and their writer: documents as token ids.

A shard is one safetensors file: `ids` (uint16 or uint32), `word_starts` (a bit a token, the lowest
first), `documents` (where each begins, and where the last one ends) and, optionally, `sentences`
(where each begins), counted in tokens from the beginning of the shard.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from bmtools.data.masking.ragged import offsets
from bmtools.errors import DataError
from bmtools.io.output import new_file

SHARDS = "shard-*.safetensors"
PROGRESS = "progress-{:05d}.json"
FORMAT = "bmtools-shard-1"
TYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype("<u1"), "U16": np.dtype("<u2"),
                                   "U32": np.dtype("<u4")}


class EncodedDocument(NamedTuple):
    """One document.

    Args:
        ids: (tokens,) whole numbers.
        word_starts: (tokens,) bool, True where a word begins.
        sentences: tokens at which sentences begin, in order; None if unknown.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    sentences: Sequence[int] | np.ndarray | None = None


@dataclass(frozen=True)
class DocumentBatch:
    """Concatenated documents.

    Args:
        ids: (all tokens,) whole numbers.
        word_starts: (all tokens,) bool, True where a word begins.
        lengths: (documents,) tokens of each, 1 or more.
        sentences: (all sentences,) where each begins, counted over all tokens; or None.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    lengths: np.ndarray
    sentences: np.ndarray | None = None

    def split(self, number: int) -> tuple[DocumentBatch, DocumentBatch]:
        """Split the first `number` documents from the others."""
        tokens = int(self.lengths[:number].sum())
        early = late = None
        if self.sentences is not None:
            count = int(np.searchsorted(self.sentences, tokens))
            early, late = self.sentences[:count], self.sentences[count:] - tokens
        return (DocumentBatch(self.ids[:tokens], self.word_starts[:tokens],
                              self.lengths[:number], early),
                DocumentBatch(self.ids[tokens:], self.word_starts[tokens:],
                              self.lengths[number:], late))


def concatenate(documents: Iterable[EncodedDocument | tuple]) -> DocumentBatch:
    """Concatenate documents; those without tokens are skipped.

    Raises:
        DataError: there is none with tokens.
    """
    kept = [one for one in (EncodedDocument(*each) for each in documents) if len(one.ids)]
    if not kept:
        raise DataError("found no document with tokens, expected one at least")
    lengths = np.array([len(one.ids) for one in kept], dtype=np.int64)
    origins = offsets(lengths)[:-1]
    sentences = None
    if kept[0].sentences is not None:
        sentences = np.concatenate([
            np.asarray(one.sentences, dtype=np.int64) + origin
            for one, origin in zip(kept, origins, strict=True)])
    return DocumentBatch(np.concatenate([np.asarray(one.ids) for one in kept]),
                         np.concatenate([np.asarray(one.word_starts, dtype=bool) for one in kept]),
                         lengths, sentences)


class ShardWriter:
    """Writer of numbered shards.

    Memory holds one shard: two or four bytes a token, and five a document.

    Args:
        directory: existing directory for the shards.
        vocabulary: fingerprint of the tokenizer.
        size: number of ids of the vocabulary.
        shard_tokens: most tokens of a shard, but for a document that is longer.
        number: number of the first shard to write.
    """

    def __init__(self, directory: Path, vocabulary: str, size: int, shard_tokens: int,
                 number: int = 0) -> None:
        self._directory = directory
        self._vocabulary = vocabulary
        self._type = TYPES["U16" if size <= 1 << 16 else "U32"]
        self._shard_tokens = shard_tokens
        self.number = number
        self._clear()

    def _clear(self) -> None:
        self.tokens = 0
        self._ids: list[np.ndarray] = []
        self._bits: list[np.ndarray] = []
        self._odd = np.empty(0, dtype=bool)
        self._lengths: list[np.ndarray] = []
        self._sentences: list[np.ndarray] = []

    def room(self, documents: DocumentBatch) -> int:
        """Count the documents, from the first on, that still fit the open shard."""
        ends = np.cumsum(documents.lengths)
        fitting = int(np.searchsorted(ends, self._shard_tokens - self.tokens, side="right"))
        return fitting if self.tokens or fitting else min(1, len(documents.lengths))

    def add(self, documents: DocumentBatch) -> None:
        """Add documents to the open shard."""
        self._ids.append(documents.ids.astype(self._type))
        starts = np.concatenate([self._odd, documents.word_starts])
        whole = len(starts) // 8 * 8
        self._bits.append(np.packbits(starts[:whole], bitorder="little"))
        self._odd = starts[whole:]
        self._lengths.append(documents.lengths.astype(np.uint32))
        if documents.sentences is not None:
            self._sentences.append((documents.sentences + self.tokens).astype(np.uint32))
        self.tokens += len(documents.ids)

    def close(self, progress: object = None) -> None:
        """Write the open shard, unless it is empty, and begin another.

        Args:
            progress: written first, as JSON, for a run that continues after this shard.
        """
        if not self.tokens:
            return
        if progress is not None:
            with new_file(self._directory / PROGRESS.format(self.number)) as stream:
                stream.write(msgspec.json.encode(progress))
        borders = np.concatenate([np.zeros(1, np.uint32), *self._lengths])
        parts = {"documents": [np.cumsum(borders, dtype=np.int64).astype("<u4")],
                 "ids": self._ids,
                 "word_starts": [*self._bits, np.packbits(self._odd, bitorder="little")]}
        if self._sentences:
            parts["sentences"] = self._sentences
        metadata = {"format": FORMAT, "vocabulary": self._vocabulary}
        _write(shard_path(self._directory, self.number), parts, metadata)
        self.number += 1
        self._clear()


def shard_path(directory: Path, number: int) -> Path:
    """Name a shard."""
    return directory / SHARDS.replace("*", f"{number:05d}")


def _write(path: Path, parts: Mapping[str, Sequence[np.ndarray]],
           metadata: Mapping[str, str]) -> None:
    """Write a safetensors file from arrays in parts, without a copy of the whole.

    Wide types come first, so that all offsets are aligned.
    """
    codes = {kind: code for code, kind in TYPES.items()}
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    order = sorted(parts, key=lambda name: (-parts[name][0].itemsize, name))
    for name in order:
        start, end = end, end + sum(part.nbytes for part in parts[name])
        kind = parts[name][0].dtype
        header[name] = {"dtype": codes[kind], "shape": [(end - start) // kind.itemsize],
                        "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with new_file(path) as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            for part in parts[name]:
                stream.write(part.data)
