"""Corpora of tokenized documents, mapped into memory instead of read into it.

A shard is one safetensors file with `ids` (uint16 or uint32), `word_starts` (one bit per token, the
lowest first), `documents` (the start of each, and the end of the last one) and, optionally,
`sentences` (the start of each). Starts and ends are counted in tokens from the start of the shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.io.json_files import read_manifest
from bmtools.io.output import new_file
from bmtools.io.provenance.manifest import add_input
from bmtools.ragged import bits_at, ranges
from bmtools.ragged import offsets as run_offsets
from bmtools.records import ORIGINS, JsonObject

SHARDS = "shard-*.safetensors"
FORMAT = "bmtools-shard-1"
TYPES = {"uint8": "U8", "uint16": "U16", "uint32": "U32"}
_REMEDY = "make the shards again with `bmtools tokenize`"
_TENSORS = {"ids", "word_starts", "documents"}


@dataclass(frozen=True)
class DocumentBatch:
    """Concatenated documents.

    Args:
        ids: (all tokens,) integers.
        word_starts: (all tokens,) bool, True where a word begins.
        lengths: (documents,) tokens of each, 1 or more.
        sentences: (all sentences,) start of each, counted over all tokens; or None.
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


def shard_path(directory: Path, number: int) -> Path:
    """Return the path of a shard."""
    return directory / SHARDS.replace("*", f"{number:05d}")


@dataclass(frozen=True, eq=False)
class Shard:
    """One shard, in memory or mapped into it.

    Args:
        ids: (tokens,) uint16 or uint32.
        bits: (tokens / 8,) uint8, one bit per token, 1 if a word begins.
        borders: (documents + 1,) start of each document, and end of the last one.
        sentences: (sentences,) start of each sentence; None if unknown.
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
            CheckpointError: the file is missing, damaged or of another format.
        """
        from safetensors import safe_open

        if not path.is_file():
            raise CheckpointError(f"{path}: no such file; {_REMEDY}")
        # With torch tensors the file is mapped; with numpy arrays it would be read.
        with reading(path, "not a whole shard", _REMEDY), safe_open(path, "pt") as file:
            arrays = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT or not arrays.keys() >= _TENSORS \
                or any(array.dtype.name not in TYPES for array in arrays.values()):
            raise CheckpointError(f"{path}: found {', '.join(sorted(arrays))}, format "
                                  f"{metadata.get('format')}, expected a shard of format {FORMAT}; "
                                  f"{_REMEDY}")
        ids, bits, borders = (arrays[name] for name in ("ids", "word_starts", "documents"))
        sentences, tokens = arrays.get("sentences"), len(ids)
        if len(borders) < 2 or borders[0] or borders[-1] != tokens \
                or (borders[1:] <= borders[:-1]).any() or len(bits) != -(-tokens // 8) \
                or (sentences is not None and len(sentences) and sentences[-1] >= tokens):
            raise CheckpointError(f"{path}: found borders that do not fit its {tokens} tokens; the "
                                  f"file is damaged, {_REMEDY}")
        return cls(ids, bits, borders, sentences, metadata.get("vocabulary", ""))

    def count_sentences(self, tokens: np.ndarray) -> np.ndarray:
        """Count the sentences that begin before each token, (tokens,) int64.

        Raises:
            CheckpointError: there are no sentence borders.
        """
        if self.sentences is None:
            raise CheckpointError("the shards have no sentence borders; "
                                  "make them with `bmtools tokenize --sentences`")
        # Use the type of the sentences, because numpy would otherwise copy all of them to compare.
        return np.searchsorted(self.sentences, tokens.astype(self.sentences.dtype))


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents of one vocabulary, numbered over all shards; fast to open.

    Tokens are read from the files on access. Memory holds four bytes per document.

    Args:
        shards: one or more.
        vocabulary: fingerprint of the tokenizer that made the ids.
        inputs: SHA-256 of each text file, by name.
        origins: languages and licences of the text, by the names in `records.ORIGINS`; an empty
            licence stands for text without a licence.
    """

    shards: tuple[Shard, ...]
    vocabulary: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, set[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, *directories: Path) -> Corpus:
        """Map the shards of one directory or several, in the given order.

        Raises:
            CheckpointError: shards are missing, damaged or of different vocabularies.
        """
        shards: list[Shard] = []
        inputs: dict[str, str] = {}
        origins: dict[str, set[str]] = {name: set() for name in ORIGINS.values()}
        for directory in directories:
            manifest = read_manifest(directory) if directory.is_dir() else {}
            results, paths = manifest.get("results", {}), sorted(directory.glob(SHARDS))
            if not paths or not {"shards", "tokens"} <= results.keys():
                raise CheckpointError(
                    f"{directory}: found {'no manifest' if paths else 'no shards'}, expected a "
                    "directory that `bmtools tokenize` wrote")
            own = [Shard.read(shard_path(directory, number)) for number in range(results["shards"])]
            tokens = sum(len(shard.ids) for shard in own)
            if len(paths) != len(own) or tokens != results["tokens"]:
                raise CheckpointError(
                    f"{directory}: found {len(paths)} shards with {tokens} tokens, expected "
                    f"{len(own)} with {results['tokens']}; {_REMEDY}")
            shards += own
            vocabularies = [shard.vocabulary[:12] for shard in shards]
            if other := {*vocabularies} - {vocabularies[0]}:
                raise CheckpointError(
                    f"{directory}: found vocabulary {other.pop()}, expected {vocabularies[0]} as "
                    f"in {directories[0]}; make all shards with one tokenizer")
            for name, digest in manifest.get("inputs", {}).items():
                add_input(inputs, name, digest)
            for key, found in origins.items():
                found.update(results.get(key, ()))
            origins["licences"].update(stated_licences(results))
        return cls(tuple(shards), shards[0].vocabulary, inputs, origins)

    @classmethod
    def of(cls, documents: DocumentBatch, vocabulary: str = "") -> Corpus:
        """Keep documents in memory.

        Args:
            documents: documents with one token or more.
            vocabulary: fingerprint of the tokenizer.
        """
        bits = np.packbits(documents.word_starts, bitorder="little")
        return cls((Shard(documents.ids, bits, run_offsets(documents.lengths),
                          documents.sentences, vocabulary),), vocabulary)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(documents,) uint32, tokens of each document."""
        ends = np.append(0, self._ends)
        lengths = np.empty(ends[-1], dtype=np.uint32)
        for shard, begin, end in zip(self.shards, ends, ends[1:], strict=False):
            lengths[begin:end] = np.diff(shard.borders)
        return lengths

    @cached_property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return sum(len(shard.ids) for shard in self.shards)

    @property
    def has_sentences(self) -> bool:
        """Whether sentence borders are stored."""
        return all(shard.sentences is not None for shard in self.shards)

    @cached_property
    def _ends(self) -> np.ndarray:
        """(shards,) number of documents up to the end of each shard."""
        return np.cumsum([len(shard.borders) - 1 for shard in self.shards])

    def gather(self, documents: np.ndarray, firsts: np.ndarray,
               lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copy parts of documents, concatenated in the given order.

        Args:
            documents: (parts,) numbers of the documents.
            firsts: (parts,) first token of each part, counted in its document.
            lengths: (parts,) tokens of each part.

        Returns:
            ids, int64, and word starts, bool, both (all tokens,).

        """
        documents, firsts, lengths = (
            np.asarray(each, dtype=np.int64) for each in (documents, firsts, lengths))
        total = int(lengths.sum())
        ids, starts = np.empty(total, dtype=np.int64), np.empty(total, dtype=bool)
        begins = run_offsets(lengths)[:-1]
        for shard, chosen, origins in self._by_shard(documents):
            source = ranges(origins + firsts[chosen], lengths[chosen])
            target = (slice(None) if len(chosen) == len(documents)
                      else ranges(begins[chosen], lengths[chosen]))
            ids[target] = shard.ids[source]
            starts[target] = bits_at(shard.bits, source)
        return ids, starts

    def at_or_before(self, documents: np.ndarray, offsets: np.ndarray, slack: int) -> np.ndarray:
        """Move offsets in documents back to word starts.

        Args:
            documents: (offsets,) numbers of documents.
            offsets: (offsets,) tokens within each, 0 to its length, which counts as a border.
            slack: maximum tokens to move back; an offset without a word start in this range is
                kept.
        """
        found = offsets.copy()
        for shard, chosen, origins in self._by_shard(documents):
            own = offsets[chosen]
            open_ = np.flatnonzero((own > 0) & (own < self.lengths[documents[chosen]]))
            for back in range(slack + 1):
                wanted = own[open_] - back
                hit = bits_at(shard.bits, origins[open_] + wanted) | (wanted == 0)
                found[chosen[open_[hit]]] = wanted[hit]
                open_ = open_[~hit]
                if not len(open_):
                    break
        return found

    def sentence_starts(self, documents: np.ndarray, firsts: np.ndarray,
                        lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the tokens at which sentences begin in parts of documents.

        For the arguments see `gather`.

        Returns:
            (all sentences,) offsets within their documents, and (parts,) sentences of each part.

        Raises:
            CheckpointError: shards without sentence borders.
        """
        begins, counts = np.empty_like(documents), np.empty_like(documents)
        for shard, chosen, origins in self._by_shard(documents):
            first = shard.count_sentences(origins + firsts[chosen])
            begins[chosen] = first
            counts[chosen] = shard.count_sentences(
                origins + firsts[chosen] + lengths[chosen]) - first
        places = run_offsets(counts)
        starts = np.empty(int(places[-1]), dtype=np.int64)
        for shard, chosen, origins in self._by_shard(documents):
            sizes = counts[chosen]
            assert shard.sentences is not None
            starts[ranges(places[chosen], sizes)] = shard.sentences[
                ranges(begins[chosen], sizes)] - origins.repeat(sizes)
        return starts, counts

    def sentence_at_or_before(self, documents: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Move offsets in documents back to the starts of their sentences.

        Args:
            documents: (offsets,) numbers of documents.
            offsets: (offsets,) tokens within each, 0 to its length - 1.

        Raises:
            CheckpointError: shards without sentence borders.
        """
        found = np.zeros_like(offsets)
        for shard, chosen, origins in self._by_shard(documents):
            numbers = shard.count_sentences(origins + offsets[chosen] + 1) - 1
            assert shard.sentences is not None
            if len(shard.sentences):
                found[chosen] = shard.sentences[np.maximum(numbers, 0)] - origins
        return np.clip(found, 0, offsets)

    def _by_shard(self, documents: np.ndarray
                  ) -> Iterator[tuple[Shard, np.ndarray, np.ndarray]]:
        """Yield each shard of these documents, the indices of its documents, and their starts."""
        numbers = np.searchsorted(self._ends, documents, side="right")
        order = np.argsort(numbers.astype(np.min_scalar_type(len(self.shards))), kind="stable")
        present, counts = np.unique(numbers, return_counts=True)
        ends = run_offsets(counts)
        for index, number in enumerate(present.tolist()):
            shard = self.shards[number]
            chosen = order[ends[index]:ends[index + 1]]
            earlier = int(self._ends[number - 1]) if number else 0
            yield shard, chosen, shard.borders[documents[chosen] - earlier].astype(np.int64)


def is_shards(path: Path) -> bool:
    """Return whether a path is a directory of shards, without opening them."""
    return path.is_dir() and next(path.glob(SHARDS), None) is not None


def stated_licences(results: JsonObject) -> list[str]:
    """Return the licences in a manifest of tokenized text; "" stands for text without one."""
    counts = results.get("licences", {})
    stated = sum(counts.values()) if isinstance(counts, Mapping) else 0
    return [*counts, *([""] if stated < results.get("records", 0) else ())]


class ShardWriter:
    """Writer of numbered shards.

    One shard is kept in memory: two or four bytes per token, and five per document.

    Args:
        directory: existing directory for the shards.
        vocabulary: fingerprint of the tokenizer.
        size: number of ids in the vocabulary.
        shard_tokens: maximum tokens of a shard, except for a longer document.
        number: number of the first shard to write.
    """

    def __init__(self, directory: Path, vocabulary: str, size: int, shard_tokens: int,
                 number: int = 0) -> None:
        self._directory = directory
        self._vocabulary = vocabulary
        self._type = np.uint16 if size <= 1 << 16 else np.uint32
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
        """Count the first documents that still fit into the open shard."""
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

    def close(self) -> None:
        """Write the open shard, unless it is empty, and start another."""
        if not self.tokens:
            return
        parts = {"documents": [run_offsets(np.concatenate(self._lengths)).astype(np.uint32)],
                 "ids": self._ids,
                 "word_starts": [*self._bits, np.packbits(self._odd, bitorder="little")]}
        if self._sentences:
            parts["sentences"] = self._sentences
        self._write(parts)
        self.number += 1
        self._clear()

    def _write(self, parts: Mapping[str, Sequence[np.ndarray]]) -> None:
        """Write a safetensors file from arrays in parts, without copying them together.

        Wide types come first, so that all offsets are aligned.
        """
        header: JsonObject = {"__metadata__": {"format": FORMAT, "vocabulary": self._vocabulary}}
        end, order = 0, sorted(parts, key=lambda name: (-parts[name][0].itemsize, name))
        for name in order:
            kind, start = parts[name][0].dtype, end
            end += sum(part.nbytes for part in parts[name])
            header[name] = {"dtype": TYPES[kind.name], "shape": [(end - start) // kind.itemsize],
                            "data_offsets": [start, end]}
        text = msgspec.json.encode(header)
        text += b" " * (-len(text) % 8)
        with new_file(shard_path(self._directory, self.number)) as stream:
            stream.write(len(text).to_bytes(8, "little") + text)
            stream.writelines(part.data for name in order for part in parts[name])
