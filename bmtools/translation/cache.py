"""Cache of translated sentences: an SQLite database, which survives kills and takes many writers.

A key is a hash of the sentence and of all that its translation depends on, so that other settings
never find a stale one. What is stored is final: checked, with its flags and its log-probability.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from bmtools.errors import BmtoolsError, DataError
from bmtools.io.failures import cannot_write
from bmtools.translation.engines.engine import Translation

DATABASE = "sentences.sqlite"
_KEY_BYTES = 16
_PATIENCE_SECONDS = 60
_KIND = 0x424D5453  # marks a database of this kind
_TABLES = """
CREATE TABLE IF NOT EXISTS sentences
    (key BLOB PRIMARY KEY, run INTEGER NOT NULL, translation BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs
    (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, translated INTEGER NOT NULL DEFAULT 0,
     counts TEXT NOT NULL DEFAULT '{}');
"""
_decode = msgspec.msgpack.Decoder(Translation).decode
_encode = msgspec.msgpack.Encoder().encode


class CachedTranslation(NamedTuple):
    """A translation, and whether an earlier run made it."""

    translation: Translation
    is_earlier: bool


class SentenceCache:
    """Translations by sentence, those of one engine and its settings.

    A batch is stored whole or not at all. Sentences that an earlier run could not translate are
    tried again.

    Args:
        fingerprint: text that differs wherever translations might.
        path: of the database; None for a temporary one.
        run: name of the run, under which its own batches are found again after a kill.
        label: name of the database for messages.
        is_shared: whether other runs use it too.
    """

    def __init__(self, fingerprint: str, path: Path | None = None, run: str = "",
                 label: str = "", is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._label = label or str(path or "the temporary cache")
        self._hash = blake2b(f"{fingerprint}\0".encode(), digest_size=_KEY_BYTES)
        with self._failures():
            self._database = sqlite3.connect(path or "", _PATIENCE_SECONDS, isolation_level=None,
                                             check_same_thread=False)
            self._prepare(is_kept=path is not None)
            self._run = self._number(run or os.urandom(8).hex())

    def _prepare(self, is_kept: bool) -> None:
        execute = self._database.execute
        [kind], [tables] = (execute(f"PRAGMA {name}").fetchone()
                            for name in ("application_id", "schema_version"))
        if tables and kind != _KIND:
            raise sqlite3.DatabaseError("it is a database of another program")
        # Whole after a kill of the process; a power cut may cost the last batches.
        execute(f"PRAGMA journal_mode = {'wal' if is_kept else 'memory'}")
        execute(f"PRAGMA synchronous = {'normal' if is_kept else 'off'}")
        execute(f"PRAGMA application_id = {_KIND}")
        self._database.executescript(_TABLES)

    def _number(self, name: str) -> int:
        """Return the number of a run, a new one for a new name."""
        with self._transaction():
            self._database.execute("INSERT OR IGNORE INTO runs (name) VALUES (?)", (name,))
            [number] = self._database.execute(
                "SELECT id FROM runs WHERE name = ?", (name,)).fetchone()
        return int(number)

    def get(self, sentence: str) -> CachedTranslation | None:
        """Look a sentence up; None where it has to be translated."""
        try:
            row = self._database.execute("SELECT run, translation FROM sentences WHERE key = ?",
                                         (self._key(sentence),)).fetchone()
        except sqlite3.DatabaseError as error:
            raise _explained(self._label, error) from error
        if row is None:
            return None
        translation, is_earlier = _decode(row[1]), row[0] != self._run
        return None if translation.fault and is_earlier else \
            CachedTranslation(translation, is_earlier)

    def put(self, sentences: Sequence[str], translations: Sequence[Translation],
            counts: Counter[str]) -> None:
        """Store a batch.

        Args:
            sentences: different ones.
            translations: of them.
            counts: of the engine, in this run so far.
        """
        with self._failures(), self._transaction():
            self._database.executemany(
                "INSERT OR REPLACE INTO sentences VALUES (?, ?, ?)",
                ((self._key(sentence), self._run, _encode(translation))
                 for sentence, translation in zip(sentences, translations, strict=True)))
            self._database.execute(
                "UPDATE runs SET translated = translated + ?, counts = ? WHERE id = ?",
                (len(sentences), msgspec.json.encode(counts).decode(), self._run))

    def counts(self) -> tuple[int, Counter[str]]:
        """Return how many sentences this run has translated, and its engine's counts."""
        with self._failures():
            translated, counts = self._database.execute(
                "SELECT translated, counts FROM runs WHERE id = ?", (self._run,)).fetchone()
        return translated, Counter(msgspec.json.decode(counts, type=dict[str, int]))

    def size(self) -> tuple[int, int]:
        """Return how many sentences are stored, and their bytes on the disk."""
        with self._failures():
            [sentences] = self._database.execute("SELECT count(*) FROM sentences").fetchone()
            pages, page_bytes = (self._database.execute(f"PRAGMA {name}").fetchone()[0]
                                 for name in ("page_count", "page_size"))
        return sentences, pages * page_bytes

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _key(self, sentence: str) -> bytes:
        key = self._hash.copy()
        key.update(sentence.encode("utf-8", "surrogatepass"))
        return key.digest()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._database.in_transaction:  # a full disk may have ended it
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Say what failed in one line, with the way out."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _explained(self._label, error) from error


def _explained(label: str, error: sqlite3.DatabaseError) -> BmtoolsError:
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith("SQLITE_FULL"):
        return cannot_write(label, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    if code.startswith("SQLITE_BUSY"):
        return BmtoolsError(f"{label}: another process has kept it locked for "
                            f"{_PATIENCE_SECONDS} seconds; wait for it, or name another cache")
    if code.startswith("SQLITE_IOERR"):
        return BmtoolsError(f"{label}: cannot be written or read ({error}, such as of a full disk "
                            "or a quota); make room, or name another place")
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
        return BmtoolsError(f"{label}: cannot be written ({error}); name another cache")
    return DataError(f"{label}: cannot be used as a cache of sentences ({error}); remove it, or "
                     "name another one")
