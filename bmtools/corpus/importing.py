"""Import by workers, each of which reads whole files; ids are compared where all come together."""

from __future__ import annotations

import select
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bmtools.corpus.duplicates import Duplicates, UniqueIds
from bmtools.corpus.overlap import SetSeen, is_annotated
from bmtools.errors import BmtoolsError, RecordError, Reject
from bmtools.io.output import encode_lines
from bmtools.io.passes import PassRun
from bmtools.io.provenance.licence_check import declared_fault, is_allowed
from bmtools.io.workers import InputFile, Outcome
from bmtools.records import Record, passes_check
from bmtools.text.abbreviations import Abbreviations
from bmtools.text.sentences import sentence_records

_CHUNK_BYTES = 1 << 20
Read = Callable[..., Iterator[Record]]
"""Function of a file's name, `counts`, `reject` and further options that yields its records."""


@dataclass(frozen=True)
class RecordChanges:
    """Changes to the records of all formats.

    Args:
        given: keys and their values.
        sentences: whether records become sentences.
        abbreviations: beside those known of the languages.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    sentences: bool = False
    abbreviations: Abbreviations | None = None

    def made(self, records: Iterable[Record], reject: Reject) -> Iterator[Record]:
        """Yield records with the given keys; reject those that then break the agreement, or whose
        licence asks for more than the given one."""
        for record in records:
            licence = self.given.get("licence", "")
            fault = licence and not is_allowed() and declared_fault(
                licence, str(record.get("licence", "")), "--licence")
            if fault:
                reject(RecordError(record.place, f"key 'licence': {fault}", record))
            elif passes_check(record := record.replace(**self.given), reject):
                yield record

    def split(self, record: Record, counts: Counter[str], reject: Reject) -> list[Record]:
        """Return a record as it is written, or its sentences."""
        if not self.sentences:
            return [record]
        return list(sentence_records([record], counts, reject, self.abbreviations))


class _Head(NamedTuple):
    """Keys of a record by which ids and sets are compared.

    Args:
        id: of a record.
        place: of it.
        lines: that it became.
        annotated: whether it has an annotation.
        record: itself, where it became something else.
    """

    id: str
    place: str
    lines: int
    annotated: bool
    record: dict[str, Any] | None = None


_heads = msgspec.json.Decoder(_Head)


def input_files(planned: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[InputFile]:
    """Yield files, with options of each, as parts; names and sizes tell them from others."""
    digest = blake2b(digest_size=16)
    for number, (name, more) in enumerate(planned):
        size = Path(name).stat().st_size if Path(name).is_file() else 0
        digest.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
        yield InputFile(number, name, digest.hexdigest(), more)


class FileWorker:
    """Worker that reads files.

    Args:
        find_reader: returns the function that reads a file, in each process.
        options: of the function.
        changes: to its records.
    """

    def __init__(self, find_reader: Callable[[], Read], options: Mapping[str, Any],
                 changes: RecordChanges) -> None:
        self._read, self._options, self._changes = find_reader(), options, changes

    def __call__(self, file: InputFile) -> Iterator[Outcome]:
        """Yield the records of a file in outcomes of about a megabyte."""
        counts, rejects = Counter[str](), list[RecordError]()
        heads, lines, size = list[_Head](), list[bytes](), 0
        # What comes by a pipe goes on as it comes.
        most = _CHUNK_BYTES if Path(file.name).is_file() else select.PIPE_BUF

        def outcome() -> Outcome:
            found = Outcome(b"".join(lines), sum(head.lines for head in heads),
                            encode_lines(heads), counts=Counter(counts))
            for error in rejects:
                found.reject(error)
            for one in (counts, rejects, heads, lines):
                one.clear()
            return found

        try:
            for record in self._changes.made(self._read(
                    file.name, counts=counts, reject=rejects.append, **self._options,
                    **file.options), rejects.append):
                made = self._changes.split(record, counts, rejects.append)
                heads.append(_Head(record["id"], record.place, len(made), is_annotated(record),
                                   record if self._changes.sentences else None))
                lines.append(encode_lines(made))
                size += len(lines[-1])
                if size > most:
                    yield outcome()
                    size = 0
        except BmtoolsError:
            yield outcome()
            raise
        yield outcome()


class ImportedRecords:
    """Records of all files, in their order: duplicate ids, and sets that share something.

    Args:
        duplicates: what to do with a record whose id came before.
        changes: that workers made to the records.
        seen: looks at those that are written.
    """

    def __init__(self, duplicates: Duplicates, changes: RecordChanges, seen: SetSeen) -> None:
        self._ids, self._changes, self._seen = UniqueIds(duplicates), changes, seen

    def resume(self, run: PassRun) -> None:
        """Look at what an interrupted run has written."""
        lines = run.done()
        for head in map(_heads.decode, run.aside_done()):
            self._ids.add(head.id, head.place)
            self._look_at(head, list(islice(lines, head.lines)))

    def amend(self, outcome: Outcome) -> Outcome:
        """Take out or rename duplicates."""
        kept, written = list[_Head](), list[bytes]()
        lines = iter(outcome.lines.splitlines(keepends=True))
        changed = False
        for head in _heads.decode_lines(outcome.aside):
            own: Sequence[bytes] = list(islice(lines, head.lines))
            if not self._ids.add(head.id, head.place):
                head, own = self._again(head, own, outcome)
                changed = True
            self._look_at(head, own)
            kept.append(head._replace(record=None))
            written += own
        if changed:
            outcome.lines, outcome.records = b"".join(written), len(written)
        outcome.aside = encode_lines(kept)
        return outcome

    def _again(self, head: _Head, lines: Sequence[bytes],
               outcome: Outcome) -> tuple[_Head, Sequence[bytes]]:
        """Treat a record whose id came before."""
        record = Record(head.record or msgspec.json.decode(lines[0]), place=head.place)
        kept = self._ids.treat(record, outcome.counts, outcome.reject)
        if kept is None:
            return head._replace(lines=0), ()
        if kept is not record:
            made = self._changes.split(kept, Counter(), lambda error: None)
            lines = [encode_lines([one]) for one in made]
        return head._replace(id=kept["id"]), lines

    def _look_at(self, head: _Head, lines: Sequence[bytes]) -> None:
        if self._seen.compares or head.annotated:
            for line in lines:
                self._seen.look_at(Record(msgspec.json.decode(line), place=head.place))
