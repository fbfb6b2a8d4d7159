"""Writer of shard files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from bmtools.data.shards import FORMAT, TYPES, DocumentBatch, shard_path
from bmtools.io.output import new_file
from bmtools.records import JsonObject

PROGRESS = "progress-{:05d}.json"


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


def _write(path: Path, parts: Mapping[str, Sequence[np.ndarray]],
           metadata: Mapping[str, str]) -> None:
    """Write a safetensors file from arrays in parts, without a copy of the whole.

    Wide types come first, so that all offsets are aligned.
    """
    codes = {kind: code for code, kind in TYPES.items()}
    header: JsonObject = {"__metadata__": metadata}
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
