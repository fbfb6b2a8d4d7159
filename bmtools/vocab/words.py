"""Words, defined the same for all tokenizers, and fragmentation: how a tokenizer breaks them up.

A word is an unbroken run of letters, combining marks and numbers of any script, so `CYP2D6` and
`H1N1` are one word each. Hyphens, apostrophes, points and all other signs separate words
(`beta-blocker`, `l'asma`, `0.5`), and each sign is masked separately. Each ideograph is also a
word, unless a segmenter finds longer words.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from tokenizers import Encoding, Tokenizer

from bmtools.vocab.tokenizer import METASPACE, unknown_ids

if TYPE_CHECKING:
    from bmtools.vocab.segmenters import Segmenter

Found = TypeVar("Found")
_MOST_CHUNKS = 200_000

# Joiners of Persian and Indic scripts, soft hyphens and direction marks, which occur inside words.
_INVISIBLE = ("\u00ad\u061c\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
              "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff")
_WORDS_AT_ONCE = 10_000
# A word is encoded after this one, so that it has a space before it, as in a text.
_PRECEDING = "a"

# Kinds of characters. A mark belongs to the letter or sign before it, or begins a word.
_SPACE, _SIGN, _LETTER, _MARK, _UNSEEN = range(5)
_KINDS = np.full(0x110000, _UNSEEN, dtype=np.uint8)  # filled on first use
_SPACES = (METASPACE, "\u0120")  # tokens of a single space: Metaspace and byte-level BPE
# The characters that BERT's normalizer separates.
_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF),
               (0x2A700, 0x2CEAF), (0x2F800, 0x2FA1F))


def is_sign(character: str) -> bool:
    """Return whether a single character is a word: a sign or an ideograph."""
    return _kind(character) == _SIGN


def _kind(character: str) -> int:
    if character.isspace():
        return _SPACE
    category = unicodedata.category(character)[0]
    if category == "M" or character in _INVISIBLE:
        return _MARK
    is_ideograph = any(low <= ord(character) <= high for low, high in _IDEOGRAPHS)
    return _LETTER if category in "LN" and not is_ideograph else _SIGN


class _Separated(dict[int, int | str]):
    """Table for `str.translate` that replaces word separators by spaces, filled on first use."""

    def __init__(self, ideographs_apart: bool) -> None:
        super().__init__()
        self._ideographs_apart = ideographs_apart

    def __missing__(self, code: int) -> int | str:
        character = chr(code)
        kind = _kind(character)
        self[code] = " " if kind in (_SPACE, _SIGN) else code
        if kind == _SIGN and character.isalpha():
            self[code] = f" {character} " if self._ideographs_apart else code
        return self[code]


_SEPARATED = _Separated(ideographs_apart=True)
_SEGMENTED = _Separated(ideographs_apart=False)


def find_words(text: str, segmenter: Segmenter | None = None) -> list[str]:
    """Find the words of a text, in order and as they are written.

    Signs separate words but are not words here. A word contains a letter or number. Case and
    accents do not change. Scripts without spaces between words need a segmenter. Without one, all
    text between two signs is one word, and each ideograph is a word.

    Args:
        segmenter: finds word starts in languages without spaces.
    """
    chunks = (text,) if segmenter is None else _split_at(text, segmenter(text))
    return list(_words_in(chunks, segmenter is not None))


def _words_in(chunks: Iterable[str], segmented: bool) -> Iterator[str]:
    table = _SEGMENTED if segmented else _SEPARATED
    return (word for chunk in chunks for run in chunk.translate(table).split()
            if any(map(str.isalnum, word := run.strip(_INVISIBLE))))


def word_starts(backend: Tokenizer, texts: Sequence[str],
                encodings: Sequence[Encoding]) -> np.ndarray:
    """Mark the tokens that begin words, by the characters of the text.

    Each sign is a word. A space before a word belongs to the word, even if the tokenizer makes it a
    separate token; other white space is a word. A token across the border of two words joins them,
    because they cannot be masked separately. If one character has several tokens, only the first
    can begin a word.

    Args:
        backend: the tokenizer.
        texts: the encoded texts.
        encodings: encoding of each text.

    Returns:
        (all tokens,) bool.
    """
    spans = np.fromiter(chain.from_iterable(chain.from_iterable(one.offsets for one in encodings)),
                        np.int64).reshape(-1, 2)
    sizes = np.array([len(one) for one in encodings], dtype=np.int64)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + 1
    spans += (lengths.cumsum() - lengths).repeat(sizes)[:, None]
    borders, next_visible = _word_borders("\n".join([*texts, ""]))
    begins, ends = spans.T
    visible = next_visible[begins] < ends
    begins = np.where(visible, next_visible[begins], begins)
    starts = borders[begins] | ~visible
    starts[1:] &= (begins[1:] >= np.maximum.accumulate(ends)[:-1]) | (begins[1:] == ends[1:])
    after_space = np.flatnonzero(~visible[:-1] & visible[1:])
    if len(after_space):
        ids = np.fromiter(chain.from_iterable(one.ids for one in encodings), np.int64, len(spans))
        spaces = [number for number in map(backend.token_to_id, _SPACES) if number is not None]
        after_space = after_space[np.isin(ids[after_space], spaces)] + 1
        starts[[place for place in after_space.tolist()
                if not str(backend.id_to_token(ids[place])).startswith(_SPACES)]] = False
    starts[(sizes.cumsum() - sizes)[sizes > 0]] = True
    return starts


class PrefixedWords:
    """Word starts found from ids only, for a tokenizer that marks tokens inside words by a prefix.

    Args:
        backend: a tokenizer that splits text at least at white space and ASCII signs.
        prefix: the prefix, such as WordPiece's `##`.
    """

    def __init__(self, backend: Tokenizer, prefix: str) -> None:
        tokens = backend.get_vocab()
        ids = np.fromiter(tokens.values(), np.int64, len(tokens))
        inner = np.array([token.startswith(prefix) for token in tokens], dtype=bool)
        # Put each token between two letters: the tokenizer's words may contain other signs.
        pieces = [f"x{token.removeprefix(prefix)}x" for token in tokens]
        borders, _ = _word_borders("".join(pieces))
        after = np.cumsum([0, *map(len, pieces)])
        marks = np.array([_kind(piece[1]) == _MARK for piece in pieces], dtype=bool)
        self._begins, self._ends, self._joins = np.zeros((3, ids.max(initial=-1) + 1), dtype=bool)
        self._begins[ids] = ~inner | borders[after[:-1] + 1]
        self._ends[ids] = borders[after[1:] - 1]
        self._joins[ids] = inner & marks

    def starts(self, ids: np.ndarray) -> np.ndarray:
        """Mark the tokens that begin words, (tokens,) bool."""
        starts = self._begins[ids]
        starts[1:] |= self._ends[ids[:-1]] & ~self._joins[ids[1:]]
        return starts


def _word_borders(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Mark the characters that begin a word, and find the next visible character of each."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kinds = _KINDS[codes]
    if kinds.max(initial=0) == _UNSEEN:
        for code in np.unique(codes[kinds == _UNSEEN]).tolist():
            _KINDS[code] = _kind(chr(code))
        kinds = _KINDS[codes]
    positions = np.arange(len(kinds))
    marks = kinds == _MARK
    if marks.any():
        kinds = kinds[np.maximum.accumulate(np.where(marks, 0, positions))]
        kinds[marks & (kinds != _SIGN)] = _LETTER
    borders = kinds == _SIGN
    borders[1:] |= kinds[:-1] != _LETTER
    borders[:1] = True
    borders[marks & (kinds == _SIGN)] = False
    hidden = np.where(kinds == _SPACE, len(kinds), positions)
    return borders, np.minimum.accumulate(hidden[::-1])[::-1]


class WordCounter:
    """Counter of words, as defined by `find_words`, in a stream of texts.

    Each distinct chunk between white space is split once, so reading takes most of the time.

    Args:
        segmenter: finds word starts in texts of languages without spaces.
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
        """Return all words counted so far, with their counts."""
        words: Counter[str] = Counter()
        for chunk, count in self._chunks.items():
            for word in _words_in((chunk,), self._segmenter is not None):
                words[word] += count
        return words


def count_words_of(texts: Mapping[str, int], segmenter: Segmenter | None = None) -> Counter[str]:
    """Count the words of texts that occur several times."""
    words: Counter[str] = Counter()
    for text, count in texts.items():
        for word in find_words(text, segmenter):
            words[word] += count
    return words


def _split_at(text: str, starts: Sequence[int]) -> Iterator[str]:
    """Split a text at increasing offsets into pieces, which together are the text."""
    begin = 0
    for end in [*starts, len(text)]:
        if end > begin:
            yield text[begin:end]
            begin = end


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Pieces of words; every number counts a word as often as it occurs.

    Args:
        words: number of words.
        pieces: number of their tokens, including unknown tokens.
        whole: number of words that are one known token.
        unknown: number of words that contain an unknown token.
    """

    words: int
    pieces: int
    whole: int
    unknown: int

    def shares(self) -> dict[str, float]:
        """Return pieces per word and the shares of whole words and unknown words, rounded.

        Source: Shin et al. 2020 (BioMegatron), table 3, #tokens/#words.
        """
        return {name: round(count / self.words, 4) if self.words else 0.0 for name, count in (
            ("pieces_per_word", self.pieces), ("whole_share", self.whole),
            ("unknown_share", self.unknown))}


def fragmentation(backend: Tokenizer, words: Mapping[str, int],
                  spaced: bool = True) -> Fragmentation:
    """Measure into how many pieces words are broken in running text, after a space.

    Args:
        backend: a tokenizer of any type.
        words: how often each word occurs, as from `count_words_of`.
        spaced: whether words have a space before them in this language.
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
    """Encode each string of one or several words as after a space in a text.

    So byte-level BPE uses `Ġword` and Metaspace `▁word`. WordPiece has no difference. A separate
    token for that space counts as part of the word.

    Args:
        backend: encodes each string once, in batches.
        spaced: whether words have a space before them; if not, Metaspace's token for the missing
            space is left out.
    """
    preceding = backend.encode(_PRECEDING if spaced else "", add_special_tokens=False).ids
    lead = f"{_PRECEDING} " if spaced else ""
    space = None if spaced else backend.token_to_id(METASPACE)
    pending = iter(words)
    while chunk := list(islice(pending, _WORDS_AT_ONCE)):
        found = backend.encode_batch_fast([lead + word for word in chunk], add_special_tokens=False)
        for word, encoding in zip(chunk, found, strict=True):
            ids = encoding.ids
            if ids[:len(preceding)] != preceding:  # a token across the space joins the words
                ids = [*preceding, *backend.encode(f" {word}", add_special_tokens=False).ids]
            begin = len(preceding)
            yield ids[begin + (space is not None and ids[begin:begin + 1] == [space]):]


class ChunkCache(dict[str, Found]):
    """Cached results by chunk between white space; few distinct chunks make up most of a corpus.

    Args:
        find: computes the result for a chunk that is not in the cache.
    """

    def __init__(self, find: Callable[[str], Found]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, chunk: str) -> Found:
        found = self._find(chunk)
        if len(self) < _MOST_CHUNKS:
            self[chunk] = found
        return found


class ChunkWords(ChunkCache[list[str]]):
    """Words in each chunk."""

    def __init__(self) -> None:
        super().__init__(find_words)

    def number(self, text: str) -> int:
        """Return the number of words in a text."""
        return sum(map(len, map(self.__getitem__, text.split())))

    def frequencies(self, texts: Iterable[str]) -> Counter[str]:
        """Count the words of some texts by word."""
        chunks = Counter(chain.from_iterable(map(str.split, texts)))
        counts = Counter[str]()
        for chunk, count in chunks.items():
            for word in self[chunk]:
                counts[word] += count
        return counts
