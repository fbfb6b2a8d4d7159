"""Sentences in batches: each different one is translated once, and waits for its batch."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

from bmtools.translation.cache import CachedTranslation, SentenceCache
from bmtools.translation.engines.engine import BatchTranslator, Translation, Translator

_MOST_KNOWN = 100_000
_MOST_WAITING = 10_000


class SentenceBatches:
    """Translations by sentence, made in batches of new sentences.

    The batches depend on the order of the sentences alone. A cached batch is cached whole, so those
    of an interrupted run go on where it was, and an engine in whose arithmetic the neighbours of a
    sentence take part gives the same translations as without interruption. Memory holds the newest
    ones; all others are found in the cache.

    Args:
        translator: of batches; a batch's translations depend on the batch alone.
        cache: of the translator's translations.

    Attributes:
        completed: batches whose translations are there.
        translated: sentences of this run in them.
    """

    def __init__(self, translator: Translator, cache: SentenceCache) -> None:
        self._translator = translator
        self.completed = 0
        self._cache = cache
        self._size = translator.batch_sentences
        self.translated, self._counted = cache.counts()
        self._known: dict[str, CachedTranslation] = {}
        self._numbers: dict[str, int] = {}  # of the batches of sentences that are under way
        self._new: list[str] = []
        self._waiting = 0  # texts since the first of them
        self._submitted: deque[tuple[list[str], Callable[[], list[Translation]]]] = deque()

    def add(self, sentences: Iterable[str]) -> int:
        """Take a text's sentences, and return how many batches must be completed for them."""
        needed = 0
        self._waiting += bool(self._new)
        if self._waiting > _MOST_WAITING:  # texts without a new sentence, which memory holds
            self._submit()
        for sentence in sentences:
            if sentence not in self._numbers and self._find(sentence) is None:
                self._numbers[sentence] = self.completed + len(self._submitted) + 1
                self._new.append(sentence)
            needed = max(needed, self._numbers.get(sentence, 0))
            if len(self._new) == self._size:
                self._submit()
        return needed

    def finish(self) -> None:
        """Complete all batches; the last may be small."""
        if self._new:
            self._submit()
        while self._submitted:
            self._collect()

    def __getitem__(self, sentence: str) -> CachedTranslation:
        found = self._find(sentence)
        if found is None:
            raise KeyError(sentence)
        return found

    def counts(self) -> Counter[str]:
        """Return the engine's counts, those before an interruption included."""
        return self._counted + self._translator.counts

    def _find(self, sentence: str) -> CachedTranslation | None:
        if sentence not in self._known:
            found = self._cache.get(sentence)
            if found is None:
                return None
            self._known[sentence] = found
        return self._known[sentence]

    def _submit(self) -> None:
        engine, ahead = self._translator, 0
        wait: Callable[[], list[Translation]] = partial(engine.translate, self._new)
        if isinstance(engine, BatchTranslator):
            wait, ahead = engine.submit(self._new), engine.ahead
        self._submitted.append((self._new, wait))
        self._new, self._waiting = [], 0
        while len(self._submitted) > ahead:
            self._collect()

    def _collect(self) -> None:
        """Wait for the oldest batch."""
        sentences, wait = self._submitted.popleft()
        translations = wait()
        self._cache.put(sentences, translations, self.counts())
        self.translated += len(sentences)
        if len(self._known) > 2 * _MOST_KNOWN:
            self._known = dict(islice(self._known.items(), len(self._known) - _MOST_KNOWN, None))
        for sentence, translation in zip(sentences, translations, strict=True):
            self._known[sentence] = CachedTranslation(translation, False)
            del self._numbers[sentence]
        self.completed += 1
