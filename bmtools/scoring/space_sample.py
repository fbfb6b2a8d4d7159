"""Words drawn by frequency, and places of a text where they stand."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappush, heapreplace
from itertools import compress, islice
from tempfile import TemporaryFile
from typing import IO

import msgspec
import numpy as np

from bmtools.errors import DataError
from bmtools.keyed_random import derive
from bmtools.records import Record
from bmtools.scoring.space_settings import EmbeddingSpaceConfig
from bmtools.search.reservoir import HIGHEST, word_keys
from bmtools.vocab.words import WordCounter, find_words

Choose = Callable[[list[str]], Iterable[object]]
"""Tells of words, as they are written, which may be drawn: true or false for each."""

_TEXTS_AT_ONCE = 1_000
_TIES, _WORDS, _PLACES = range(3)  # what priorities are drawn for


@dataclass(frozen=True)
class SampledWords:
    """The words drawn, band by band.

    Args:
        words: folded; case is no part of a word here.
        counts: (words,) int64, how often each stands in the text.
        bands: (words,) int64, from 0, the band of the most frequent.
    """

    words: list[str]
    counts: np.ndarray
    bands: np.ndarray


@dataclass(frozen=True)
class WordContext:
    """A word in its surroundings.

    Args:
        word: number of it.
        text: what is read.
        start: where the word begins in it, in code points.
        end: where it ends.
    """

    word: int
    text: str
    start: int
    end: int


def sample_contexts(records: Iterable[Record], settings: EmbeddingSpaceConfig,
                    choose: Choose | None = None) -> tuple[SampledWords, list[WordContext]]:
    """Draw words from bands of frequency, and for each of them places where it stands.

    The text is read once and lies in a temporary file meanwhile; memory holds a count for each
    distinct run between white space, and what is drawn. Every place of a word has the same chance,
    so a sentence that the text repeats counts as often as it stands there. What is drawn of a
    word depends on it, its places and the seed alone.

    Args:
        records: read once.
        settings: what is drawn.
        choose: leaves out some ways to write words; None takes all.

    Returns:
        the words, and contexts in the order of words and then of the text.

    Raises:
        DataError: there is no text, or there are too few words in it.
    """
    with TemporaryFile() as spool:
        forms = _count_forms(records, spool)
        if not forms:
            raise DataError("no words in the input; expected records with some text")
        plain = [form for form in forms if _is_plain(form, settings.least_letters)]
        if choose is not None:
            plain = list(compress(plain, choose(plain)))
        counts, by_word = _fold_forms({form: forms[form] for form in plain})
        words = choose_words(counts, settings)
        numbers = {form: number for number, word in enumerate(words.words)
                   for form in by_word[word]}
        drawn = _draw_places(spool, numbers, word_keys(words.words, settings.seed),
                             settings.occurrences)
        return words, list(_contexts(spool, drawn, settings.context))


def _count_forms(records: Iterable[Record], spool: IO[bytes]) -> Counter[str]:
    """Count words as they are written, and keep the texts."""
    counter = WordCounter()
    for record in records:
        counter.add([record["text"]])
        spool.write(msgspec.json.encode(record["text"]) + b"\n")
    return counter.words()


def _fold_forms(forms: Mapping[str, int]) -> tuple[Counter[str], dict[str, list[str]]]:
    """Count words whatever their case, and say how they are written."""
    counts: Counter[str] = Counter()
    by_word: dict[str, list[str]] = {}
    for form, count in forms.items():
        word = unicodedata.normalize("NFC", form.casefold())
        counts[word] += count
        by_word.setdefault(word, []).append(form)
    return counts, by_word


def _is_plain(form: str, least_letters: int) -> bool:
    """Whether a word is made of enough letters, and nothing else but their marks."""
    kinds = [unicodedata.category(character)[0] for character in form]
    return kinds.count("L") >= least_letters and all(kind in "LM" for kind in kinds)


def choose_words(counts: Mapping[str, int], settings: EmbeddingSpaceConfig) -> SampledWords:
    """Part words into bands by the rank of their counts, and draw from each band.

    Words that are as frequent stand in an order drawn by the seed.

    Raises:
        DataError: there are too few words for the bands.
    """
    known = sorted(word for word, count in counts.items() if count >= settings.least_count)
    needed = settings.words * 2 ** (settings.bands - 1)
    if len(known) < needed:
        kind = "words of one token each" if settings.whole else "words"
        raise DataError(
            f"found {len(known)} {kind} that stand in the text {settings.least_count} times or "
            f"more, expected {needed} or more for {settings.bands} bands of {settings.words}; give "
            "more text, or lower --words, --bands or --least-count")
    keys = word_keys(known, settings.seed)
    times = np.array([counts[word] for word in known], dtype=np.int64)
    ranked = np.lexsort((derive(keys, _TIES), -times))
    lots = derive(keys, _WORDS)
    chosen = [band[np.sort(np.argsort(lots[band])[:settings.words])]
              for band in np.split(ranked, band_ends(len(known), settings)[:-1])]
    drawn = np.concatenate(chosen)
    return SampledWords([known[number] for number in drawn], times[drawn],
                        np.repeat(np.arange(settings.bands), settings.words))


def band_ends(distinct: int, settings: EmbeddingSpaceConfig) -> list[int]:
    """Give the rank at which each band ends: equal steps on a log scale behind the first band."""
    growth = distinct / settings.words
    return [round(settings.words * growth ** (number / (settings.bands - 1)))
            for number in range(settings.bands)]


@dataclass(frozen=True)
class _Place:
    """A word in the spool: its number, where the text's line begins, and where in the text."""

    word: int
    offset: int
    start: int
    end: int


def _draw_places(spool: IO[bytes], numbers: Mapping[str, int], keys: np.ndarray,
                 most: int) -> list[_Place]:
    """Keep, of each word, the places with the lowest priorities, which depend on names alone."""
    heaps: list[list[tuple[int, int, int, int]]] = [[] for _ in keys]
    limits = np.full(len(keys), HIGHEST, dtype=np.uint64)
    for words, texts, offsets, starts, ends in _found(spool, numbers):
        drawn = derive(keys[words], _PLACES, texts, starts)
        for one in np.flatnonzero(drawn < limits[words]).tolist():
            word = int(words[one])
            heap = heaps[word]
            entry = (-int(drawn[one]), int(offsets[one]), int(starts[one]), int(ends[one]))
            if len(heap) < most:
                heappush(heap, entry)
            elif entry > heap[0]:
                heapreplace(heap, entry)
            if len(heap) == most:
                limits[word] = -heap[0][0]
    return [_Place(word, *place) for word, heap in enumerate(heaps)
            for place in sorted(entry[1:] for entry in heap)]


def _found(spool: IO[bytes], numbers: Mapping[str, int]) -> Iterator[tuple[np.ndarray, ...]]:
    """Give columns of word, text, the line's offset, start and end, some texts at a time."""
    spool.seek(0)
    offset = text_number = 0
    while lines := list(islice(spool, _TEXTS_AT_ONCE)):
        rows = []
        for line in lines:
            text = msgspec.json.decode(line, type=str)
            rows += [(word, text_number, offset, start, end)
                     for word, start, end in _places_in(text, numbers)]
            text_number += 1
            offset += len(line)
        if rows:
            yield tuple(np.array(rows, dtype=np.int64).T)


def _places_in(text: str, numbers: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Find wanted words; each is met in turn, for between two words stand signs alone."""
    end = 0
    for form in find_words(text):
        start = text.index(form, end)
        end = start + len(form)
        number = numbers.get(form)
        if number is not None:
            yield number, start, end


def _contexts(spool: IO[bytes], places: Iterable[_Place], reach: int) -> Iterator[WordContext]:
    for place in places:
        spool.seek(place.offset)
        text = msgspec.json.decode(spool.readline(), type=str)
        yield cut_context(WordContext(place.word, text, place.start, place.end), reach)


def cut_context(context: WordContext, reach: int) -> WordContext:
    """Leave so many characters on either side of the word, and of words only whole ones.

    Where no white space stands, as in some scripts, what is left may begin or end anywhere.
    """
    text = context.text
    first, last = max(0, context.start - reach), min(len(text), context.end + reach)
    if first and not text[first - 1].isspace():
        space = re.search(r"\s", text[first:context.start])
        first += space.end() if space else 0
    if last < len(text) and not text[last].isspace():
        part = re.search(r"(?<=\s)\S*$", text[context.end:last])
        last -= len(part[0]) if part else 0
    return WordContext(context.word, text[first:last], context.start - first, context.end - first)
