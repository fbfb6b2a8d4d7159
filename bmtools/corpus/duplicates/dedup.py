"""Removal of duplicates from a corpus, within it and against others.

Records are read twice: first for their sketches, of which some bytes stay in memory and the rest in
files, then to copy the lines that stay.
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
"""What becomes of a record."""
_NO_RECORD = 255
_NEARLY = 0.999  # similarity of texts whose signatures are equal, though they are not


@dataclass(frozen=True, eq=False)
class Deduplicated:
    """A corpus and what is a duplicate in it.

    Args:
        reader: of the corpus, or of the part of it that is written; it must not change meanwhile.
        hashes: of the corpus, by the names of the files.
        records: of other corpora, and then of this one.
        first: number of this corpus' first record among them.
        lines: (records of this corpus,) numbers of their lines, over all files.
        line_count: lines in all.
        kept: for each record the one that stays in its place, itself or an earlier one.
        similarity: of each record of this corpus to the one that stays.
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
        """Yield the lines that stay, as they are.

        Args:
            run: does the work, and counts what becomes of records.
            dropped: gets the duplicates; `meta.dropped` tells of what and how similar.

        Raises:
            DataError: a file has changed since the search.
        """
        verdicts = np.full(self.line_count, _NO_RECORD, np.uint8)
        stays = self.kept[self.first:] == np.arange(self.first, len(self.records))
        verdicts[self.lines] = np.where(stays, 0, np.where(self.similarity == 1, 1, 2))
        # To send lines to other processes and back would take longer than to copy them.
        yield from run.lines(read_blocks(self.reader),
                             lambda: partial(self._copy, verdicts, dropped is not None),
                             self.reader.reject, dropped, workers=ONE_WORKER)
        if any(self.hashes[name] != digest for name, digest in self.reader.hashes.items()):
            raise DataError("the input changed while it was read; start again")

    def _copy(self, verdicts: np.ndarray, explain: bool, block: Block) -> Iterator[Outcome]:
        """Yield the outcome of a block; the second file gets duplicates, if they are explained."""
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
        """Add to a duplicate of what it is one."""
        record = Record(msgspec.json.decode(as_lines([line])))
        kept = int(self.kept[self.first + number])
        similarity = float(self.similarity[number])
        found = {"rule": RULES[1 if similarity == 1 else 2], "found": self.records.id(kept),
                 "in": self.records.source(kept), "similarity": round(similarity, 3)}
        return record.replace(meta={**(record.get("meta") or {}), "dropped": found})


def dedup(records: RecordSource, *, against: Sequence[str] = (), workers: int = 1,
          reject: Reject = refuse, **settings: object) -> Iterator[Record]:
    """Yield the records that are no duplicates: `dedup("corpus.jsonl", threshold=0.8)`.

    Args:
        records: a file or several, or dictionaries with `id` and `text`, which are copied to a
            temporary file.
        against: files of other corpora, whose records stay in place of those of this one.
        workers: processes; 0 for one for each core.
        reject: receives bad records.
        settings: fields of `DedupConfig`.

    Raises:
        BmtoolsError: a package is missing.
        ValueError: a setting out of range.
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
    """Find the duplicates in a corpus; its lines can be written until the block ends.

    Duplicates of duplicates are duplicates of one record, unless `no_chains` is set. Memory holds
    some fifty bytes a record, files beside the output and temporary ones some 1,500 (near
    duplicates, as set by default). A pipe is kept in one, too.

    Args:
        records: of the corpus, or a part of it that is to be written; their `reject` receives bad
            ones.
        run: does the work.
        config: settings.
        against: files of other corpora, whose records stay in place of those of this one.

    Raises:
        DataError: nothing to read.
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
    """Estimate how similar each record of this corpus is to the one that stays."""
    similarity = np.ones(len(records) - first)
    one = np.flatnonzero(kept != np.arange(len(records)))
    one = one[one >= first]
    one = one[records.rows("digests", one) != records.rows("digests", kept[one])]
    # Texts of the same runs of words that differ in punctuation are no exact duplicates.
    similarity[one - first] = np.minimum(records.similarity(one, kept[one]), _NEARLY)
    return similarity
