"""Sizes of records and the keys that put them in an order, measured block by block."""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np

from bmtools.corpus.splits import values_of
from bmtools.corpus.words import ChunkWords
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader, parse_lines
from bmtools.io.parallel import Block
from bmtools.io.workers import ONE_WORKER, Outcome, Workers, collected
from bmtools.records import Record, full_text
from bmtools.search.reservoir import word_keys

UNSTATED = ""
"""Value of a key that a record lacks."""
_NO_RECORD = (1 << 32) - 1  # no record has so many bytes


@dataclass(frozen=True)
class Measured:
    """Measures of the lines of a block.

    Args:
        priorities: (lines,) uint64, hashes of seed and id.
        ties: (lines,) uint32, hashes of texts, for records that share an id.
        sizes: (lines,) uint32, bytes of title and text; the highest number where no record is.
        words: (lines,) uint32; empty where they are not asked for.
        values: of the key to stratify by, of each record.
    """

    priorities: bytes
    ties: bytes
    sizes: bytes
    words: bytes
    values: list[str]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Measured).decode


class BlockMeasurer:
    """Worker that measures the records of blocks.

    Args:
        seed: of the order.
        count_words: whether words are counted.
        by: key whose values are listed; none if empty.
    """

    def __init__(self, seed: int, count_words: bool, by: str) -> None:
        self._seed, self._by = seed, by
        self._words = ChunkWords() if count_words else None

    def __call__(self, block: Block) -> list[Outcome]:
        """Measure a block."""
        outcome = Outcome()
        records = list(parse_lines(block.lines, block.name, outcome.reject, block.first_line - 1))
        lines = len(block.lines.splitlines())
        places = [int(record.place.rpartition(":")[2]) - block.first_line for record in records]
        texts = [full_text(record) for record in records]
        encoded = [text.encode() for text in texts]

        def column(values: Any, kind: str, missing: int = 0) -> bytes:
            found = np.full(lines, missing, dtype=kind)
            found[places] = np.fromiter(values, kind, len(records))
            return found.tobytes()

        outcome.lines = _encode(Measured(
            column(word_keys((record["id"] for record in records), self._seed), "u8"),
            column(map(zlib.crc32, encoded), "u4"), column(map(len, encoded), "u4", _NO_RECORD),
            b"" if self._words is None else column(map(self._words.number, texts), "u4"),
            [stated(record, self._by) for record in records] if self._by else []))
        return [outcome]


def stated(record: Record, key: str) -> str:
    """Return the first value of a key, as text."""
    return next(iter(values_of(record, key)), UNSTATED)


@dataclass
class Measures:
    """Measures of all lines of some files: 20 bytes a line, 24 with words, 28 with a key.

    Attributes:
        values: of the key to stratify by, by their numbers.
    """

    _priorities: array[int] = field(default_factory=lambda: array("Q"))
    _ties: array[int] = field(default_factory=lambda: array("I"))
    _sizes: array[int] = field(default_factory=lambda: array("I"))
    _words: array[int] = field(default_factory=lambda: array("I"))
    _groups: array[int] = field(default_factory=lambda: array("I"))
    values: dict[str, int] = field(default_factory=dict)

    def add(self, block: Measured) -> None:
        """Add the measures of the next block."""
        for own, content in ((self._priorities, block.priorities), (self._ties, block.ties),
                             (self._sizes, block.sizes), (self._words, block.words)):
            own.frombytes(content)
        if block.values:
            sizes = np.frombuffer(block.sizes, "u4")
            groups = np.zeros(len(sizes), "u4")
            groups[sizes != _NO_RECORD] = [
                self.values.setdefault(value, len(self.values)) for value in block.values]
            self._groups.frombytes(groups.tobytes())

    @property
    def lines(self) -> int:
        """Number of lines, blank ones and bad records among them."""
        return len(self._sizes)

    @property
    def priorities(self) -> np.ndarray:
        """Hashes of seed and id of each line, uint64."""
        return np.frombuffer(self._priorities, "u8")

    @property
    def ties(self) -> np.ndarray:
        """Hashes of each line's title and text, uint32."""
        return np.frombuffer(self._ties, "u4")

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each line's title and text, uint32."""
        return np.frombuffer(self._sizes, "u4")

    @property
    def words(self) -> np.ndarray:
        """Words of each line, uint32, if they were counted."""
        return np.frombuffer(self._words, "u4")

    def order(self) -> np.ndarray:
        """Return the numbers of the lines that hold records, as their keys order them.

        With a key to stratify by, each beginning of the order has nearly the same share of the
        bytes of each value.
        """
        found = np.lexsort((self.ties, self.priorities))
        found = found[self.sizes[found] != _NO_RECORD]
        if not self.values:
            return found
        groups = np.frombuffer(self._groups, "u4")[found]
        shares = np.empty(len(found))
        for number in range(len(self.values)):
            own = np.flatnonzero(groups == number)
            sums = np.cumsum(self.sizes[found[own]], dtype="u8")
            shares[own] = sums / max(1, int(sums[-1]))
        return found[np.argsort(shares, kind="stable")]


def measure(records: RecordReader, reject: Reject, seed: int, *, count_words: bool = False,
            by: str = "", workers: Workers = ONE_WORKER) -> Measures:
    """Measure all records of some files; `records.hashes` is filled.

    Args:
        records: names the files.
        reject: receives bad records.
        seed: of the order.
        count_words: whether words are counted.
        by: key to stratify by; none if empty.
        workers: do the work.
    """
    measures = Measures()
    for lines in collected(records, partial(BlockMeasurer, seed, count_words, by), workers, reject,
                           "measuring"):
        measures.add(_decode(lines))
    return measures
