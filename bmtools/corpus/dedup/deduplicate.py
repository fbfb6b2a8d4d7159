"""Removal of duplicates from a corpus, within it and against others.

Records are read twice: first for their sketches, of which some bytes stay in memory and the rest in
temporary files, then to copy the lines that stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from bmtools.corpus.dedup.clusters import Records, find_clusters
from bmtools.corpus.dedup.parts import Part, PartWriter
from bmtools.corpus.dedup.settings import DedupConfig
from bmtools.corpus.dedup.signatures import Sketcher
from bmtools.corpus.dedup.store import open_parts, refuse_known
from bmtools.errors import DataError, RecordError
from bmtools.installation import require_extra
from bmtools.io.jsonl import RecordReader
from bmtools.io.parallel import map_parallel, read_blocks
from bmtools.io.spool import rereadable
from bmtools.records import Record
from bmtools.status import counted

_REMEDY = "use fewer jobs"
_IGNORED = b"\xef\xbb\xbf\x1e"
_NEARLY = 0.999  # similarity of texts whose signatures are equal, though they are not


@dataclass(frozen=True, eq=False)
class Deduplicated:
    """A corpus and what is a duplicate in it.

    Args:
        reader: of the corpus, which must not change meanwhile.
        config: settings.
        records: of other corpora, and then of this one.
        first: number of this corpus' first record among them.
        is_record: for each line of the corpus, whether it is a record.
        kept: for each record the one that stays in its place, itself or another one.
        similarity: of each to the one that stays.
        counts: records by what became of them.
    """

    reader: RecordReader
    config: DedupConfig
    records: Records
    first: int
    is_record: np.ndarray
    kept: np.ndarray
    similarity: np.ndarray
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def part(self) -> Part:
        """Sketches of the corpus."""
        return self.records.parts[-1]

    @property
    def stays(self) -> np.ndarray:
        """Whether each record of the corpus stays."""
        return self.kept[self.first:] == np.arange(self.first, len(self.records))

    def lines(self, drop: Callable[[Record], None] | None = None) -> Iterator[bytes]:
        """Yield the lines that stay, as they are.

        Args:
            drop: receives the duplicates; `meta.dropped` tells of what and how similar.

        Raises:
            DataError: a file has changed since the search.
        """
        again, stays, at, number = RecordReader(self.reader.names, allow_empty=True), \
            self.stays, 0, 0
        for block in counted(read_blocks(again), "writing", unit="megabytes"):
            lines = block.lines.splitlines(keepends=True)
            for place in np.flatnonzero(self.is_record[at:at + len(lines)]).tolist():
                if stays[number]:
                    yield lines[place].lstrip(_IGNORED).rstrip() + b"\n"
                elif drop is not None:
                    drop(self._dropped(lines[place], number))
                number += 1
            at += len(lines)
        if again.hashes != self.reader.hashes:
            raise DataError("the input changed while it was read; start again")

    def _dropped(self, line: bytes, number: int) -> Record:
        record = Record(msgspec.json.decode(line.lstrip(_IGNORED)))
        part, place = self.records.part_of(int(self.kept[self.first + number]))
        similarity = float(self.similarity[number])
        reason = {"reason": "exact-duplicate" if similarity == 1 else "near-duplicate",
                  "of": part.id(place), "in": part.source(place),
                  "similarity": round(similarity, 3)}
        return record.replace(meta={**(record.get("meta") or {}), "dropped": reason})


@contextmanager
def deduplicate(records: RecordReader, config: DedupConfig | None = None,
                against: Sequence[str] = (), signatures: Path | None = None,
                jobs: int = 1) -> Iterator[Deduplicated]:
    """Find the duplicates in a corpus; its lines can be read until the block ends.

    Duplicates of duplicates are duplicates of one record. Memory holds some fifty bytes a record,
    temporary files some 800 (near duplicates, as set by default). A pipe is kept in one, too.

    Args:
        records: of the corpus; their `reject` receives bad ones.
        config: settings.
        against: files of other corpora, or directories of their signatures; their records stay
            in place of those of this one.
        signatures: a further directory, which may be absent; it has none of this corpus yet.
        jobs: processes that read; 0 for one a core. They change no result.

    Raises:
        DataError: nothing to read, or signatures that were made with other settings.
        BmtoolsError: a package is missing.
    """
    config = config or DedupConfig()
    if config.duplicates == "near":
        require_extra("rensa", "the search for near duplicates", "dedup")
    files = [name for name in against if not Path(name).is_dir()]
    directories = [Path(name) for name in against if Path(name).is_dir()]
    parts = [part for directory in directories for part in open_parts(directory, config)]
    if signatures is not None:
        parts += open_parts(signatures, config, allow_none=True)
    with ExitStack() as stack:
        if files:
            other, _ = _sketch(RecordReader(files, records.reject), config, jobs, stack)
            parts.append(other)
        reader = RecordReader(stack.enter_context(rereadable(records.names)), records.reject,
                              records.allow_empty)
        part, is_record = _sketch(reader, config, jobs, stack)
        records.hashes.update(reader.hashes)
        if signatures is not None:
            refuse_known(signatures, reader.hashes)
        found = Records([*parts, part])
        kept, similarity = _choose(found, len(found) - len(part), config)
        result = Deduplicated(reader, config, found, len(found) - len(part), is_record, kept,
                              similarity)
        result.counts.update(
            kept=int(result.stays.sum()), exact=int((similarity[~result.stays] == 1).sum()),
            near=int((similarity[~result.stays] < 1).sum()))
        yield result


def _sketch(reader: RecordReader, config: DedupConfig, jobs: int,
            stack: ExitStack) -> tuple[Part, np.ndarray]:
    """Sketch all records of some files, and tell which of their lines are records."""
    writer = PartWriter(stack, config.permutations if config.duplicates == "near" else 0)
    is_record = [np.empty(0, bool)]
    with closing(map_parallel(read_blocks(reader), partial(Sketcher, config), jobs,
                            _REMEDY)) as blocks:
        for sketches in counted(blocks, "reading", unit="megabytes"):
            for one in sketches.rejects:
                reader.reject(RecordError(*one))
            writer.add(sketches, sketches.source)
            found = np.zeros(sketches.line_count, bool)
            found[sketches.lines] = True
            is_record.append(found)
    return writer.finish(), np.concatenate(is_record)


def _choose(records: Records, first: int, config: DedupConfig) -> tuple[np.ndarray, np.ndarray]:
    """Choose which record of each cluster stays.

    Returns:
        (records,) the one that stays in the place of each, and for each from the first one of this
        corpus on the similarity to it.
    """
    parents = find_clusters(records, config)
    numbers = np.arange(len(records))
    kept = parents.copy()
    if config.keep != "first":
        score = numbers if config.keep == "last" else records.all("lengths")
        for members in np.split(*_clusters(parents, first)):
            if len(members):
                kept[members] = members[np.argmax(score[members])]
    dropped = np.flatnonzero(kept[first:] != numbers[first:])
    similarity = np.ones(len(records) - first)
    one, other = dropped + first, kept[dropped + first]
    differs = records.rows("digests", one) != records.rows("digests", other)
    if differs.any():
        found = records.similarity(one[differs], other[differs])
        # Texts of the same runs of words that differ in punctuation are no exact duplicates.
        similarity[dropped[differs]] = np.minimum(found, _NEARLY)
    return kept, similarity


def _clusters(parents: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Order the records of this corpus' clusters of several; tell where each but one begins."""
    sizes = np.bincount(parents, minlength=len(parents))
    members = np.flatnonzero((sizes[parents] > 1) & (parents >= first))
    members = members[np.argsort(parents[members], kind="stable")]
    return members, np.flatnonzero(np.diff(parents[members])) + 1
