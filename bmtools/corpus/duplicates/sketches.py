"""Sketches of records for comparison: made in workers, then stored as arrays in files."""

from __future__ import annotations

import hashlib
import mmap
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, BinaryIO

import msgspec
import numpy as np

from bmtools.corpus.duplicates.settings import DedupConfig
from bmtools.corpus.duplicates.words import END, Words, batches, fold_texts
from bmtools.corpus.record_files import read_texts
from bmtools.io.jsonl import Block
from bmtools.io.output import temporary_file
from bmtools.io.workers import Outcome

_DIGEST_BYTES = 16
_DIGEST = np.dtype(f"V{_DIGEST_BYTES}")
_ROWS = 1 << 14  # number of records read at once
_TYPES = {"digests": _DIGEST, "lengths": np.dtype("<u4"), "signatures": np.dtype("<u4"),
          "ids": np.dtype("u1"), "id_ends": np.dtype("<i8")}
_PAIRS = 1 << 10  # number of pairs compared at once
_SIZE_BYTES = 8


class Sketches(msgspec.Struct):
    """Sketches of the records in a block, which are sent between processes as bytes.

    Args:
        ids: ids of the records.
        lines: (records,) int64, numbers of their lines in the block.
        digests: (records,) 16 bytes of each folded text's SHA-256.
        lengths: (records,) uint32, number of words.
        signatures: (records, permutations) uint32; empty for exact duplicates.
        source: name of the file.
        line_count: number of lines in the block.
    """

    ids: list[str]
    lines: bytes
    digests: bytes
    lengths: bytes
    signatures: bytes
    source: str
    line_count: int

    def encode(self) -> bytes:
        """Encode the sketches, preceded by their size."""
        content = msgspec.msgpack.encode(self)
        return len(content).to_bytes(_SIZE_BYTES) + content


def read_sketches(stream: IO[bytes]) -> Iterator[Sketches]:
    """Read the sketches of many blocks."""
    while size := stream.read(_SIZE_BYTES):
        yield msgspec.msgpack.decode(stream.read(int.from_bytes(size)), type=Sketches)


class Sketcher:
    """Worker that makes sketches.

    Args:
        config: settings.
    """

    def __init__(self, config: DedupConfig) -> None:
        self._config = config

    def __call__(self, block: Block) -> Iterator[Outcome]:
        """Yield the sketches of a block as the lines of an outcome."""
        outcome = Outcome()
        ids, texts, lines = read_texts(block, outcome.reject)
        parts = [self._sketch(texts[first:end]) for first, end in batches(texts)]
        digests, lengths, rows = (b"".join(one.tobytes() for one in each)
                                  for each in zip(*parts, strict=True)) if parts else [b""] * 3
        outcome.lines = Sketches(ids, lines.tobytes(), digests, lengths, rows, block.name,
                                 block.line_count).encode()
        yield outcome

    def _sketch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        content = fold_texts(texts)
        digests = np.frombuffer(b"".join(hashlib.sha256(one).digest()[:_DIGEST_BYTES]
                                         for one in content.split(END)[:-1]), _DIGEST)
        words = Words.of(content)
        lengths = np.diff(words.offsets).astype(np.uint32)
        if self._config.duplicates != "near":
            return digests, lengths, np.empty((len(texts), 0), np.uint32)
        return digests, lengths, signatures(*words.ngrams(self._config.ngram_words), self._config)


def signatures(shingles: np.ndarray, offsets: np.ndarray, config: DedupConfig) -> np.ndarray:
    """Compute signatures, (texts, permutations) uint32, from the hashes of word runs."""
    from rensa import RMinHash

    rows = RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, offsets.astype(np.uint64), config.permutations, config.seed).to_rows()
    found = array("I")
    for row in rows:
        found.fromlist(row)  # twice as fast as np.array
    return np.frombuffer(found, np.uint32).reshape(-1, config.permutations)


class Records:
    """Sketches of numbered records in some files, stored as arrays in temporary files.

    Args:
        stack: closes the files, which then disappear because they have no names.
        permutations: permutations per signature; 0 for no signatures.
    """

    def __init__(self, stack: ExitStack, permutations: int) -> None:
        self._files: dict[str, BinaryIO] = {
            name: stack.enter_context(temporary_file()) for name in _TYPES}
        self._permutations = permutations
        self._sources: list[tuple[int, str]] = []
        self._id_bytes = self._count = 0
        self._arrays: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, sketches: Sketches) -> None:
        """Add the sketches of a block."""
        if not self._sources or self._sources[-1][1] != sketches.source:
            self._sources.append((self._count, sketches.source))
        ids = [one.encode() for one in sketches.ids]
        ends = self._id_bytes + np.cumsum([*map(len, ids)], dtype=_TYPES["id_ends"])
        for name, content in (("digests", sketches.digests), ("lengths", sketches.lengths),
                              ("signatures", sketches.signatures), ("id_ends", ends.tobytes())):
            self._files[name].write(content)
        self._id_bytes += self._files["ids"].write(b"".join(ids))
        self._count += len(ids)

    def finish(self) -> None:
        """Map the files into memory."""
        shapes = {"ids": (self._id_bytes,), "signatures": (self._count, self._permutations)}
        for name, file in self._files.items():
            file.flush()
            shape = shapes.get(name, (self._count,))
            self._arrays[name] = np.memmap(file, _TYPES[name], "r", shape=shape) if all(shape) \
                else np.empty(shape, _TYPES[name])

    def rows(self, name: str, numbers: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Read an array, or the rows of some records."""
        return np.array(self._arrays[name][numbers])

    def signatures(self) -> Iterator[np.ndarray]:
        """Yield all signatures, in batches of records."""
        for first in range(0, len(self), _ROWS):
            yield self.rows("signatures", slice(first, first + _ROWS))
            self._forget_pages()

    def similarity(self, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Estimate the Jaccard index for pairs of records from their signatures."""
        found = [np.empty(0)]
        for first in range(0, len(ones), _PAIRS):
            pair = (self.rows("signatures", each[first:first + _PAIRS]) for each in (ones, others))
            found.append(np.equal(*pair).mean(axis=1))
            self._forget_pages()  # the system reads 64 kB around each row
        return np.concatenate(found)

    def _forget_pages(self) -> None:
        """Release file pages that were read, which otherwise count as used memory."""
        for one in self._arrays.values():
            if isinstance(one.base, mmap.mmap):
                one.base.madvise(mmap.MADV_DONTNEED)

    def id(self, number: int) -> str:
        """Return the id of a record."""
        ends = self._arrays["id_ends"]
        first = int(ends[number - 1]) if number else 0
        return self._arrays["ids"][first:int(ends[number])].tobytes().decode("utf-8", "replace")

    def source(self, number: int) -> str:
        """Return the name of a record's source."""
        return [name for first, name in self._sources if first <= number][-1]
