"""Words, the same for all tokenizers, and fragmentation: how far a tokenizer breaks them up."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tokenizers import Tokenizer

from bmtools.vocab.segmenters import Segmenter
from bmtools.vocab.tokenizer import METASPACE, unknown_ids

# Joiners of Persian and Indic scripts, soft hyphens, marks of direction: inside words, never alone.
_INVISIBLE = ("\u00ad\u061c\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
              "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff")
_WORDS_AT_ONCE = 10_000
# A word is encoded after another, so that it has the space before it that it has in a text.
_PRECEDING = "a"


class _Separated(dict[int, int | str]):
    """Table for `str.translate` that turns what ends a word into a space, filled on first use."""

    def __missing__(self, code: int) -> int | str:
        in_word = (unicodedata.category(chr(code))[0] in "LMN") or chr(code) in _INVISIBLE
        self[code] = code if in_word else " "
        return self[code]


_SEPARATED = _Separated()


def find_words(text: str, segmenter: Segmenter | None = None) -> list[str]:
    """Find the words of a text, in order and as they are written.

    A word is an unbroken run of letters, combining marks and numbers of any script with a letter
    or a number in it. Digits and letters are one word together (`CYP2D6`, `H1N1`); hyphens,
    apostrophes, points and all other signs separate words (`beta-blocker`, `l'asma`, `0.5` are
    two each), and are no words. Case and accents stay.

    Scripts that put no spaces between words need a segmenter; without one, all text between two
    signs is one word.

    Args:
        segmenter: finds word starts where no spaces do.
    """
    chunks = (text,) if segmenter is None else _split_at(text, segmenter(text))
    return [word for chunk in chunks for run in chunk.translate(_SEPARATED).split()
            if any(map(str.isalnum, word := run.strip(_INVISIBLE)))]


def count_words(texts: Iterable[str], segmenter: Segmenter | None = None) -> Counter[str]:
    """Count the words of texts, by `find_words`; only distinct ones are held in memory.

    Each distinct chunk between white space is split once, so reading is most of the work.

    Args:
        texts: read once.
        segmenter: finds word starts where no spaces do, in whole texts.
    """
    counter = WordCounter(segmenter)
    counter.add(texts)
    return counter.words()


class WordCounter:
    """Counter of words in texts that come bit by bit.

    Args:
        segmenter: as in `count_words`.
    """

    def __init__(self, segmenter: Segmenter | None = None) -> None:
        self._segmenter = segmenter
        self._chunks: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Count the words of some texts."""
        for text in texts:
            self._chunks.update(text.split() if self._segmenter is None
                                else _split_at(text, self._segmenter(text)))

    def words(self) -> Counter[str]:
        """Return all words so far with their counts."""
        return count_words_of(self._chunks)


def count_words_of(texts: Mapping[str, int], segmenter: Segmenter | None = None) -> Counter[str]:
    """Count the words of texts that occur several times.

    Args:
        texts: distinct ones with their counts.
        segmenter: as in `count_words`.
    """
    words: Counter[str] = Counter()
    for text, count in texts.items():
        for word in find_words(text, segmenter):
            words[word] += count
    return words


def _split_at(text: str, starts: Sequence[int]) -> Iterator[str]:
    """Split a text before each of some rising offsets; the pieces joined are the text."""
    begin = 0
    for end in [*starts, len(text)]:
        if end > begin:
            yield text[begin:end]
            begin = end


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Pieces of words; every figure counts a word as often as it occurs.

    Args:
        words: number of words.
        pieces: their tokens; an unknown word counts its unknown tokens.
        whole: words that are one token, and known.
        unknown: words with an unknown token in them.
    """

    words: int
    pieces: int
    whole: int
    unknown: int

    @property
    def pieces_per_word(self) -> float:
        """Tokens of a word, on average; 1 where all stay whole.

        Source: Shin et al. 2020 (BioMegatron), table 3, #tokens/#words.
        """
        return self.pieces / self.words if self.words else 0.0

    @property
    def whole_share(self) -> float:
        """Share of words that stay whole, 0 to 1."""
        return self.whole / self.words if self.words else 0.0

    @property
    def unknown_share(self) -> float:
        """Share of words that the tokenizer cannot spell, 0 to 1; they look unbroken."""
        return self.unknown / self.words if self.words else 0.0

    def shares(self) -> dict[str, float]:
        """Return the three figures, rounded for people."""
        return {name: round(getattr(self, name), 4)
                for name in ("pieces_per_word", "whole_share", "unknown_share")}


def fragmentation(backend: Tokenizer, words: Mapping[str, int],
                  spaced: bool = True) -> Fragmentation:
    """Measure how far words are broken up as in running text, after a space.

    Args:
        backend: a tokenizer of any type.
        words: how often each occurs, as from `bmtools.vocab.words.count_words`.
        spaced: words have a space before them in this language.
    """
    total = pieces = whole = unknown = 0
    unknowns = unknown_ids(backend)
    for ids, count in zip(encode_words(backend, words, spaced), words.values(), strict=True):
        is_unknown = not unknowns.isdisjoint(ids)
        total += count
        pieces += count * len(ids)
        whole += count * (len(ids) == 1 and not is_unknown)
        unknown += count * is_unknown
    return Fragmentation(total, pieces, whole, unknown)


def encode_words(backend: Tokenizer, words: Iterable[str],
                 spaced: bool = True) -> Iterator[list[int]]:
    """Encode each word, or several in one string, as after a space in a text.

    So byte-level BPE takes `Ġword` and Metaspace `▁word`, and WordPiece has no difference. A token
    of that space alone counts as part of the word.

    Args:
        backend: encodes each word once, in batches.
        spaced: words have a space before them; else Metaspace's token for one that is not there
            is left out.
    """
    preceding = backend.encode(_PRECEDING if spaced else "", add_special_tokens=False).ids
    lead = f"{_PRECEDING} " if spaced else ""
    space = None if spaced else backend.token_to_id(METASPACE)
    pending = iter(words)
    while chunk := list(islice(pending, _WORDS_AT_ONCE)):
        found = backend.encode_batch_fast([lead + word for word in chunk],
                                          add_special_tokens=False)
        for word, encoding in zip(chunk, found, strict=True):
            ids = encoding.ids
            if ids[:len(preceding)] != preceding:  # tokens across spaces have joined the two
                ids = [*preceding, *backend.encode(f" {word}", add_special_tokens=False).ids]
            begin = len(preceding)
            yield ids[begin + (space is not None and ids[begin:begin + 1] == [space]):]
