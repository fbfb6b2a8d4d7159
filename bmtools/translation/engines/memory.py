"""Engine on a translation memory: equal or similar sentences, another engine for the rest."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence

import numpy as np

from bmtools.io.provenance.licences import combine
from bmtools.io.provenance.manifest import hash_file
from bmtools.translation.bilingual import read_pairs
from bmtools.translation.engines.engine import (
    NOTHING_NEW,
    Layer,
    Translation,
    Translator,
)
from bmtools.translation.settings import EngineConfig

_NUMBER = r"\d+(?:[.,]\d+)*"
_NUMBERS = re.compile(rf"(?<!\w){_NUMBER}(?!\w)")
_TOKENS = re.compile(rf"(?P<number>(?<!\w){_NUMBER}(?!\w))|\w+|[^\w\s]")
_ANY_NUMBER = "0"
_SEPARATORS = str.maketrans(".,", ",.")
_FINAL = ".!?:;,…" + "".join(filter(str.isspace, map(chr, range(0x3001))))


class MemoryTranslator(Translator):
    """Translator that looks sentences up in a TMX or TSV file.

    A sentence is found as it is, apart from white space, or else without regard to case and
    final punctuation. Where a source occurs twice, its first translation counts.

    Args:
        config: the file, and the least similarity of what is found beyond that, see
            `SimilarSentences`.
    """

    def __init__(self, config: EngineConfig) -> None:
        assert config.memory is not None
        super().__init__(config, memory=config.memory.name)
        languages = config.source_lang, config.target_lang
        self.name = "memory"
        self.fingerprint = f"memory {hash_file(config.memory)} {languages} " \
                           f"{config.memory_threshold}"
        self._exact: dict[str, str] = {}
        self._loose: dict[str, str] = {}
        for sentence, translation in read_pairs(config.memory, *languages):
            self._exact.setdefault(sentence, translation)
            self._loose.setdefault(sentence.rstrip(_FINAL).casefold(), translation)
        self._similar = SimilarSentences(self._exact, config.memory_threshold) \
            if config.memory_threshold else None

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Look sentences up."""
        found = [self._find(sentence) for sentence in sentences]
        if not attempt:
            self.counts["fuzzy"] += sum(bool(one.flags) for one in found)
        return found

    def _find(self, sentence: str) -> Translation:
        found = self._exact.get(sentence)
        bare = sentence.rstrip(_FINAL)
        if found is None and (loose := self._loose.get(bare.casefold())) is not None:
            # The final punctuation and the initial capital are those of the sentence.
            found = loose.rstrip(_FINAL) + sentence[len(bare):]
            found = found[:1].upper() + found[1:] if sentence[:1].isupper() else found
        if found is not None:
            return Translation(found, engine=self.name)
        if self._similar and (found := self._similar.find(sentence)) is not None:
            return Translation(found, flags=("fuzzy-match",), engine=self.name)
        return Translation("", fault=f"not in {self.config.memory}; add it there")


class SimilarSentences:
    """Index of the sentences of a memory.

    Similarity is that of translators' tools: one minus the words, numbers and signs to insert,
    delete or replace, as a share of the longer sentence; case is ignored and all numbers are
    alike. Only sentences of a similar length that share enough words are compared so.

    Args:
        pairs: translations by sentence.
        threshold: least similarity, above 0.
    """

    def __init__(self, pairs: Mapping[str, str], threshold: float) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        self._threshold = threshold - 1e-9
        self._pairs = list(pairs.items())
        # Words with how often they came before, so that products count those that are shared.
        self._vectorizer = CountVectorizer(analyzer=_numbered, binary=True)
        vectors = self._vectorizer.fit_transform(pairs)
        self._lengths = np.asarray(vectors.sum(axis=1)).ravel()
        self._vectors = vectors.tocsc()

    def find(self, sentence: str) -> str | None:
        """Find the translation of the most similar sentence whose numbers can be exchanged."""
        words = _words(sentence)
        own = self._vectorizer.transform([sentence])
        shared = np.asarray(self._vectors[:, own.indices].sum(axis=1)).ravel()
        longer = np.maximum(self._lengths, len(words))
        ranked = []
        for place in np.flatnonzero(shared >= self._threshold * longer).tolist():
            distance = edit_distance(words, _words(self._pairs[place][0]))
            similarity = 1 - distance / max(len(words), self._lengths[place])
            if similarity >= self._threshold:
                ranked.append((-similarity, place))
        return next((found for _, place in sorted(ranked) if (found := with_numbers(
            sentence, *self._pairs[place])) is not None), None)


def _words(sentence: str) -> list[str]:
    """Return words, numbers and signs; all numbers are one word."""
    return [_ANY_NUMBER if found["number"] else found[0]
            for found in _TOKENS.finditer(sentence.casefold())]


def _numbered(sentence: str) -> list[tuple[str, int]]:
    """Return words, each with how often it came before."""
    seen: Counter[str] = Counter()
    numbered = []
    for word in _words(sentence):
        numbered.append((word, seen[word]))
        seen[word] += 1
    return numbered


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Count the words to insert, delete or replace between two sequences."""
    columns = np.arange(len(right) + 1)
    row = columns
    for number, word in enumerate(left, 1):
        changed = np.minimum(row[1:] + 1, row[:-1] + [word != other for other in right])
        row = np.minimum.accumulate(np.append(number, changed) - columns) + columns
    return int(row[-1])


def with_numbers(sentence: str, similar: str, translation: str) -> str | None:
    """Put the numbers of a sentence into the translation of a similar one.

    Returns:
        None where it is not certain which number of the translation is which.
    """
    new, old = _NUMBERS.findall(sentence), _NUMBERS.findall(similar)
    if new == old:
        return translation
    if len(new) != len(old):
        return None
    waiting: dict[str, deque[tuple[str, str]]] = defaultdict(deque)
    for before, after in zip(old, new, strict=True):
        waiting[before.replace(",", ".")].append((before, after))

    def exchange(found: re.Match[str]) -> str:
        queue = waiting[found[0].replace(",", ".")]
        before, after = queue.popleft() if queue else ("", "")
        if not after or (before.isdecimal() and not after.isdecimal()):
            raise LookupError  # a number of its own, or one whose decimal sign is not known
        return after if found[0] == before else after.translate(_SEPARATORS)

    try:
        exchanged = _NUMBERS.sub(exchange, translation)
    except LookupError:
        return None
    return None if any(waiting.values()) else exchanged


class MemoryFirst(Layer):
    """Translator that asks a memory, and an engine about the rest.

    Where a first attempt came from the memory, the second is the engine's first; where it came from
    the engine, the last attempt has nothing new.

    Args:
        memory: gives a fault for what it does not hold.
        engine: for those sentences.
    """

    def __init__(self, memory: Translator, engine: Translator) -> None:
        super().__init__(engine, memory.fingerprint)
        self._memory = memory
        self.details = {**engine.details, **memory.details}
        self.licence = combine(engine.licence, memory.licence)
        self.attempts += 1

    @property
    def counts(self) -> Counter[str]:
        return super().counts + self._memory.counts

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences by the memory, and what it lacks by the engine."""
        found = self._memory.translate(sentences, attempt)
        known = [number for number, one in enumerate(found) if not one.fault]
        unknown = [number for number, one in enumerate(found) if one.fault]
        if attempt:
            self._ask(found, sentences, known, attempt - 1)
        else:
            self.own_counts["memory"] += len(known)
        self._ask(found, sentences, unknown, attempt)
        return found

    def _ask(self, found: list[Translation], sentences: Sequence[str], numbers: list[int],
             attempt: int) -> None:
        """Put the engine's translations of some sentences in their places."""
        if attempt == self.engine.attempts:
            for number in numbers:
                found[number] = NOTHING_NEW
        elif numbers:
            translations = self.engine.translate([sentences[one] for one in numbers], attempt)
            for number, translation in zip(numbers, translations, strict=True):
                found[number] = translation
