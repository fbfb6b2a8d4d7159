"""Corpora of tokenized documents, mapped into memory instead of read into it.

A shard is one safetensors file: `ids` (uint16 or uint32), `word_starts` (a bit a token, the lowest
first), `documents` (where each begins, and where the last one ends) and, optionally, `sentences`
(where each begins), counted in tokens from the beginning of the shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from bmtools.errors import CheckpointError
from bmtools.io.json_files import read_manifest
from bmtools.io.provenance.manifest import add_input
from bmtools.io.tensor_files import LENGTH_BYTES, parse_header
from bmtools.ragged import bits_at, ranges
from bmtools.ragged import offsets as run_offsets
from bmtools.records import ORIGINS, JsonObject

SHARDS = "shard-*.safetensors"
FORMAT = "bmtools-shard-1"
TYPES: dict[str, np.dtype] = {"U8": np.dtype("<u1"), "U16": np.dtype("<u2"), "U32": np.dtype("<u4")}
_REMEDY = "make the shards again with `bmtools tokenize`"
_TENSORS = {"ids", "word_starts", "documents"}
_LONGEST_HEADER = 1 << 20


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


def shard_path(directory: Path, number: int) -> Path:
    """Name a shard."""
    return directory / SHARDS.replace("*", f"{number:05d}")


@dataclass(frozen=True, eq=False)
class Shard:
    """One shard, in memory or mapped into it.

    Args:
        ids: (tokens,) uint16 or uint32.
        bits: (tokens / 8,) uint8, a bit a token, 1 where a word begins.
        borders: (documents + 1,) where each document begins, and where the last one ends.
        sentences: (sentences,) where each begins; None if unknown.
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
            CheckpointError: missing, damaged or of another format.
        """
        arrays, metadata = _map_tensors(path)
        if metadata.get("format") != FORMAT or not arrays.keys() >= _TENSORS:
            raise CheckpointError(f"{path}: found {', '.join(sorted(arrays))}, format "
                                  f"{metadata.get('format')}, expected a shard of format {FORMAT}; "
                                  f"{_REMEDY}")
        ids, bits, borders = (arrays[name] for name in ("ids", "word_starts", "documents"))
        sentences, tokens, fault = arrays.get("sentences"), len(ids), ""
        if len(borders) < 2 or borders[0] or borders[-1] != tokens:
            fault = f"found documents that do not end with the {tokens} tokens"
        elif (borders[1:] <= borders[:-1]).any():
            fault = "found documents that overlap or are empty"
        elif len(bits) != -(-tokens // 8):
            fault = f"found word starts for {8 * len(bits)} tokens, expected {tokens}"
        elif sentences is not None and len(sentences) and sentences[-1] >= tokens:
            fault = f"found a sentence beyond the {tokens} tokens"
        if fault:
            raise CheckpointError(f"{path}: {fault}; the file is damaged, {_REMEDY}")
        return cls(ids, bits, borders, sentences, metadata.get("vocabulary", ""))

    def count_sentences(self, tokens: np.ndarray) -> np.ndarray:
        """Count the sentences that begin before each token, (tokens,) int64.

        Raises:
            CheckpointError: no sentence borders.
        """
        if self.sentences is None:
            raise CheckpointError("the shards do not say where sentences begin; "
                                  "make them with `bmtools tokenize --sentences`")
        # Of the same type as the sentences, or numpy would copy them all to compare.
        return np.searchsorted(self.sentences, tokens.astype(self.sentences.dtype))


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents of one vocabulary, numbered through all shards; fast to open.

    Tokens are read from the files on access. Memory holds four bytes per document.

    Args:
        shards: one or more.
        vocabulary: fingerprint of the tokenizer that made the ids.
        inputs: SHA-256 of each file of text, by name.
        origins: languages and licences of the text, by the names in `records.ORIGINS`; an empty
            licence where some states none.
    """

    shards: tuple[Shard, ...]
    vocabulary: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, set[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, *directories: Path) -> Corpus:
        """Map the shards of one directory, or of several one after the other.

        Raises:
            CheckpointError: no shards, damaged ones, or ones of different vocabularies.
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
            if len({shard.vocabulary for shard in own}) > 1:
                raise CheckpointError(
                    f"{directory}: found shards of several vocabularies; {_REMEDY}")
            shards += own
            for name, digest in manifest.get("inputs", {}).items():
                add_input(inputs, name, digest)
            for key, found in origins.items():
                found.update(results.get(key, ()))
            origins["licences"].update(stated_licences(results))
            if own[0].vocabulary != shards[0].vocabulary:
                raise CheckpointError(
                    f"{directory}: found vocabulary {own[0].vocabulary[:12]}, expected "
                    f"{shards[0].vocabulary[:12]} as in {directories[0]}; "
                    "make all shards with one tokenizer")
        return cls(tuple(shards), shards[0].vocabulary, inputs, origins)

    @classmethod
    def of(cls, documents: DocumentBatch, vocabulary: str = "") -> Corpus:
        """Keep documents in memory.

        Args:
            documents: each with a token at least.
            vocabulary: fingerprint of the tokenizer.
        """
        bits = np.packbits(documents.word_starts, bitorder="little")
        return cls((Shard(documents.ids, bits, run_offsets(documents.lengths),
                          documents.sentences, vocabulary),), vocabulary)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(documents,) uint32, tokens of each."""
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
            documents: (parts,) their numbers.
            firsts: (parts,) first token of each part within its document.
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
        """Move offsets within documents back to word starts.

        Args:
            documents: (offsets,) numbers of documents.
            offsets: (offsets,) tokens within each, 0 to its length, which counts as a border.
            slack: most tokens to go back; an offset without a word start there is kept.
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

        Arguments are those of `gather`.

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
        """Move offsets within documents back to the beginnings of their sentences.

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
        """Yield each shard of these documents, the indices of those in it, and where they begin."""
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
    """Whether a path is a directory of shards; cheap."""
    return path.is_dir() and next(path.glob(SHARDS), None) is not None


def _map_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Map a safetensors file: its tensors, and its metadata."""
    try:
        with path.open("rb") as stream:
            size = int.from_bytes(stream.read(LENGTH_BYTES), "little")
            header, metadata = parse_header(stream.read(min(size, _LONGEST_HEADER)))
        begin, total = LENGTH_BYTES + size, path.stat().st_size
        tensors = {name: np.asarray(np.memmap(path, TYPES[entry["dtype"]], "r",
                                              begin + entry["data_offsets"][0],
                                              tuple(entry["shape"])))
                   for name, entry in header.items()}
        if total != begin + max(entry["data_offsets"][1] for entry in header.values()):
            raise ValueError(f"found {total} bytes")
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file; {_REMEDY}") from error
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: not a whole shard ({error}); {_REMEDY}") from error
    return tensors, metadata


def stated_licences(results: JsonObject) -> list[str]:
    """Return the licences of tokenized text by a manifest; an empty one where some states none."""
    counts = results.get("licences", {})
    stated = sum(counts.values()) if isinstance(counts, Mapping) else 0
    return [*counts, *([""] if stated < results.get("records", 0) else ())]
