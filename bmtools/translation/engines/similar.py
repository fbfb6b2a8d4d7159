"""Sentences of a translation memory that are similar to another: by words, numbers apart."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

_NUMBER = r"\d+(?:[.,]\d+)*"
_NUMBERS = re.compile(rf"(?<!\w){_NUMBER}(?!\w)")
_TOKENS = re.compile(rf"(?P<number>(?<!\w){_NUMBER}(?!\w))|\w+|[^\w\s]")
_ANY_NUMBER = "0"
_SEPARATORS = str.maketrans(".,", ",.")


class SimilarSentences:
    """Index of the sentences of a memory.

    Similarity is that of translators' tools: one minus the words, numbers and signs to insert,
    delete or replace, as a share of the longer sentence; case is ignored and all numbers are
    alike. Two sentences can reach the threshold only where their rarest words meet, which alone
    are indexed (prefix filter: Chaudhuri et al. 2006; Bayardo et al. 2007).

    Args:
        pairs: translations by sentence.
        threshold: least similarity, above 0.
    """

    def __init__(self, pairs: Mapping[str, str], threshold: float) -> None:
        self._threshold = threshold
        self._pairs = list(pairs.items())
        numbers: dict[str, int] = {}
        self._words = [[numbers.setdefault(word, len(numbers)) for word in _words(sentence)]
                       for sentence in pairs]
        self._numbers = numbers
        self._frequencies = Counter(word for words in self._words for word in words)
        self._places: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, words in enumerate(self._words):
            for word in self._rarest(words):
                self._places[word].append(place)

    def find(self, sentence: str) -> str | None:
        """Find the translation of the most similar sentence whose numbers can be exchanged."""
        words = [self._numbers.get(word, -1 - number)
                 for number, word in enumerate(_words(sentence))]
        ranked = sorted((-similarity, place) for place, similarity in self._similar(words))
        return next((found for _, place in ranked
                     if (found := with_numbers(sentence, *self._pairs[place])) is not None), None)

    def _similar(self, words: Sequence[int]) -> Iterator[tuple[int, float]]:
        """Yield places in the memory, and their similarity."""
        positions = _positions(words)
        for place in {place for word in self._rarest(words)
                      for place in self._places.get(word, ())}:
            other = self._words[place]
            longer, shorter = sorted((len(words), len(other)), reverse=True)
            if shorter >= self._threshold * longer:
                similarity = 1 - edit_distance(positions, len(words), other) / longer
                if similarity >= self._threshold - 1e-9:
                    yield place, similarity

    def _rarest(self, words: Sequence[int]) -> list[tuple[int, int]]:
        """Return the rarest words, each with how often it came before, that a similar one meets."""
        seen: Counter[int] = Counter()
        numbered = []
        for word in words:
            numbered.append((self._frequencies[word], word, seen[word]))
            seen[word] += 1
        most = len(words) - ceil(self._threshold * len(words) - 1e-9) + 1
        return [(word, before) for _, word, before in sorted(numbered)[:most]]


def _words(sentence: str) -> list[str]:
    return [_ANY_NUMBER if found["number"] else found[0]
            for found in _TOKENS.finditer(sentence.casefold())]


def _positions(words: Sequence[int]) -> dict[int, int]:
    """Return bits for the positions of each word."""
    positions: dict[int, int] = {}
    for position, word in enumerate(words):
        positions[word] = positions.get(word, 0) | 1 << position
    return positions


def edit_distance(positions: Mapping[int, int], length: int, other: Sequence[int]) -> int:
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
