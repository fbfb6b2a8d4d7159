"""Duplicate ids, found exactly in little memory."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import count
from typing import Literal

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import Record

Duplicates = Literal["refuse", "drop", "rename", "keep"]
_CACHE = 64 * 1024  # kibibytes; the rest goes to a temporary file


def with_unique_ids(records: Iterable[Record], duplicates: Duplicates = "refuse",
                    counts: Counter[str] | None = None,
                    reject: Reject = refuse) -> Iterator[Record]:
    """Pass records on and treat those whose id came before.

    All ids go to a temporary SQLite database, which keeps 64 MiB in memory and the rest in a file
    that is gone afterwards; nothing is guessed.

    Args:
        records: records of any number.
        duplicates: refuse hands later ones to `reject`, drop leaves them out, rename appends `-2`,
            `-3` and so on, keep passes them on.
        counts: counts the later ones, by treatment.
        reject: receives later ones under refuse.
    """
    counts = Counter() if counts is None else counts
    with closing(sqlite3.connect("", isolation_level=None)) as ids:
        ids.execute(f"PRAGMA cache_size = -{_CACHE}")
        ids.execute("PRAGMA journal_mode = OFF")
        ids.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")
        ids.execute("BEGIN")

        def add(name: str, place: str) -> bool:
            """Add an id; return whether it is new."""
            return ids.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)",
                               (name, place)).rowcount == 1

        for record in records:
            if add(record["id"], record.place) or duplicates == "keep":
                yield record
            elif duplicates == "refuse":
                first, = ids.execute("SELECT place FROM seen WHERE id = ?",
                                     [record["id"]]).fetchone()
                reject(RecordError(
                    record.place, f"found the id {record['id']!r} once more, after {first}; "
                    f"{setting('duplicates')} drop, rename or keep decides what to do with such "
                    "records", record))
            elif duplicates == "drop":
                counts["records with an id that came before left out"] += 1
            else:
                counts["records renamed, their id came before"] += 1
                new_ids = (f"{record['id']}-{number}" for number in count(2))
                yield record.replace(id=next(new for new in new_ids if add(new, record.place)))
