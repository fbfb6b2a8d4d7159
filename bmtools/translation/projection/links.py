"""Words of a sentence and its translation: tokenization, similarity and links."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, takewhile

import numpy as np

from bmtools.translation.projection.pairs import Projection, Span

_GAP = 0.05
"""Cost of a word without links inside a place; a gap of ten words is too expensive."""
_LEAST = 0.5
"""Minimum common beginning of two forms of a word, as a share of the longer form."""
_SHORT = 4  # letters; shorter words are similar only if they are equal
_PULL = 0.3
"""Share of its score that a place loses if it is at the other end of the text."""
_GAP_WEIGHT = 0.3
_CACHED = 1 << 18

# Numbers, single characters of scripts without spaces, words up to the apostrophe of an elision,
# and single signs.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['\u2019](?=\w))?"
                   r"|[^\w\s]|_")
# Spellings of words from Greek and Latin, and a common form of each; applied in this order.
_SPELLINGS = (("ph", "f"), ("mf", "nf"), ("ae", "e"), ("oe", "e"), ("qu", "c"), ("ct", "t"),
              ("pt", "t"), ("x", "s"), ("cs", "s"), ("h", ""), ("y", "i"), ("j", "i"), ("k", "c"),
              ("w", "v"), ("tio", "zio"), ("cia", "zia"), ("cio", "zio"))
_DOUBLED = re.compile(r"(.)\1+")
_ENDING = re.compile(r"(?<=...)[aeiou]*s?$")


def spelling(word: str) -> str:
    """Reduce a word from Greek or Latin to a form that is equal in many languages.

    `arrhythmias` and `aritmie` become `aritm`; `psychosis` and `psicosi` become `psicos`.
    """
    plain = "".join(one for one in unicodedata.normalize("NFKD", word)
                    if not unicodedata.combining(one))
    for written, common in _SPELLINGS:
        plain = plain.replace(written, common)
    return _ENDING.sub("", _DOUBLED.sub(r"\1", plain)) or word


def word_spans(text: str) -> list[tuple[int, int]]:
    """Find the words of a sentence, including numbers and signs."""
    return [match.span() for match in _WORD.finditer(text)]


def plain_words(text: str) -> list[str]:
    """Return the words of a sentence in a form for comparison.

    Words are in lower case, elided words lose their apostrophe, and numbers have decimal points in
    place of commas.
    """
    words = [text[start:end].casefold() for start, end in word_spans(text)]
    return [word.replace(",", ".") if word[0].isdigit() else word.rstrip("'\u2019") or word
            for word in words]


@lru_cache(_CACHED)
def stem(word: str) -> str:
    """Fold case, and reduce a word to its spelling without the ending."""
    return spelling(word.casefold().rstrip("'\u2019") or word)


@lru_cache(_CACHED)
def form_likeness(left: str, right: str) -> float:
    """Compare two words by their common beginning, 0 to 1, because inflection is at the end.

    Args:
        left: stem of one word.
        right: stem of the other word.
    """
    if left == right:
        return 1.0
    if min(len(left), len(right)) < _SHORT:
        return 0.0
    shared = sum(1 for _ in takewhile(lambda both: both[0] == both[1],
                                      zip(left, right, strict=False)))
    share = shared / max(len(left), len(right))
    return (1 + share) / 2 if share >= _LEAST else 0.0


def likeness_table(left: str, right: str) -> tuple[np.ndarray, list[Span], list[Span]]:
    """Compare all words of two texts; return (words, words) similarities, and the words' spans."""
    places = word_spans(left), word_spans(right)
    words = [[stem(text[start:end]) for start, end in spans]
             for text, spans in zip((left, right), places, strict=True)]
    table = [[form_likeness(one, other) for other in words[1]] for one in words[0]]
    return np.array(table).reshape(len(words[0]), len(words[1])), *places


def monotone_links(table: np.ndarray) -> np.ndarray:
    """Link words in two versions of a sentence in order, with the greatest total similarity.

    Args:
        table: (words, words), from `likeness_table`.
    """
    rows, columns = table.shape
    best = np.zeros((rows + 1, columns + 1))
    for row in range(rows):
        # Link this row or not, whichever is better; then take the best up to each column.
        taken = np.maximum(best[row, 1:], best[row, :-1] + table[row])
        best[row + 1, 1:] = np.maximum.accumulate(taken)
    links = np.zeros_like(table)
    row, column = rows, columns
    while row and column:
        if best[row, column] == best[row, column - 1]:
            column -= 1
        elif best[row, column] == best[row - 1, column]:
            row -= 1
        else:
            row, column = row - 1, column - 1
            links[row, column] = table[row, column]
    return _filled(links)


def mutual_links(table: np.ndarray) -> np.ndarray:
    """Link words in two versions of a sentence that are most similar to each other, in any order.

    Args:
        table: (words, words), from `likeness_table`; among equal words the nearest is linked.
    """
    if not table.size:
        return table
    rows, columns = ((np.arange(size) + 0.5) / size for size in table.shape)
    nearness = 1 - _PULL * np.abs(rows[:, None] - columns)
    return _filled(np.where(argmax_links(table * nearness), table, 0.0))


def _filled(links: np.ndarray) -> np.ndarray:
    """Link all words between two linked words on both sides, with less weight.

    There the two versions have different words.
    """
    linked = links.argmax(axis=1)
    ends = [(-1, -1), *((row, int(linked[row])) for row in np.flatnonzero(links.any(axis=1))),
            links.shape]
    filled = links.copy()
    for (top, left), (bottom, right) in pairwise(ends):
        if not links[:, left + 1:right].any():
            filled[top + 1:bottom, left + 1:right] = _GAP_WEIGHT
    return filled


def best_match(phrase: str, text: str, expected: float) -> Projection | None:
    """Find the part of a text that is most similar to a phrase, or None.

    The score is Dice's coefficient of the letters in part and phrase; letters of similar words
    count as common. It is reduced by the distance from the expected position.

    Args:
        phrase: some words in the language of the text.
        text: text to search.
        expected: expected position of the place's middle, relative to the text, 0 to 1.
    """
    table, words, places = likeness_table(phrase, text)
    if not table.any():
        return None
    needed = np.array([end - start for start, end in words], float)
    lengths = np.array([end - start for start, end in places], float)
    liked = table.max(axis=0) > 0
    found: list[Projection] = []
    for low in np.flatnonzero(liked).tolist():
        common = needed @ np.maximum.accumulate(table[:, low:], axis=1)
        dice = 2 * common / (needed.sum() + np.cumsum(lengths[low:]))
        middles = np.array([places[low][0] + end for _, end in places[low:]]) / (2 * len(text))
        scores = dice.clip(max=1.0) * liked[low:] * (1 - _PULL * abs(middles - expected))
        at = int(scores.argmax())
        found.append(Projection(places[low][0], places[low + at][1], float(scores[at])))
    return max(found, key=lambda place: place.score)


def linked_place(links: np.ndarray, source_words: list[Span], target_words: list[Span],
                 span: Span) -> Projection | None:
    """Find the part of the target that belongs to a span of the source; None without links.

    The value of a target word is the share of its links that lead into the span, minus one half.
    The run of words with the greatest sum is chosen, so a single distant link does not extend it.
    The score is the share of the place's links that lead into the span, times the share of the
    span's words that are linked to the place.

    Args:
        links: (source words, target words) weights, 0 or more.
        source_words: spans of the source words.
        target_words: spans of the target words.
        span: start and end of the annotation in the source.
    """
    inside = words_within(source_words, span)
    if not links.size or not inside.any():
        return None
    within, total = links[inside].sum(axis=0), links.sum(axis=0)
    shares = np.divide(within, total, out=np.zeros(len(total)), where=total > 0)
    low, high = best_run(np.where(total > 0, shares - 0.5, -_GAP))
    if low == high:
        return None
    rows = links[inside]
    reached = (rows[:, low:high].sum(axis=1) > 0).mean()
    score = float(reached * within[low:high].sum() / total[low:high].sum())
    return Projection(target_words[low][0], target_words[high - 1][1], score)


def words_within(words: Sequence[Span], span: Span) -> np.ndarray:
    """Mark the words that a span touches, (words,) bool."""
    return np.array([first < span[1] and span[0] < last for first, last in words], bool)


def best_run(values: np.ndarray, least: float = 0.0) -> Span:
    """Find the run with the greatest sum; an empty run if no sum is above `least`."""
    best, place = least, (0, 0)
    total, start = 0.0, 0
    for at, value in enumerate(values.tolist()):
        if total <= 0:
            total, start = 0.0, at
        total += value
        if total > best:
            best, place = total, (start, at + 1)
    return place


def softmax_links(left: np.ndarray, right: np.ndarray, threshold: float = 0.001) -> np.ndarray:
    """Link tokens with a high probability in both directions.

    Source: Dou and Neubig 2021 (awesome-align), section 2.1; products of states, as there and in
    TransAlign (Ebing and Glavaš 2025).

    Args:
        left: (tokens, width) hidden states.
        right: (tokens, width) hidden states.
        threshold: minimum probability in both directions.

    Returns:
        (left tokens, right tokens) geometric mean of both probabilities; 0 without a link.
    """
    from scipy.special import softmax

    products = left.astype(np.float64) @ right.astype(np.float64).T
    forward, backward = softmax(products, axis=1), softmax(products, axis=0)
    linked = (forward > threshold) & (backward > threshold)
    return np.where(linked, np.sqrt(forward * backward), 0.0)


def argmax_links(similarity: np.ndarray) -> np.ndarray:
    """Link tokens that are most similar to each other.

    Source: Jalili Sabet et al. 2020 (SimAlign), section 3.2.
    """
    rows, columns = similarity.shape
    links = np.zeros((rows, columns), bool)
    links[np.arange(rows), similarity.argmax(axis=1)] = True
    mutual = np.zeros_like(links)
    mutual[similarity.argmax(axis=0), np.arange(columns)] = True
    return links & mutual
