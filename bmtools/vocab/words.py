"""Words, the same for all tokenizers, and fragmentation: how far a tokenizer breaks them up.

A word is an unbroken run of letters, combining marks and numbers of any script, so `CYP2D6` and
`H1N1` are one. Hyphens, apostrophes, points and all other signs separate words (`beta-blocker`,
`l'asma`, `0.5`), and each is masked by itself. Each ideograph is a word, too, unless a segmenter
finds longer ones.
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

# Joiners of Persian and Indic scripts, soft hyphens, marks of direction: inside words, never alone.
_INVISIBLE = ("\u00ad\u061c\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
              "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff")
_WORDS_AT_ONCE = 10_000
# A word is encoded after another, so that it has the space before it that it has in a text.
_PRECEDING = "a"

# Kinds of characters. A mark belongs to the letter or sign before it, or begins a word.
_SPACE, _SIGN, _LETTER, _MARK, _UNSEEN = range(5)
_KINDS = np.full(0x110000, _UNSEEN, dtype=np.uint8)  # filled on first use
_SPACES = (METASPACE, "\u0120")  # tokens of a space alone, of Metaspace and of byte-level BPE
# As BERT's normalizer sets them apart.
_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF),
               (0x2A700, 0x2CEAF), (0x2F800, 0x2FA1F))


def is_sign(character: str) -> bool:
    """Return whether a character is a word by itself: a sign, or an ideograph."""
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
    """Table for `str.translate` that turns what ends a word into a space, filled on first use."""

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

    Signs separate words and are none; a word has a letter or a number in it. Case and accents
    stay. Scripts that put no spaces between words need a segmenter; without one, all text between
    two signs is one word, and each ideograph.

    Args:
        segmenter: finds word starts where no spaces do.
    """
    chunks = (text,) if segmenter is None else _split_at(text, segmenter(text))
    return list(_words_in(chunks, segmenter is not None))


def _words_in(chunks: Iterable[str], segmented: bool) -> Iterator[str]:
    table = _SEGMENTED if segmented else _SEPARATED
    return (word for chunk in chunks for run in chunk.translate(table).split()
            if any(map(str.isalnum, word := run.strip(_INVISIBLE))))


def word_starts(backend: Tokenizer, texts: Sequence[str],
                encodings: Sequence[Encoding]) -> np.ndarray:
    """Mark the tokens at which words begin, by the characters of the text.

    A sign is a word by itself. A space ahead of a word belongs to it, in its token or in one that
    the tokenizer splits off; other white space is a word. A token across the border of two words
    joins them, as neither could be masked alone; of several tokens of one character only the first
    can begin a word.

    Args:
        backend: the tokenizer.
        texts: as they were encoded.
        encodings: of each text.

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
    """Word starts by ids alone, where a prefix marks the tokens inside words.

    Args:
        backend: a tokenizer that splits text at white space and ASCII signs at least.
        prefix: such as WordPiece's `##`.
    """

    def __init__(self, backend: Tokenizer, prefix: str) -> None:
        tokens = backend.get_vocab()
        ids = np.fromiter(tokens.values(), np.int64, len(tokens))
        inner = np.array([token.startswith(prefix) for token in tokens], dtype=bool)
        # Each between two letters: other signs may stand inside what the tokenizer calls a word.
        pieces = [f"x{token.removeprefix(prefix)}x" for token in tokens]
        borders, _ = _word_borders("".join(pieces))
        after = np.cumsum([0, *map(len, pieces)])
        marks = np.array([_kind(piece[1]) == _MARK for piece in pieces], dtype=bool)
        self._begins, self._ends, self._joins = np.zeros((3, ids.max(initial=-1) + 1), dtype=bool)
        self._begins[ids] = ~inner | borders[after[:-1] + 1]
        self._ends[ids] = borders[after[1:] - 1]
        self._joins[ids] = inner & marks

    def starts(self, ids: np.ndarray) -> np.ndarray:
        """Mark the tokens at which words begin, (tokens,) bool."""
        starts = self._begins[ids]
        starts[1:] |= self._ends[ids[:-1]] & ~self._joins[ids[1:]]
        return starts


def _word_borders(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Mark the characters before which a word begins, and find the next visible one of each."""
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
    """Counter of words, by `find_words`, in texts that come bit by bit.

    Each distinct chunk between white space is split once, so reading is most of the work.

    Args:
        segmenter: finds word starts where no spaces do, in whole texts.
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
        words: Counter[str] = Counter()
        for chunk, count in self._chunks.items():
            for word in _words_in((chunk,), self._segmenter is not None):
                words[word] += count
        return words


def count_words_of(texts: Mapping[str, int], segmenter: Segmenter | None = None) -> Counter[str]:
    """Count the words of texts that occur several times; see `WordCounter`."""
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

    def shares(self) -> dict[str, float]:
        """Return pieces per word and the shares of whole and of unknown words, rounded.

        Source: Shin et al. 2020 (BioMegatron), table 3, #tokens/#words.
        """
        return {name: round(count / self.words, 4) if self.words else 0.0 for name, count in (
            ("pieces_per_word", self.pieces), ("whole_share", self.whole),
            ("unknown_share", self.unknown))}


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
        found = backend.encode_batch_fast([lead + word for word in chunk], add_special_tokens=False)
        for word, encoding in zip(chunk, found, strict=True):
            ids = encoding.ids
            if ids[:len(preceding)] != preceding:  # tokens across spaces have joined the two
                ids = [*preceding, *backend.encode(f" {word}", add_special_tokens=False).ids]
            begin = len(preceding)
            yield ids[begin + (space is not None and ids[begin:begin + 1] == [space]):]


class ChunkCache(dict[str, Found]):
    """Findings by chunk between white space; few distinct chunks make up most of a corpus.

    Args:
        find: looks at a chunk that is not known.
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
