"""Cache of translated sentences: an SQLite database, which survives kills and takes many writers.

A key is a hash of the sentence and of all that its translation depends on, so that other settings
never find a stale one. What is stored is final: checked, with its flags and its log-probability.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from bmtools.io.shared_database import SharedDatabase
from bmtools.translation.engines.engine import Translation

DATABASE = "sentences.sqlite"
_KEY_BYTES = 16
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
        self._hash = blake2b(f"{fingerprint}\0".encode(), digest_size=_KEY_BYTES)
        self._shared = SharedDatabase(path, _KIND, _TABLES, "sentences", label)
        self._database = self._shared.connection
        with self._shared.failures():
            self._run = self._number(run or os.urandom(8).hex())

    def _number(self, name: str) -> int:
        """Return the number of a run, a new one for a new name."""
        with self._shared.transaction():
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
            raise self._shared.explained(error) from error
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
        with self._shared.failures(), self._shared.transaction():
            self._database.executemany(
                "INSERT OR REPLACE INTO sentences VALUES (?, ?, ?)",
                ((self._key(sentence), self._run, _encode(translation))
                 for sentence, translation in zip(sentences, translations, strict=True)))
            self._database.execute(
                "UPDATE runs SET translated = translated + ?, counts = ? WHERE id = ?",
                (len(sentences), msgspec.json.encode(counts).decode(), self._run))

    def counts(self) -> tuple[int, Counter[str]]:
        """Return how many sentences this run has translated, and its engine's counts."""
        with self._shared.failures():
            translated, counts = self._database.execute(
                "SELECT translated, counts FROM runs WHERE id = ?", (self._run,)).fetchone()
        return translated, Counter(msgspec.json.decode(counts, type=dict[str, int]))

    def size(self) -> tuple[int, int]:
        """Return how many sentences are stored, and their bytes on the disk."""
        with self._shared.failures():
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
