"""Duplicate ids, found exactly in little memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import count
from typing import Literal

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.output import temporary_database
from bmtools.records import Record

Duplicates = Literal["refuse", "drop", "rename", "keep"]


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
