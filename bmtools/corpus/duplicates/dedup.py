"""Removal of duplicates within a corpus and against other corpora.

Records are read twice: first to compute their sketches, then to copy the lines that are kept. A few
bytes of each sketch are kept in memory, the rest in files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO

import msgspec
import numpy as np

from bmtools.corpus.duplicates.clusters import find_clusters
from bmtools.corpus.duplicates.settings import DedupConfig
from bmtools.corpus.duplicates.sketches import Records, Sketcher, read_sketches
from bmtools.corpus.record_files import as_lines, record_files
from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.installation import require_extra
from bmtools.io.jsonl import Block, RecordReader, parse_records
from bmtools.io.output import encode_lines
from bmtools.io.parts import RecordShard, read_blocks, rereadable
from bmtools.io.passes import PassRun, opened_pass
from bmtools.io.workers import ONE_WORKER, Outcome, Workers
from bmtools.records import Record, RecordSource
from bmtools.settings import split_settings

RULES = ("kept", "exact-duplicate", "near-duplicate")
"""Possible outcomes for a record."""
_NO_RECORD = 255
_NEARLY = 0.999  # similarity of different texts with equal signatures


@dataclass(frozen=True, eq=False)
class Deduplicated:
    """A corpus and its duplicates.

    Args:
        reader: reader of the corpus or the part to write, which must not change in the meantime.
        hashes: hashes of the corpus files, by name.
        records: sketches of the other corpora, followed by this corpus.
        first: number of this corpus's first record in `records`.
        lines: (records of this corpus,) numbers of their lines, over all files.
        line_count: total number of lines.
        kept: for each record, the number of the record that is kept: itself or an earlier one.
        similarity: similarity of each record in this corpus to the kept record.
    """

    reader: RecordReader
    hashes: dict[str, str]
    records: Records
    first: int
    lines: np.ndarray
    line_count: int
    kept: np.ndarray
    similarity: np.ndarray

    def write(self, run: PassRun, dropped: IO[bytes] | None = None) -> Iterator[bytes]:
        """Yield the kept lines unchanged.

        Args:
            run: does the work, and counts the records by outcome.
            dropped: receives the duplicates; `meta.dropped` contains the kept record and the
                similarity.

        Raises:
            DataError: a file has changed since the search.
        """
        verdicts = np.full(self.line_count, _NO_RECORD, np.uint8)
        stays = self.kept[self.first:] == np.arange(self.first, len(self.records))
        verdicts[self.lines] = np.where(stays, 0, np.where(self.similarity == 1, 1, 2))
        # Copying lines is faster than sending them to other processes and back.
        yield from run.lines(read_blocks(self.reader),
                             lambda: partial(self._copy, verdicts, dropped is not None),
                             self.reader.reject, dropped, workers=ONE_WORKER)
        if any(self.hashes[name] != digest for name, digest in self.reader.hashes.items()):
            raise DataError("the input changed while it was read; start again")

    def _copy(self, verdicts: np.ndarray, explain: bool, block: Block) -> Iterator[Outcome]:
        """Yield the outcome of a block; duplicates go to the second file if `explain` is set."""
        outcome = Outcome()
        lines = block.lines.splitlines(keepends=True)
        first = block.earlier_lines + block.first_line - 1
        verdicts = verdicts[first:first + len(lines)]
        kept = [lines[place] for place in np.flatnonzero(verdicts == 0).tolist()]
        outcome.lines, outcome.records = as_lines(kept), len(kept)
        if explain:
            places = np.flatnonzero((verdicts > 0) & (verdicts < _NO_RECORD))
            numbers = np.searchsorted(self.lines, first + places)
            outcome.aside = encode_lines([
                self._explained(lines[place], number)
                for place, number in zip(places.tolist(), numbers.tolist(), strict=True)])
        for place in np.flatnonzero(verdicts == _NO_RECORD).tolist():  # blank, or bad
            list(parse_records([lines[place]], block.name, outcome.reject,
                               block.first_line - 1 + place))
        for number, rule in enumerate(RULES):
            outcome.counts[rule] += int((verdicts == number).sum())
        yield outcome

    def _explained(self, line: bytes, number: int) -> Record:
        """Add to a duplicate the id and source of the record that it repeats."""
        record = Record(msgspec.json.decode(as_lines([line])))
        kept = int(self.kept[self.first + number])
        similarity = float(self.similarity[number])
        found = {"rule": RULES[1 if similarity == 1 else 2], "found": self.records.id(kept),
                 "in": self.records.source(kept), "similarity": round(similarity, 3)}
        return record.replace(meta={**(record.get("meta") or {}), "dropped": found})


def dedup(records: RecordSource, *, against: Sequence[str] = (), workers: int = 1,
          reject: Reject = refuse, **settings: object) -> Iterator[Record]:
    """Yield the records that are not duplicates: `dedup("corpus.jsonl", threshold=0.8)`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`, which are copied to a
            temporary file.
        against: files of other corpora, whose records are kept instead of duplicates in this one.
        workers: number of processes; 0 for one per core.
        reject: receives bad records.
        settings: fields of `DedupConfig`.

    Raises:
        BmtoolsError: a package is missing.
        ValueError: a setting is out of range.
    """
    [config] = split_settings(settings, DedupConfig)
    with record_files(records, reject) as names, \
            opened_pass(None, {}, Workers(workers)) as run, \
            deduplicate(RecordReader(names, reject, True), run, config, against) as found:
        for lines in found.write(run):
            yield from map(Record, map(msgspec.json.decode, lines.splitlines()))


@contextmanager
def deduplicate(records: RecordReader, run: PassRun, config: DedupConfig | None = None,
                against: Sequence[str] = ()) -> Iterator[Deduplicated]:
    """Find the duplicates in a corpus, whose lines can be written until the block ends.

    Duplicates of duplicates are duplicates of the same record, unless `no_chains` is set. Memory
    contains some fifty bytes per record. Temporary files and files next to the output contain some
    1,500 bytes per record (near duplicates with default settings). Input from a pipe is also kept
    in a temporary file.

    Args:
        records: records of the corpus, or of the part to write; the reader's `reject` receives bad
            records.
        run: does the work.
        config: settings.
        against: files of other corpora, whose records are kept instead of duplicates in this one.

    Raises:
        DataError: there are no records.
        BmtoolsError: a package is missing.
    """
    config = config or DedupConfig()
    if config.duplicates == "near":
        require_extra("rensa", f"{setting('duplicates')} near", "dedup")
    with ExitStack() as stack:
        found = Records(stack, config.permutations if config.duplicates == "near" else 0)
        if against:
            _sketch(RecordReader(against, records.reject), run, "against", config, found)
        first = len(found)
        names = stack.enter_context(rereadable(records.names))
        whole, again = (RecordReader(names, records.reject, records.allow_empty) for _ in range(2))
        lines, line_count = _sketch(whole, run, "corpus", config, found)
        found.finish()
        kept = find_clusters(found, config, first)
        yield Deduplicated(records if isinstance(records, RecordShard) else again, whole.hashes,
                           found, first, lines, line_count, kept, _similarities(found, first, kept))


def _sketch(reader: RecordReader, run: PassRun, name: str, config: DedupConfig,
            records: Records) -> tuple[np.ndarray, int]:
    """Sketch all records of some files.

    Returns:
        (records,) the numbers of their lines, and the number of lines.
    """
    path = run.collect(name, read_blocks(reader), partial(Sketcher, config), reader.reject)
    lines, count = [np.empty(0, np.int64)], 0
    with path.open("rb") as stream:
        for sketches in read_sketches(stream):
            records.add(sketches)
            lines.append(np.frombuffer(sketches.lines, np.int64) + count)
            count += sketches.line_count
    return np.concatenate(lines), count


def _similarities(records: Records, first: int, kept: np.ndarray) -> np.ndarray:
    """Estimate the similarity of each record in this corpus to the kept record."""
    similarity = np.ones(len(records) - first)
    one = np.flatnonzero(kept != np.arange(len(records)))
    one = one[one >= first]
    one = one[records.rows("digests", one) != records.rows("digests", kept[one])]
    # Texts with the same runs of words but different punctuation are not exact duplicates.
    similarity[one - first] = np.minimum(records.similarity(one, kept[one]), _NEARLY)
    return similarity
