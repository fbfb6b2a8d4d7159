"""Documents as token ids, mapped into memory, not read into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from bmtools.data.shard_files import (
    REMEDY,
    SHARDS,
    DocumentBatch,
    EncodedDocument,
    concatenate,
    map_shard,
    shard_path,
)
from bmtools.errors import CheckpointError
from bmtools.io.manifest import read_manifest

__all__ = ["COMMAND", "Corpus", "EncodedDocument", "Shard", "is_shards"]
COMMAND = "tokenize"


@dataclass(frozen=True, eq=False)
class Shard:
    """One shard, in memory or mapped into it.

    Args:
        ids: (tokens,) uint16 or uint32.
        bits: (tokens / 8,) uint8, a bit a token, 1 where a word begins.
        borders: (documents + 1,) where each document begins, and the last one ends.
        sentences: (sentences,) where each begins; None where nobody looked.
        vocabulary: fingerprint of the tokenizer.
    """

    ids: np.ndarray
    bits: np.ndarray
    borders: np.ndarray
    sentences: np.ndarray | None
    vocabulary: str

    @classmethod
    def read(cls, path: Path) -> Shard:
        """Map a file.

        Raises:
            CheckpointError: missing, damaged or of another make.
        """
        arrays, vocabulary = map_shard(path)
        shard = cls(arrays["ids"], arrays["word_starts"], arrays["documents"],
                    arrays.get("sentences"), vocabulary)
        fault = shard.fault()
        if fault:
            raise CheckpointError(f"{path}: {fault}; the file is damaged, {REMEDY}")
        return shard

    @classmethod
    def of(cls, documents: DocumentBatch, vocabulary: str) -> Shard:
        """Hold documents in memory."""
        borders = np.cumsum(np.append(0, documents.lengths), dtype=np.int64)
        return cls(documents.ids, np.packbits(documents.starts, bitorder="little"), borders,
                   documents.sentences, vocabulary)

    def fault(self) -> str:
        """Say what does not fit together, if anything."""
        tokens = len(self.ids)
        if len(self.borders) < 2 or self.borders[0] or self.borders[-1] != tokens:
            return f"found documents that do not end with the {tokens} tokens"
        if (self.borders[1:] <= self.borders[:-1]).any():
            return "found documents that overlap or are empty"
        if len(self.bits) != -(-tokens // 8):
            return f"found word starts for {8 * len(self.bits)} tokens, expected {tokens}"
        if self.sentences is not None and len(self.sentences) and self.sentences[-1] >= tokens:
            return f"found a sentence beyond the {tokens} tokens"
        return ""

    def begins(self, places: np.ndarray) -> np.ndarray:
        """Whether a word begins at each token; bool."""
        bytes_ = self.bits[places >> 3]
        return (bytes_ >> (places & 7).astype(np.uint8) & 1).astype(bool)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents of one vocabulary, numbered through all shards; opened in no time.

    Tokens stay in the files until they are asked for. Of each document four bytes are held in
    memory.

    Args:
        shards: one or more.
        vocabulary: fingerprint of the tokenizer that made the ids.
        inputs: SHA-256 of each file of text, by name.
    """

    shards: tuple[Shard, ...]
    vocabulary: str
    inputs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, *directories: Path) -> Corpus:
        """Map the shards of one directory, or of several one after the other.

        Raises:
            CheckpointError: no shards, damaged ones, or ones of different vocabularies.
        """
        shards: list[Shard] = []
        inputs: dict[str, str] = {}
        for directory in directories:
            shards.extend(_shards_of(directory))
            inputs |= read_manifest(directory).get("inputs", {})
            if shards[-1].vocabulary != shards[0].vocabulary:
                raise CheckpointError(
                    f"{directory}: found vocabulary {shards[-1].vocabulary[:12]}, expected "
                    f"{shards[0].vocabulary[:12]} as in {directories[0]}; "
                    "make all shards with one tokenizer")
        return cls(tuple(shards), shards[0].vocabulary, inputs)

    @classmethod
    def of(cls, documents: Iterable[EncodedDocument | tuple], vocabulary: str = "") -> Corpus:
        """Hold documents in memory; those without tokens are left out.

        Args:
            documents: ids, word starts and, in all or in none, where sentences begin.
            vocabulary: fingerprint of the tokenizer.
        """
        return cls((Shard.of(concatenate(documents), vocabulary),), vocabulary)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(documents,) uint32, tokens of each."""
        return np.concatenate([np.diff(shard.borders) for shard in self.shards]).astype(np.uint32)

    @cached_property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return sum(len(shard.ids) for shard in self.shards)

    @property
    def has_sentences(self) -> bool:
        """Whether it says where sentences begin."""
        return all(shard.sentences is not None for shard in self.shards)

    @cached_property
    def _ends(self) -> np.ndarray:
        """(shards,) documents up to the end of each shard."""
        return np.cumsum([len(shard.borders) - 1 for shard in self.shards])

    def gather(self, documents: np.ndarray, firsts: np.ndarray,
               lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copy stretches of documents, end to end in the order asked for.

        Args:
            documents: (pieces,) their numbers.
            firsts: (pieces,) first token of each piece, counted within its document.
            lengths: (pieces,) tokens of each piece.

        Returns:
            ids, int64, and word starts, bool, both (all tokens,).

        Raises:
            IndexError: a piece reaches beyond its document.
        """
        documents, firsts, lengths = (
            np.asarray(each, dtype=np.int64) for each in (documents, firsts, lengths))
        if ((firsts < 0) | (lengths < 0) | (firsts + lengths > self.lengths[documents])).any():
            raise IndexError("a piece reaches beyond its document")
        total = int(lengths.sum())
        ids, starts = np.empty(total, dtype=np.int64), np.empty(total, dtype=bool)
        places = np.cumsum(lengths) - lengths
        for shard, chosen, origins in self._by_shard(documents):
            source = _counted(origins + firsts[chosen], lengths[chosen])
            target = (slice(None) if len(chosen) == len(documents)
                      else _counted(places[chosen], lengths[chosen]))
            ids[target] = shard.ids[source]
            starts[target] = shard.begins(source)
        return ids, starts

    def sentence_starts(self, document: int) -> np.ndarray:
        """Tokens of a document at which its sentences begin, (sentences,) int64.

        Raises:
            CheckpointError: the shards were made without sentences.
        """
        number = int(np.searchsorted(self._ends, document, side="right"))
        shard = self.shards[number]
        if shard.sentences is None:
            raise CheckpointError("the shards do not say where sentences begin; "
                                  "make them with `bmtools tokenize --sentences`")
        place = document - (int(self._ends[number - 1]) if number else 0)
        # Of one type with the sentences, or numpy would copy them all to compare.
        first, end = np.searchsorted(shard.sentences, shard.borders[place:place + 2])
        return shard.sentences[first:end].astype(np.int64) - int(shard.borders[place])

    def word_start_at_or_before(self, documents: np.ndarray, offsets: np.ndarray,
                                slack: int) -> np.ndarray:
        """Move offsets back to where a word begins.

        Args:
            documents: (places,) numbers of documents.
            offsets: (places,) tokens within each, 0 to its length, which counts as a border.
            slack: most tokens to go back; where no word begins there, the offset stays.

        Returns:
            (places,) int64.
        """
        documents, offsets = np.asarray(documents, np.int64), np.asarray(offsets, np.int64)
        found = offsets.copy()
        for shard, chosen, origins in self._by_shard(documents):
            open_ = chosen[(offsets[chosen] > 0)
                           & (offsets[chosen] < self.lengths[documents[chosen]])]
            origins = origins[np.searchsorted(chosen, open_)]
            for back in range(slack + 1):
                wanted = offsets[open_] - back
                hit = shard.begins(origins + wanted) | (wanted == 0)
                found[open_[hit]] = wanted[hit]
                open_, origins = open_[~hit], origins[~hit]
                if not len(open_):
                    break
        return found

    def _by_shard(self, documents: np.ndarray
                  ) -> Iterator[tuple[Shard, np.ndarray, np.ndarray]]:
        """Yield each shard asked for, which of the documents it holds, and where they begin."""
        numbers = np.searchsorted(self._ends, documents, side="right")
        for number in np.unique(numbers).tolist():
            shard = self.shards[number]
            chosen = np.flatnonzero(numbers == number)
            earlier = int(self._ends[number - 1]) if number else 0
            yield shard, chosen, shard.borders[documents[chosen] - earlier].astype(np.int64)


def is_shards(path: Path) -> bool:
    """Whether a path is a directory of shards; cheap."""
    return path.is_dir() and next(path.glob(SHARDS), None) is not None


def _shards_of(directory: Path) -> list[Shard]:
    """Map the shards of a directory and hold them against its manifest."""
    results = read_manifest(directory).get("results", {}) if directory.is_dir() else {}
    paths = sorted(directory.glob(SHARDS))
    if not paths or "shards" not in results:
        raise CheckpointError(f"{directory}: found {'no manifest' if paths else 'no shards'}, "
                              "expected a directory that `bmtools tokenize` wrote")
    shards = [Shard.read(shard_path(directory, number)) for number in range(results["shards"])]
    tokens = sum(len(shard.ids) for shard in shards)
    if len(paths) != len(shards) or tokens != results["tokens"]:
        raise CheckpointError(
            f"{directory}: found {len(paths)} shards with {tokens} tokens, expected "
            f"{len(shards)} with {results['tokens']}; {REMEDY}")
    if len({shard.vocabulary for shard in shards}) > 1:
        raise CheckpointError(f"{directory}: found shards of several vocabularies; {REMEDY}")
    return shards


def _counted(firsts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Count up from each first number, (sum of lengths,) int64."""
    ends = np.cumsum(lengths)
    steps = np.repeat(firsts - ends + lengths, lengths)
    return steps + np.arange(len(steps))
