"""Sizes of records and the keys that put them in an order, measured block by block."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from bmtools.corpus.split import values_of
from bmtools.errors import DataError, Reject
from bmtools.io.jsonl import Block, RecordReader
from bmtools.io.parallel import read_blocks
from bmtools.io.workers import ONE_WORKER, Outcome, Workers, collected
from bmtools.records import full_text
from bmtools.status import counted
from bmtools.text.reservoir import word_keys
from bmtools.vocab.words import ChunkWords

_UNSTATED = ""
_NO_RECORD = (1 << 32) - 1  # no record has so many bytes
_IGNORED = b"\xef\xbb\xbf\x1e \t"
# The columns of `Measures`, by the codes of their types in `array` and in numpy.
_COLUMNS = {"priorities": "Q", "ties": "I", "sizes": "I", "words": "I", "groups": "I"}


@dataclass(frozen=True)
class Measured:
    """Measures of the lines of a block.

    Args:
        columns: bytes of those of `Measures`, by name; groups are none of them.
        values: of the key to stratify by, of each record.
        licences: of the records, each once; an empty one where some state none.
    """

    columns: dict[str, bytes]
    values: list[str]
    licences: set[str]


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
        records = list(block.records(outcome.reject))
        places = [*map(block.line_of, records)]
        texts = [full_text(record) for record in records]
        encoded = [text.encode() for text in texts]

        def column(name: str, values: Iterable[int], missing: int = 0) -> bytes:
            found = np.full(block.line_count, missing, _COLUMNS[name])
            found[places] = np.fromiter(values, found.dtype, len(records))
            return found.tobytes()

        columns = {
            "priorities": column("priorities", word_keys((record["id"] for record in records),
                                                         self._seed)),
            "ties": column("ties", map(zlib.crc32, encoded)),
            "sizes": column("sizes", map(len, encoded), _NO_RECORD)}
        if self._words is not None:
            columns["words"] = column("words", map(self._words.number, texts))
        values = [next(iter(values_of(record, self._by)), _UNSTATED)
                  for record in records] if self._by else []
        outcome.lines = _encode(Measured(columns, values, {record.get("licence", "")
                                                           for record in records}))
        return [outcome]


@dataclass(frozen=True, eq=False)
class Measures:
    """Measures of all lines of some files: 16 bytes a line, 4 more with words or with a key.

    Args:
        priorities: (lines,) uint64, hashes of seed and id.
        ties: (lines,) uint32, hashes of title and text.
        sizes: (lines,) uint32, bytes of title and text; the highest number where no record is.
        words: (lines,) uint32; empty if they were not counted.
        groups: (lines,) uint32, numbers of the values of the key to stratify by; empty without.
        licences: of the records, each once; an empty one where some state none.
    """

    priorities: np.ndarray
    ties: np.ndarray
    sizes: np.ndarray
    words: np.ndarray
    groups: np.ndarray
    licences: set[str]

    def order(self) -> np.ndarray:
        """Return the numbers of the lines that hold records, as their keys order them.

        With a key to stratify by, each beginning of the order has nearly the same share of the
        bytes of each value.
        """
        found = np.lexsort((self.ties, self.priorities))
        found = found[self.sizes[found] != _NO_RECORD]
        if not len(self.groups):
            return found
        groups = self.groups[found]
        shares = np.empty(len(found))
        for number in np.unique(groups):
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
    columns = {name: array(kind) for name, kind in _COLUMNS.items()}
    values: dict[str, int] = {}
    licences: set[str] = set()
    for lines in collected(records, partial(BlockMeasurer, seed, count_words, by), workers, reject,
                           "measuring"):
        block = _decode(lines)
        licences |= block.licences
        for name, content in block.columns.items():
            columns[name].frombytes(content)
        if by:
            columns["groups"].frombytes(_groups(block, values))
    return Measures(**{name: np.frombuffer(column, _COLUMNS[name])
                       for name, column in columns.items()}, licences=licences)


def _groups(block: Measured, values: dict[str, int]) -> bytes:
    """Return the number of each line's value, uint32; new values get the next numbers."""
    is_record = np.frombuffer(block.columns["sizes"], _COLUMNS["sizes"]) != _NO_RECORD
    numbers = np.zeros(len(is_record), _COLUMNS["groups"])
    numbers[is_record] = [values.setdefault(value, len(values)) for value in block.values]
    return numbers.tobytes()


def selected_lines(reader: RecordReader, selected: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Read lines of files again, as they stand there, each after its number.

    Args:
        reader: that has read the files before.
        selected: (lines,) bool.

    Raises:
        DataError: a file has changed since.
    """
    again = RecordReader(reader.names, allow_empty=True)
    at = 0
    for block in counted(read_blocks(again), "writing", unit="megabytes"):
        lines = block.lines.splitlines()
        for number in np.flatnonzero(selected[at:at + len(lines)]).tolist():
            yield at + number, lines[number].strip(_IGNORED) + b"\n"
        at += len(lines)
    if again.hashes != reader.hashes:
        raise DataError("the input changed while it was read; sample it again")
