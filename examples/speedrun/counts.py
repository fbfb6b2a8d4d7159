"""A baseline without training: counts of the two words before a mask and the two words after it.

    python counts.py TEXT... --test curated.jsonl

A word's score is its probability given the words before the mask, times its probability given the
words after the mask, divided by its frequency. This assumes that both contexts are independent
given the word. Probabilities from two context words back off to one context word, then to
frequencies (Witten and Bell 1991: each distinct word in a context counts for the next lower order).

The script prints the mean reciprocal rank over the same maskings, for the top five proposals, as in
`bmtools score-mrr`. Words are not split into pieces, so all words of the text can be proposed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers
from vocabulary import texts_of

from bmtools.records import MASK

TOP = 5
FREQUENT = 200
_EDGE = ["", ""]
_fold = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
_split = pre_tokenizers.BertPreTokenizer()


def words_of(text: str) -> list[str]:
    """Split a text into words and signs, in lower case."""
    return [word for word, _ in _split.pre_tokenize_str(_fold.normalize_str(text))]


@dataclass
class Counts:
    """Counts of words by context: the one or two words before or after them."""

    words: Counter[str] = field(default_factory=Counter)
    neighbours: dict[Hashable, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter))
    _frequent: list[str] = field(default_factory=list)
    _total: int = 0

    def add(self, words: Sequence[str]) -> None:
        """Count a text."""
        padded = [*_EDGE, *words, *_EDGE]
        self.words.update(words)
        for index in range(2, len(padded) - 2):
            for context in _contexts(padded[index - 2:index], padded[index + 1:index + 3]):
                self.neighbours[context][padded[index]] += 1

    def close(self) -> None:
        """Finish counting, before `best`."""
        self._total = self.words.total() + 1
        self._frequent = [word for word, _ in self.words.most_common(FREQUENT)]

    def best(self, before: Sequence[str], after: Sequence[str], count: int = TOP) -> list[str]:
        """Return the most probable words between two pairs of words."""
        near, far, following, beyond = _contexts(before, after)
        backward, forward = self._chain(near, far), self._chain(following, beyond)

        def score(word: str) -> float:
            return backward(word) * forward(word) / (self.words[word] + 0.1)

        known = {word for context in (near, far, following, beyond)
                 for word in self.neighbours.get(context, ())}
        return sorted(known.union(self._frequent), key=lambda word: (-score(word), word))[:count]

    def _chain(self, *contexts: Hashable) -> Callable[[str], float]:
        """Return a function for the probability of a word in contexts, the shortest first."""
        found = [(counts, counts.total(), len(counts)) for context in contexts
                 if (counts := self.neighbours.get(context))]

        def probability(word: str) -> float:
            value = (self.words[word] + 0.1) / self._total
            for counts, tokens, kinds in found:
                value = (counts[word] + kinds * value) / (tokens + kinds)
            return value

        return probability


def _contexts(before: Sequence[str], after: Sequence[str]) -> Iterator[Hashable]:
    """Yield the word before, the two words before, the word after and the two words after."""
    yield from (("<", before[-1]), ("<", *before), (">", after[0]), (">", *after))


def mean_reciprocal_rank(counts: Counts, maskings: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Score the proposals for texts with a mask, given the masked words."""
    reciprocals = []
    for text, target in maskings:
        before, after = ([*_EDGE, *words_of(part), *_EDGE] for part in text.split(MASK))
        before, after = before[:-2][-2:], after[2:][:2]
        best = counts.best(before, after)
        word = target.lower()
        reciprocals.append(1 / (best.index(word) + 1) if word in best else 0.0)
    return {"mrr": round(sum(reciprocals) / len(reciprocals), 6),
            "hits_at_1": round(sum(value == 1 for value in reciprocals) / len(reciprocals), 6),
            "maskings": len(reciprocals)}


def main() -> None:
    """Count words in the texts from the command line, and score the counts."""
    parser = argparse.ArgumentParser(description="Score counts of neighbours.")
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--test", type=Path, required=True)
    given = parser.parse_args()
    counts = Counts()
    for text in texts_of(given.texts):
        counts.add(words_of(text))
    counts.close()
    records = [json.loads(line) for line in given.test.read_text(encoding="utf-8").splitlines()]
    score = mean_reciprocal_rank(counts, [(one["text"], one["target"]) for one in records])
    print(json.dumps({"model": "counts of neighbours", **score}))


if __name__ == "__main__":
    main()
