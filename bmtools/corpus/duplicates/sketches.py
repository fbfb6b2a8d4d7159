"""Sketches of records, by which they are compared: made in workers, then arrays in files."""

from __future__ import annotations

import hashlib
import mmap
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, BinaryIO

import msgspec
import numpy as np

from bmtools.corpus.duplicates.settings import DedupConfig
from bmtools.corpus.duplicates.words import END, Words, batches, fold_texts
from bmtools.corpus.record_files import read_texts
from bmtools.io.jsonl import Block
from bmtools.io.output import temporary_file
from bmtools.io.workers import Outcome

DIGEST_BYTES = 16
DIGEST = np.dtype(f"V{DIGEST_BYTES}")
ROWS = 1 << 14
"""Records that are read at once."""
TYPES = {"digests": DIGEST, "lengths": np.dtype("<u4"),
         "signatures": np.dtype("<u4"), "ids": np.dtype("u1"), "id_ends": np.dtype("<i8")}
"""The arrays of a part; the ids stand one after the other, as UTF-8."""
_SIZE_BYTES = 8
_decode = msgspec.msgpack.Decoder(tuple[list[str], bytes, bytes, bytes, bytes, str, int]).decode


@dataclass(frozen=True, eq=False)
class Sketches:
    """Sketches of the records of a block, by which they are compared; sent as bytes.

    Args:
        ids: of the records.
        lines: (records,) numbers of their lines within the block.
        digests: (records,) 16 bytes of SHA-256 of each text, folded or as it is.
        lengths: (records,) uint32 words, or bytes where none are looked for.
        signatures: (records, permutations) uint32, or (records, 0) for exact duplicates.
        source: name of the file.
        line_count: lines of the block.
    """

    ids: list[str]
    lines: np.ndarray
    digests: np.ndarray
    lengths: np.ndarray
    signatures: np.ndarray
    source: str
    line_count: int

    def encode(self) -> bytes:
        """Encode them, their size first."""
        content = msgspec.msgpack.encode([
            self.ids, self.lines.tobytes(), self.digests.tobytes(), self.lengths.tobytes(),
            self.signatures.tobytes(), self.source, self.line_count])
        return len(content).to_bytes(_SIZE_BYTES) + content

    @classmethod
    def read(cls, stream: IO[bytes]) -> Iterator[Sketches]:
        """Read those of many blocks."""
        while size := stream.read(_SIZE_BYTES):
            ids, *arrays, source, count = _decode(stream.read(int.from_bytes(size)))
            kinds: tuple[str | np.dtype[np.void], ...] = ("i8", DIGEST, "u4", "u4")
            lines, digests, lengths, rows = (np.frombuffer(content, kind) for content, kind in zip(
                arrays, kinds, strict=True))
            yield cls(ids, lines, digests, lengths, rows.reshape(len(ids), -1) if ids else
                      rows.reshape(0, 0), source, count)


class Sketcher:
    """Maker of sketches, in a worker process.

    Args:
        config: settings.
    """

    def __init__(self, config: DedupConfig) -> None:
        self._config = config

    def __call__(self, block: Block) -> Iterator[Outcome]:
        """Yield the sketches of a block, as the lines of an outcome."""
        outcome = Outcome()
        ids, texts, lines = read_texts(block, outcome.reject)
        if self._config.duplicates == "bytes":
            contents = [text.encode() for text in texts]
            digests, lengths = _digests(contents), np.array([*map(len, contents)], np.uint32)
            signatures = np.empty((len(texts), 0), np.uint32)
        else:
            parts = [self._sketch(texts[first:end]) for first, end in batches(texts)]
            digests, lengths, signatures = (np.concatenate(each) for each in zip(
                *(parts or [self._sketch([])]), strict=True))
        outcome.lines = Sketches(ids, lines, digests, lengths, signatures, block.name,
                                 block.line_count).encode()
        yield outcome

    def _sketch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        content = fold_texts(texts)
        digests = _digests(content.split(END)[:-1])
        words = Words.of(content)
        lengths = np.diff(words.offsets).astype(np.uint32)
        if self._config.duplicates != "near":
            return digests, lengths, np.empty((len(texts), 0), np.uint32)
        return digests, lengths, signatures(*words.ngrams(self._config.ngram_words), self._config)


def signatures(shingles: np.ndarray, offsets: np.ndarray, config: DedupConfig) -> np.ndarray:
    """Compute signatures, (texts, permutations) uint32, from the hashes of runs of words."""
    from rensa import RMinHash

    rows = RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, offsets.astype(np.uint64), config.permutations, config.seed).to_rows()
    found = array("I")
    for row in rows:
        found.fromlist(row)  # twice as fast as np.array
    return np.frombuffer(found, np.uint32).reshape(-1, config.permutations)


def _digests(contents: Sequence[bytes]) -> np.ndarray:
    content = b"".join([hashlib.sha256(one).digest()[:DIGEST_BYTES] for one in contents])
    return np.frombuffer(content, DIGEST)


@dataclass(frozen=True, eq=False)
class Part:
    """Sketches of the records of some sources.

    Args:
        arrays: by the names in `TYPES`.
        sources: number of the first record of each source, and its name.
    """

    arrays: dict[str, np.ndarray]
    sources: Sequence[tuple[int, str]]

    def __len__(self) -> int:
        return len(self.arrays["digests"])

    def chunks(self) -> Iterator[slice]:
        """Yield runs of records, and forget the pages that were read for them."""
        for first in range(0, len(self), ROWS):
            yield slice(first, first + ROWS)
            self.forget_pages()

    def forget_pages(self) -> None:
        """Have the system take back what was read of files; it counts as memory until then."""
        for base in self.arrays.values():
            while isinstance(base, np.ndarray) and base.base is not None:
                base = base.base
            if isinstance(base, mmap.mmap):
                base.madvise(mmap.MADV_DONTNEED)

    def id(self, number: int) -> str:
        """Return the id of a record."""
        ends = self.arrays["id_ends"]
        first = int(ends[number - 1]) if number else 0
        return self.arrays["ids"][first:int(ends[number])].tobytes().decode("utf-8", "replace")

    def source(self, number: int) -> str:
        """Return the name of the source of a record."""
        return [name for first, name in self.sources if first <= number][-1]


class PartWriter:
    """Writer of a part into files without names, which are gone when the stack is closed.

    Args:
        stack: closes the files.
        permutations: of the signatures; 0 for none.
    """

    def __init__(self, stack: ExitStack, permutations: int) -> None:
        self._files: dict[str, BinaryIO] = {
            name: stack.enter_context(temporary_file()) for name in TYPES}
        self._permutations = permutations
        self._sources: list[tuple[int, str]] = []
        self._id_bytes = self.records = 0

    def add(self, sketches: Sketches) -> None:
        """Add the sketches of a block."""
        if not self._sources or self._sources[-1][1] != sketches.source:
            self._sources.append((self.records, sketches.source))
        ids = [one.encode() for one in sketches.ids]
        ends = self._id_bytes + np.cumsum([*map(len, ids)], dtype=TYPES["id_ends"])
        for name, content in (("digests", sketches.digests), ("lengths", sketches.lengths),
                              ("signatures", sketches.signatures), ("id_ends", ends)):
            self._files[name].write(content.tobytes())
        self._id_bytes += self._files["ids"].write(b"".join(ids))
        self.records += len(ids)

    def finish(self) -> Part:
        """Map what was written."""
        shapes = {"ids": (self._id_bytes,), "signatures": (self.records, self._permutations)}
        arrays = {}
        for name, file in self._files.items():
            file.flush()
            shape = shapes.get(name, (self.records,))
            arrays[name] = np.memmap(file, TYPES[name], "r", shape=shape) if all(shape) \
                else np.empty(shape, TYPES[name])
        return Part(arrays, self._sources)
