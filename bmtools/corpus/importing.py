"""Import of records: keys set by the user, duplicate ids, and workers that read one file each."""

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
"""Function that yields the records of files; its arguments are names, `counts` and `reject`."""
Account = Callable[[Iterator[Record], str, Counter[str]], Iterator[Record]]
"""Function that checks that records contain the text of a file, and counts its characters."""


@dataclass(frozen=True)
class RecordChanges:
    """Changes to the records of all formats.

    Args:
        given: values of keys to set.
        sentences: whether records are split into sentences.
        abbreviations: added to the abbreviations known for the languages.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    sentences: bool = False
    abbreviations: Abbreviations | None = None

    def made(self, records: Iterable[Record], reject: Reject) -> Iterator[Record]:
        """Yield records with the given keys.

        Reject records that are then invalid, or whose licence requires more than the given one.
        """
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
        """Yield the records, or their sentences."""
        if not self.sentences:
            yield from records
            return
        from bmtools.text.sentences import sentence_records

        yield from sentence_records(records, counts, reject, self.abbreviations)


class UniqueIds:
    """Ids of records so far, and handling of records with a repeated id.

    All ids are stored in a temporary SQLite database, which keeps 64 MiB in memory and the rest in
    a file that is deleted afterwards. So results are exact.

    Args:
        duplicates: handling of later records with the same id. `refuse` passes them to `reject`,
            `drop` leaves them out, `rename` appends `-2`, `-3` and so on, `keep` keeps them.
    """

    def __init__(self, duplicates: Duplicates = "refuse") -> None:
        self._duplicates = duplicates
        self._ids = temporary_database()
        self._ids.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")

    def add(self, name: str, place: str) -> bool:
        """Add an id; return whether its record can be kept unchanged."""
        return self._ids.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)",
                                 (name, place)).rowcount == 1 or self._duplicates == "keep"

    def treat(self, record: Record, counts: Counter[str], reject: Reject) -> Record | None:
        """Handle a record with a repeated id; return the record to keep, if any.

        Args:
            record: record for which `add` returned False.
            counts: counts the record by the way in which it was handled.
            reject: receives the record if duplicates are refused.
        """
        if self._duplicates == "drop":
            counts["records with a repeated id left out"] += 1
        elif self._duplicates == "rename":
            counts["records renamed because of a repeated id"] += 1
            new_ids = (f"{record['id']}-{number}" for number in count(2))
            return record.replace(id=next(new for new in new_ids if self.add(new, record.place)))
        else:
            first, = self._ids.execute("SELECT place FROM seen WHERE id = ?",
                                       [record["id"]]).fetchone()
            reject(RecordError(
                record.place, f"found the id {record['id']!r} again, after {first}; set "
                f"{setting('duplicates')} drop, rename or keep to accept such records", record))
        return None

    def close(self) -> None:
        """Remove the database."""
        self._ids.close()


def with_unique_ids(records: Iterable[Record], duplicates: Duplicates = "refuse",
                    counts: Counter[str] | None = None,
                    reject: Reject = refuse) -> Iterator[Record]:
    """Pass records on, and handle records with a repeated id; see `UniqueIds`."""
    counts = Counter() if counts is None else counts
    with closing(UniqueIds(duplicates)) as ids:
        for record in records:
            kept = record if ids.add(record["id"], record.place) else \
                ids.treat(record, counts, reject)
            if kept is not None:
                yield kept


class _Head(NamedTuple):
    """Keys of a record that are needed to find duplicate ids.

    Args:
        id: id of the record.
        place: place of the record.
        lines: number of lines made from the record.
        record: the record itself, if it was split into sentences.
    """

    id: str
    place: str
    lines: int
    record: JsonObject | None = None


_heads = msgspec.json.Decoder(_Head)


def input_files(names: Iterable[str], folders: bool = False) -> Iterator[InputFile]:
    """Yield files as parts, with a digest of names and sizes to recognise them.

    Args:
        names: names of files and folders.
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
        changes: changes to these records.
        account: checks that the records contain the text of the file; None for no check.
    """

    def __init__(self, read: Reader, changes: RecordChanges,
                 account: Account | None = None) -> None:
        self._read, self._changes, self._account = read, changes, account

    def __call__(self, file: InputFile) -> Iterator[Outcome]:
        """Yield the records of a file in outcomes of about a megabyte."""
        counts, rejects = Counter[str](), list[RecordError]()
        heads, lines, size = list[_Head](), list[bytes](), 0
        # Pass records from a pipe on as they arrive.
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
    """Records of all files in order, with handling of duplicate ids.

    Args:
        duplicates: handling of records with a repeated id.
        changes: changes that workers made to the records.
    """

    def __init__(self, duplicates: Duplicates, changes: RecordChanges) -> None:
        self._ids, self._changes = UniqueIds(duplicates), changes

    def resume(self, run: PassRun) -> None:
        """Read the ids that an interrupted run has written."""
        for head in map(_heads.decode, run.done(ASIDE)):
            self._ids.add(head.id, head.place)

    def amend(self, outcome: Outcome) -> Outcome:
        """Remove or rename duplicates."""
        kept, written = list[_Head](), list[bytes]()
        lines = iter(outcome.lines.splitlines(keepends=True))
        changed = False
        for head in _heads.decode_lines(outcome.aside):
            own: Sequence[bytes] = list(islice(lines, head.lines))
            if not self._ids.add(head.id, head.place):
                head, own = self._handle_repeated(head, own, outcome)
                changed = True
            kept.append(head._replace(record=None))
            written += own
        if changed:
            outcome.lines, outcome.records = b"".join(written), len(written)
        outcome.aside = encode_lines(kept)
        return outcome

    def _handle_repeated(self, head: _Head, lines: Sequence[bytes],
               outcome: Outcome) -> tuple[_Head, Sequence[bytes]]:
        """Handle a record with a repeated id."""
        record = Record(head.record or msgspec.json.decode(lines[0]), place=head.place)
        kept = self._ids.treat(record, outcome.counts, outcome.reject)
        if kept is None:
            return head._replace(lines=0), ()
        if kept is not record:
            made = self._changes.split([kept], Counter(), lambda error: None)
            lines = [encode_lines([one]) for one in made]
        return head._replace(id=kept["id"]), lines
