"""Cache of translated sentences, and the batches that fill it.

The cache is an SQLite database. It survives kills and accepts several writers.

A key is a hash of the sentence and of everything that its translation depends on, so other settings
never find a stale translation. The stored translations are final: they have been checked, and have
their flags and log-probability.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from bmtools.io.shared_database import SharedDatabase
from bmtools.translation.engines.engine import Translation, Translator

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
_MOST_KNOWN = 100_000
_MOST_WAITING = 10_000
_decode = msgspec.msgpack.Decoder(Translation).decode
_encode = msgspec.msgpack.Encoder().encode


class CachedTranslation(NamedTuple):
    """A translation, and whether an earlier run made it."""

    translation: Translation
    is_earlier: bool


class SentenceCache:
    """Translations by sentence, for one engine and its settings.

    A batch is stored completely or not at all.

    Args:
        fingerprint: text that differs whenever translations might differ.
        path: path of the database; None for a temporary database.
        run: name of the run; a resumed run recognizes its own batches by it.
        label: name of the database for messages.
    """

    def __init__(self, fingerprint: str, path: Path | None = None, run: str = "",
                 label: str = "") -> None:
        self._hash = blake2b(f"{fingerprint}\0".encode(), digest_size=_KEY_BYTES)
        self._shared = SharedDatabase(path, _KIND, _TABLES, "sentences", label)
        self._database = self._shared.connection
        name = (run or os.urandom(8).hex(),)
        with self._shared.failures(), self._shared.transaction():
            self._database.execute("INSERT OR IGNORE INTO runs (name) VALUES (?)", name)
            [self._run] = self._database.execute(
                "SELECT id FROM runs WHERE name = ?", name).fetchone()

    def get(self, sentence: str) -> CachedTranslation | None:
        """Look up a sentence, even if it could not be translated; None if it is new."""
        with self._shared.failures():
            row = self._database.execute("SELECT run, translation FROM sentences WHERE key = ?",
                                         (self._key(sentence),)).fetchone()
        return row and CachedTranslation(_decode(row[1]), row[0] != self._run)

    def put(self, sentences: Sequence[str], translations: Sequence[Translation],
            counts: Counter[str]) -> None:
        """Store a batch.

        Args:
            sentences: different sentences.
            translations: their translations.
            counts: counts of the engine in this run so far.
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
        """Return the number of sentences translated in this run, and the engine's counts."""
        with self._shared.failures():
            translated, counts = self._database.execute(
                "SELECT translated, counts FROM runs WHERE id = ?", (self._run,)).fetchone()
        return translated, Counter(msgspec.json.decode(counts, type=dict[str, int]))

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _key(self, sentence: str) -> bytes:
        key = self._hash.copy()
        key.update(sentence.encode("utf-8", "surrogatepass"))
        return key.digest()


class SentenceBatches:
    """Translations by sentence, made in batches of new sentences.

    The batches depend only on the order of the sentences, and the cache stores complete batches.
    A resumed run therefore forms the same batches as an uninterrupted run. Its translations are
    the same even if the other sentences of a batch influence the engine's arithmetic. Sentences
    that an earlier run could not translate are tried again. Memory holds the newest translations.

    Args:
        translator: translates batches; a batch's translations depend only on the batch.
        cache: cache of the translator's translations.

    Attributes:
        completed: number of translated batches.
        translated: number of sentences translated in this run.
    """

    def __init__(self, translator: Translator, cache: SentenceCache) -> None:
        self._translator = translator
        self.completed = 0
        self._cache = cache
        self._size = translator.batch_sentences
        self.translated, self._counted = cache.counts()
        self._known: OrderedDict[str, CachedTranslation] = OrderedDict()
        self._numbers: dict[str, int] = {}  # batch of each sentence that is being translated
        self._new: list[str] = []
        self._waiting = 0  # texts since the first new sentence
        self._submitted: deque[tuple[list[str], Callable[[], list[Translation]]]] = deque()

    def add(self, sentences: Iterable[str]) -> int:
        """Add a text's sentences, and return how many batches must be completed for them."""
        needed = 0
        self._waiting += bool(self._new)
        if self._waiting > _MOST_WAITING:  # texts without a new sentence would fill the memory
            self._submit()
        for sentence in sentences:
            if sentence not in self._numbers and self._is_new(sentence):
                self._numbers[sentence] = self.completed + len(self._submitted) + 1
                self._new.append(sentence)
            needed = max(needed, self._numbers.get(sentence, 0))
            if len(self._new) == self._size:
                self._submit()
        return needed

    def finish(self) -> None:
        """Complete all batches; the last one may be small."""
        if self._new:
            self._submit()
        while self._submitted:
            self._collect()

    def _is_new(self, sentence: str) -> bool:
        found = None if sentence in self._known else self._cache.get(sentence)
        if found and not (found.is_earlier and found.translation.fault):
            self._remember(sentence, found)
        return sentence not in self._known

    def _remember(self, sentence: str, found: CachedTranslation) -> None:
        self._known[sentence] = found
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def __getitem__(self, sentence: str) -> CachedTranslation:
        found = self._known.get(sentence) or self._cache.get(sentence)
        if found is None:
            raise KeyError(sentence)
        return found

    def counts(self) -> Counter[str]:
        """Return the engine's counts, including counts before an interruption."""
        return self._counted + self._translator.counts

    def _submit(self) -> None:
        self._submitted.append((self._new, self._translator.submit(self._new)))
        self._new, self._waiting = [], 0
        while len(self._submitted) > self._translator.ahead:
            self._collect()

    def _collect(self) -> None:
        """Wait for the oldest batch."""
        sentences, wait = self._submitted.popleft()
        translations = wait()
        self._cache.put(sentences, translations, self.counts())
        self.translated += len(sentences)
        for sentence, translation in zip(sentences, translations, strict=True):
            self._remember(sentence, CachedTranslation(translation, False))
            del self._numbers[sentence]
        self.completed += 1
