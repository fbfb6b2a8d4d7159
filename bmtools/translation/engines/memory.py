"""Engine on a translation memory: equal or similar sentences, another engine for the rest."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from bmtools.io.provenance.licences import combine
from bmtools.io.provenance.manifest import hash_file
from bmtools.translation.bilingual import read_pairs
from bmtools.translation.engines.engine import NOTHING_NEW, Layer, Translation, Translator

_NUMBER = r"\d+(?:[.,]\d+)*"
_NUMBERS = re.compile(rf"(?<!\w){_NUMBER}(?!\w)")
_TOKENS = re.compile(rf"(?P<number>(?<!\w){_NUMBER}(?!\w))|\w+|[^\w\s]")
_ANY_NUMBER = "0"
_SEPARATORS = str.maketrans(".,", ",.")
Word = TypeVar("Word", int, str)
_FINAL = ".!?:;,…" + "".join(filter(str.isspace, map(chr, range(0x3001))))


class MemoryTranslator:
    """Translator that looks sentences up in a TMX or TSV file.

    A sentence is found as it is, apart from white space, or else without regard to case and
    final punctuation. Where a source occurs twice, its first translation counts.

    Args:
        path: of the file.
        source: ISO 639-1 code.
        target: ISO 639-1 code.
        threshold: least similarity of what is found beyond that, see `SimilarSentences`; None
            takes no similar sentences.
    """

    name = "memory"
    marks_unknown = False
    batch_sentences = 2000
    attempts = 1
    licence = ""

    def __init__(self, path: Path, source: str, target: str,
                 threshold: float | None = None) -> None:
        self.details = {"memory": path.name}
        self.counts: Counter[str] = Counter()
        self.fingerprint = f"memory {hash_file(path)} {source} {target} {threshold}"
        self._path = path
        self._exact: dict[str, str] = {}
        self._loose: dict[str, str] = {}
        for sentence, translation in read_pairs(path, source, target):
            self._exact.setdefault(sentence, translation)
            self._loose.setdefault(sentence.rstrip(_FINAL).casefold(), translation)
        self._similar = SimilarSentences(self._exact, threshold) if threshold else None

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
        return Translation("", fault=f"not in {self._path}; add it there")


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
        self._threshold = threshold
        numbers: dict[tuple[str, int], int] = {}
        numbered = [[numbers.setdefault(word, len(numbers)) for word in _words(sentence)]
                    for sentence in pairs]
        order = np.argsort([len(words) for words in numbered], kind="stable")
        listed = list(pairs.items())
        self._pairs = [(int(place), *listed[place]) for place in order]
        self._lengths = np.array([len(numbered[place]) for place in order], dtype=np.int64)
        self._stops = np.cumsum(self._lengths)
        self._words = np.fromiter((word for place in order for word in numbered[place]), np.int32)
        self._numbers, self._spelled = numbers, [word for word, _ in numbers]
        # The sentences of each word, one word after the other.
        owners = np.repeat(np.arange(len(order), dtype=np.int32), self._lengths)
        self._owners = owners[np.argsort(self._words, kind="stable")]
        self._ends = np.cumsum(np.bincount(self._words, minlength=len(numbers)))

    def find(self, sentence: str) -> str | None:
        """Find the translation of the most similar sentence whose numbers can be exchanged."""
        ranked = sorted((-similarity, self._pairs[place])
                        for place, similarity in self._similar(_words(sentence)))
        return next((found for _, (_, *pair) in ranked
                     if (found := with_numbers(sentence, *pair)) is not None), None)

    def _similar(self, words: Sequence[tuple[str, int]]) -> Iterator[tuple[int, float]]:
        """Yield places in the memory, and their similarity."""
        length, threshold = len(words), self._threshold - 1e-9
        low, high = np.searchsorted(self._lengths, (length * threshold, length / threshold))
        known = [self._numbers[word] for word in words if word in self._numbers]
        parts = [self._owners[self._ends[one - 1] if one else 0:self._ends[one]] for one in known]
        parts = [part[slice(*np.searchsorted(part, (low, high)))] for part in parts]
        shared = np.bincount(np.concatenate([*parts, np.empty(0, dtype=np.int32)]) - low,
                             minlength=high - low)
        longer = np.maximum(self._lengths[low:high], length)
        positions = _positions([word for word, _ in words])
        for place in low + np.flatnonzero(shared >= threshold * longer):
            stop = self._stops[place]
            other = [self._spelled[number] for number in
                     self._words[stop - self._lengths[place]:stop]]
            similarity = 1 - edit_distance(positions, length, other) / max(length, len(other))
            if similarity >= threshold:
                yield place, similarity


def _words(sentence: str) -> list[tuple[str, int]]:
    """Return words, numbers and signs, each with how often it came before."""
    seen: Counter[str] = Counter()
    words = []
    for found in _TOKENS.finditer(sentence.casefold()):
        word = _ANY_NUMBER if found["number"] else found[0]
        words.append((word, seen[word]))
        seen[word] += 1
    return words


def _positions(words: Sequence[Word]) -> dict[Word, int]:
    """Return bits for the positions of each word."""
    positions: dict[Word, int] = {}
    for position, word in enumerate(words):
        positions[word] = positions.get(word, 0) | 1 << position
    return positions


def edit_distance(positions: Mapping[Word, int], length: int, other: Sequence[Word]) -> int:
    """Count insertions, deletions and replacements between two sequences.

    Source: Hyyrö 2003, bit-parallel; an operation on integers does a whole column.

    Args:
        positions: bits for the positions of each word of the first sequence.
        length: of the first sequence.
        other: the second sequence.
    """
    mask = (1 << length) - 1
    more, less, distance = mask, 0, length
    for word in other:
        same = positions.get(word, 0)
        vertical = same | less
        same = (((same & more) + more) ^ more) | same
        above, below = less | ~(same | more), more & same
        distance += (above >> length - 1 & 1) - (below >> length - 1 & 1) if length else 1
        above = above << 1 | 1
        more, less = (below << 1 | ~(vertical | above)) & mask, above & vertical & mask
    return distance


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
