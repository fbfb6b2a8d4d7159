"""Import of records: keys set by hand, duplicate ids, and workers that each read whole files."""

from __future__ import annotations

import select
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from bmtools.errors import BmtoolsError, RecordError, Reject, refuse, setting
from bmtools.io.folders import folder_files
from bmtools.io.output import encode_lines, temporary_database
from bmtools.io.parts import InputFile
from bmtools.io.passes import ASIDE, PassRun
from bmtools.io.provenance.licence_check import declared_fault, is_allowed
from bmtools.io.sources import STDIN
from bmtools.io.workers import Outcome
from bmtools.records import JsonObject, Record, passes_check

if TYPE_CHECKING:
    from bmtools.text.abbreviations import Abbreviations

_CHUNK_BYTES = 1 << 20
Duplicates = Literal["refuse", "drop", "rename", "keep"]
Reader = Callable[..., Iterator[Record]]
"""Function of names of files, `counts` and `reject` that yields their records."""
Account = Callable[[Iterator[Record], str, Counter[str]], Iterator[Record]]
"""Proves that records hold the text of the file with a name, and counts its characters."""


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

    def split(self, records: Iterable[Record], counts: Counter[str],
              reject: Reject) -> Iterator[Record]:
        """Yield records as they are written, or their sentences."""
        if not self.sentences:
            yield from records
            return
        from bmtools.text.sentences import sentence_records

        yield from sentence_records(records, counts, reject, self.abbreviations)


class UniqueIds:
    """Ids of records so far, and what is done with a record whose id came before.

    All ids go to a temporary SQLite database, which keeps 64 MiB in memory and the rest in a file
    that is gone afterwards; nothing is guessed.

    Args:
        duplicates: refuse hands later ones to `reject`, drop leaves them out, rename appends `-2`,
            `-3` and so on, keep passes them on.
    """

    def __init__(self, duplicates: Duplicates = "refuse") -> None:
        self._duplicates = duplicates
        self._ids = temporary_database()
        self._ids.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")

    def add(self, name: str, place: str) -> bool:
        """Add an id; return whether its record passes as it is."""
        return self._ids.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)",
                                 (name, place)).rowcount == 1 or self._duplicates == "keep"

    def treat(self, record: Record, counts: Counter[str], reject: Reject) -> Record | None:
        """Treat a record whose id came before; return what is left of it.

        Args:
            record: of which `add` has said so.
            counts: counts it, by treatment.
            reject: receives it under refuse.
        """
        if self._duplicates == "drop":
            counts["records with an id that came before left out"] += 1
        elif self._duplicates == "rename":
            counts["records renamed, their id came before"] += 1
            new_ids = (f"{record['id']}-{number}" for number in count(2))
            return record.replace(id=next(new for new in new_ids if self.add(new, record.place)))
        else:
            first, = self._ids.execute("SELECT place FROM seen WHERE id = ?",
                                       [record["id"]]).fetchone()
            reject(RecordError(
                record.place, f"found the id {record['id']!r} once more, after {first}; "
                f"{setting('duplicates')} drop, rename or keep decides what to do with such "
                "records", record))
        return None

    def close(self) -> None:
        """Remove the database."""
        self._ids.close()


def with_unique_ids(records: Iterable[Record], duplicates: Duplicates = "refuse",
                    counts: Counter[str] | None = None,
                    reject: Reject = refuse) -> Iterator[Record]:
    """Pass records on and treat those whose id came before; see `UniqueIds`."""
    counts = Counter() if counts is None else counts
    with closing(UniqueIds(duplicates)) as ids:
        for record in records:
            kept = record if ids.add(record["id"], record.place) else \
                ids.treat(record, counts, reject)
            if kept is not None:
                yield kept


class _Head(NamedTuple):
    """Keys of a record by which ids and sets are compared.

    Args:
        id: of a record.
        place: of it.
        lines: that it became.
        record: itself, where it became something else.
    """

    id: str
    place: str
    lines: int
    record: JsonObject | None = None


_heads = msgspec.json.Decoder(_Head)


def input_files(names: Iterable[str], folders: bool = False) -> Iterator[InputFile]:
    """Yield files as parts; names and sizes tell them from others.

    Args:
        names: of files and folders.
        folders: whether each file in a folder is a part, with the option `folder`.
    """
    digest = blake2b(digest_size=16)
    planned: list[tuple[str, JsonObject]] = []
    for name in names:
        files = list(folder_files(name)) if folders and name != STDIN else []
        planned += [(file, {"folder": name}) for file in files] or [(name, {})]
    for number, (name, more) in enumerate(planned):
        size = Path(name).stat().st_size if Path(name).is_file() else 0
        digest.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
        yield InputFile(number, name, digest.hexdigest(), more)


class FileWorker:
    """Worker that reads files.

    Args:
        read: yields the records of a file.
        changes: to these.
        account: proves that they hold the text of the file; None if nobody asks for that.
    """

    def __init__(self, read: Reader, changes: RecordChanges,
                 account: Account | None = None) -> None:
        self._read, self._changes, self._account = read, changes, account

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
            records = self._read((file.name,), counts=counts, reject=rejects.append, **file.options)
            if self._account is not None:
                records = self._account(records, file.name, counts)
            for record in self._changes.made(records, rejects.append):
                made = list(self._changes.split([record], counts, rejects.append))
                heads.append(_Head(record["id"], record.place, len(made),
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
    """Records of all files, in their order, and duplicate ids.

    Args:
        duplicates: what to do with a record whose id came before.
        changes: that workers made to the records.
    """

    def __init__(self, duplicates: Duplicates, changes: RecordChanges) -> None:
        self._ids, self._changes = UniqueIds(duplicates), changes

    def resume(self, run: PassRun) -> None:
        """Look at what an interrupted run has written."""
        for head in map(_heads.decode, run.done(ASIDE)):
            self._ids.add(head.id, head.place)

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
            made = self._changes.split([kept], Counter(), lambda error: None)
            lines = [encode_lines([one]) for one in made]
        return head._replace(id=kept["id"]), lines
