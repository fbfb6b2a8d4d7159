"""Sample of words by frequency, with contexts for each word."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappush, heapreplace
from itertools import compress, islice
from typing import IO

import msgspec
import numpy as np

from bmtools.errors import DataError, setting
from bmtools.io.output import temporary_file
from bmtools.keyed_random import derive
from bmtools.records import Record
from bmtools.scoring.settings import EmbeddingSpaceConfig
from bmtools.text.reservoir import HIGHEST, word_keys
from bmtools.vocab.words import WordCounter, find_words

_TEXTS_AT_ONCE = 1_000
_TIES, _WORDS, _OCCURRENCES = range(3)  # purposes of random priorities


@dataclass(frozen=True)
class SampledWords:
    """The sampled words, band by band.

    Args:
        words: case-folded words.
        counts: (words,) int64, occurrences of each word in the text.
        bands: (words,) int64, number of the band, from 0 for the most frequent words.
    """

    words: list[str]
    counts: np.ndarray
    bands: np.ndarray


@dataclass(frozen=True)
class WordContext:
    """A word in context.

    Args:
        word: its number in the sample.
        text: the context, including the word.
        start: start of the word in the text, in code points.
        end: end of the word.
    """

    word: int
    text: str
    start: int
    end: int


def sample_contexts(records: Iterable[Record], config: EmbeddingSpaceConfig,
                    word_filter: Callable[[list[str]], Iterable[object]] | None = None,
                    ) -> tuple[SampledWords, list[WordContext]]:
    """Sample words from frequency bands, and occurrences of each word.

    The text is read once and kept in a temporary file until then. Memory contains the sample, and
    a count for each distinct run between white space. Every occurrence of a word has the same
    probability, so repeated sentences count repeatedly. The occurrences sampled for a word depend
    only on the word, its positions and the seed.

    Args:
        records: records; read once.
        config: settings of the sample.
        word_filter: returns for each of some words, as written, whether it may be sampled; None
            accepts all.

    Returns:
        the words, and contexts in the order of the words and then of the text.

    Raises:
        DataError: if there is no text or too few words.
    """
    with temporary_file() as spool:
        counter = WordCounter()
        for record in records:
            counter.add([record["text"]])
            spool.write(msgspec.json.encode(record["text"]) + b"\n")
        forms = counter.words()
        if not forms:
            raise DataError("no words in the input; expected records with some text")
        plain = [form for form in forms if _is_plain(form, config.min_letters)]
        if word_filter is not None:
            plain = list(compress(plain, word_filter(plain)))
        counts: Counter[str] = Counter()
        by_word = defaultdict(list)
        for form in plain:
            word = unicodedata.normalize("NFC", form.casefold())
            counts[word] += forms[form]
            by_word[word].append(form)
        sample = choose_words(counts, config)
        numbers = {form: number for number, word in enumerate(sample.words)
                   for form in by_word[word]}
        contexts = []
        for number, offset, start, end in _draw_occurrences(
                spool, numbers, word_keys(sample.words, config.seed), config.occurrences):
            spool.seek(offset)
            text = msgspec.json.decode(spool.readline(), type=str)
            contexts.append(cut_context(WordContext(number, text, start, end),
                                        config.context_characters))
        return sample, contexts


def _is_plain(form: str, min_letters: int) -> bool:
    """Return whether a word has enough letters and contains only letters and combining marks."""
    kinds = [unicodedata.category(character)[0] for character in form]
    return kinds.count("L") >= min_letters and all(kind in "LM" for kind in kinds)


def choose_words(counts: Mapping[str, int], config: EmbeddingSpaceConfig) -> SampledWords:
    """Split words into bands by the rank of their counts, and sample from each band.

    Words with equal counts are ordered randomly, by the seed.

    Raises:
        DataError: if there are too few words for the bands.
    """
    known = sorted(word for word, count in counts.items() if count >= config.min_count)
    needed = config.words_per_band * 2 ** (config.bands - 1)
    if len(known) < needed:
        kind = "words of one token each" if config.single_token_words else "words"
        raise DataError(
            f"found {len(known)} {kind} that occur in the text {config.min_count} times or more, "
            f"expected {needed} or more for {config.bands} bands of {config.words_per_band}; "
            f"give more text, or lower {setting('words_per_band')}, {setting('bands')} or "
            f"{setting('min_count')}")
    keys = word_keys(known, config.seed)
    times = np.array([counts[word] for word in known], dtype=np.int64)
    ranked = np.lexsort((derive(keys, _TIES), -times))
    priorities = derive(keys, _WORDS)
    chosen = [band[np.sort(np.argsort(priorities[band])[:config.words_per_band])]
              for band in np.split(ranked, band_ends(len(known), config)[:-1])]
    drawn = np.concatenate(chosen)
    return SampledWords([known[number] for number in drawn], times[drawn],
                        np.repeat(np.arange(config.bands), config.words_per_band))


def band_ends(distinct: int, config: EmbeddingSpaceConfig) -> list[int]:
    """Compute the rank where each band ends, in equal steps on a log scale after the first."""
    growth = distinct / config.words_per_band
    return [round(config.words_per_band * growth ** (number / (config.bands - 1)))
            for number in range(config.bands)]


def _draw_occurrences(spool: IO[bytes], numbers: Mapping[str, int], keys: np.ndarray,
                      count: int) -> list[tuple[int, int, int, int]]:
    """Keep the occurrences of each word with the lowest priorities.

    Returns:
        number of the word, offset of its line in the spooled text, and its span in the line.
    """
    heaps: list[list[tuple[int, int, int, int]]] = [[] for _ in keys]
    limits = np.full(len(keys), HIGHEST, dtype=np.uint64)
    for words, texts, offsets, starts, ends in _find_occurrences(spool, numbers):
        priorities = derive(keys[words], _OCCURRENCES, texts, starts)
        for one in np.flatnonzero(priorities < limits[words]).tolist():
            word = int(words[one])
            heap = heaps[word]
            entry = (-int(priorities[one]), int(offsets[one]), int(starts[one]), int(ends[one]))
            if len(heap) < count:
                heappush(heap, entry)
            elif entry > heap[0]:
                heapreplace(heap, entry)
            if len(heap) == count:
                limits[word] = -heap[0][0]
    return [(word, *span) for word, heap in enumerate(heaps)
            for span in sorted(entry[1:] for entry in heap)]


def _find_occurrences(spool: IO[bytes],
                      numbers: Mapping[str, int]) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield columns of word, text, the line's offset, start and end, for some texts at a time."""
    spool.seek(0)
    offset = text_number = 0
    while lines := list(islice(spool, _TEXTS_AT_ONCE)):
        found = []
        for line in lines:
            text = msgspec.json.decode(line, type=str)
            end = 0
            for form in find_words(text):  # there are no letters between two words
                start = text.index(form, end)
                end = start + len(form)
                if form in numbers:
                    found.append((numbers[form], text_number, offset, start, end))
            text_number += 1
            offset += len(line)
        if found:
            yield tuple(np.array(found, dtype=np.int64).T)


def cut_context(context: WordContext, reach: int) -> WordContext:
    """Keep `reach` characters before and after the word, and only complete words.

    Without white space, as in some scripts, the context may begin or end anywhere.
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
