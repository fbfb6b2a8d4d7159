"""Sizes of records and the keys that order them, measured block by block."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from bmtools.corpus.split import values_of
from bmtools.errors import DataError, Reject
from bmtools.io.jsonl import Block, RecordReader
from bmtools.io.parts import read_blocks
from bmtools.io.workers import ONE_WORKER, Outcome, Workers, collected
from bmtools.records import full_text
from bmtools.status import counted
from bmtools.text.reservoir import word_keys
from bmtools.vocab.words import ChunkWords

_IGNORED = b"\xef\xbb\xbf\x1e \t"
# For each line: hash of seed and id, hash of title and text, their bytes and words, hash of the
# value to stratify by, and whether the line contains a record.
_LINE = np.dtype([("priority", "<u8"), ("tie", "<u4"), ("size", "<u4"), ("words", "<u4"),
                  ("group", "<u8"), ("is_record", "?")])
_decode = msgspec.msgpack.Decoder(tuple[bytes, set[str]]).decode


class BlockMeasurer:
    """Worker that measures the records of blocks.

    Args:
        seed: seed of the order.
        count_words: whether words are counted.
        by: key whose values define groups; empty for no groups.
    """

    def __init__(self, seed: int, count_words: bool, by: str) -> None:
        self._seed, self._by = seed, by
        self._words = ChunkWords() if count_words else None

    def __call__(self, block: Block) -> list[Outcome]:
        """Measure a block."""
        outcome = Outcome()
        records = list(block.records(outcome.reject))
        texts = [full_text(record) for record in records]
        encoded = [text.encode() for text in texts]
        found = np.zeros(len(records), _LINE)
        found["is_record"] = True
        found["priority"] = word_keys((record["id"] for record in records), self._seed)
        found["tie"] = [*map(zlib.crc32, encoded)]
        found["size"] = [*map(len, encoded)]
        if self._words is not None:
            found["words"] = [*map(self._words.number, texts)]
        if self._by:
            found["group"] = word_keys((next(iter(values_of(record, self._by)), "")
                                        for record in records), 0)
        lines = np.zeros(block.line_count, _LINE)
        lines[[*map(block.line_of, records)]] = found
        outcome.lines = msgspec.msgpack.encode(
            (lines.tobytes(), {record.get("licence", "") for record in records}))
        return [outcome]


@dataclass(frozen=True, eq=False)
class Measures:
    """Measures of all lines in some files, 29 bytes per line.

    Args:
        lines: (lines,), structured.
        licences: distinct licences of the records, including "" if a record has no licence.
    """

    lines: np.ndarray
    licences: set[str]

    def order(self) -> np.ndarray:
        """Return the numbers of the lines with records, in the order of their keys.

        With a key to stratify by, each value has nearly the same share of its bytes in each
        beginning of the order.
        """
        found = np.lexsort((self.lines["tie"], self.lines["priority"]))
        found = found[self.lines["is_record"][found]]
        groups, sizes = self.lines["group"][found], self.lines["size"][found]
        values = np.unique(groups)
        if len(values) == 1:
            return found
        shares = np.empty(len(found))
        for value in values:
            own = groups == value
            sums = np.cumsum(sizes[own], dtype="u8")
            shares[own] = sums / max(1, int(sums[-1]))
        return found[np.argsort(shares, kind="stable")]


def measure(records: RecordReader, reject: Reject, seed: int, *, count_words: bool = False,
            by: str = "", workers: Workers = ONE_WORKER) -> Measures:
    """Measure all records of some files; `records.hashes` is filled.

    Args:
        records: reader of the files.
        reject: receives bad records.
        seed: seed of the order.
        count_words: whether words are counted.
        by: key to stratify by; empty for no stratification.
        workers: processes that measure.
    """
    lines, licences = bytearray(), set[str]()
    for content in collected(records, partial(BlockMeasurer, seed, count_words, by), workers,
                             reject, "measuring"):
        measured, stated = _decode(content)
        lines += measured
        licences |= stated
    return Measures(np.frombuffer(lines, _LINE), licences)


def selected_lines(reader: RecordReader, selected: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Read unchanged lines of files again, each with its number.

    Args:
        reader: reader that has read the files before.
        selected: (lines,) bool.

    Raises:
        DataError: a file has changed in the meantime.
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
