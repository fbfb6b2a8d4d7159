"""Duplicate ids, found exactly in little memory."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from enum import StrEnum

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import Record

_CACHE = 64 * 1024  # kibibytes; the rest goes to a temporary file


class Duplicates(StrEnum):
    """Treatment of a record whose id came before."""

    REFUSE = "refuse"
    DROP = "drop"
    RENAME = "rename"
    KEEP = "keep"


def with_unique_ids(records: Iterable[Record], duplicates: Duplicates = Duplicates.REFUSE,
                    counts: Counter[str] | None = None,
                    reject: Reject = refuse) -> Iterator[Record]:
    """Pass records on and treat those whose id came before.

    All ids go to a temporary SQLite database, which keeps 64 MiB in memory and the rest in a file
    that is gone afterwards; nothing is guessed.

    Args:
        records: records of any number.
        duplicates: REFUSE hands later ones to `reject`, DROP leaves them out, RENAME appends `-2`,
            `-3` and so on, KEEP passes them on.
        counts: counts the later ones, by what was done.
        reject: receives later ones under REFUSE.
    """
    counts = Counter() if counts is None else counts
    with closing(sqlite3.connect("", isolation_level=None)) as ids:
        ids.execute(f"PRAGMA cache_size = -{_CACHE}")
        ids.execute("PRAGMA journal_mode = OFF")
        ids.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")
        ids.execute("BEGIN")
        for record in records:
            if _is_new(ids, record["id"], record.place) or duplicates is Duplicates.KEEP:
                yield record
            elif duplicates is Duplicates.REFUSE:
                first = ids.execute("SELECT place FROM seen WHERE id = ?",
                                    [record["id"]]).fetchone()[0]
                reject(RecordError(
                    record.place, f"found the id {record['id']!r} once more, after {first}; "
                    f"{setting('duplicates')} drop, rename or keep decides what to do with such "
                    "records", record))
            elif duplicates is Duplicates.DROP:
                counts["records with an id that came before left out"] += 1
            else:
                counts["records renamed, their id came before"] += 1
                yield _renamed(ids, record)


def _is_new(ids: sqlite3.Connection, wanted: str, place: str) -> bool:
    return ids.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (wanted, place)).rowcount == 1


def _renamed(ids: sqlite3.Connection, record: Record) -> Record:
    number = 2
    while not _is_new(ids, f"{record['id']}-{number}", record.place):
        number += 1
    return record.replace(id=f"{record['id']}-{number}")
