"""From text to token ids that know where words begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from bmtools.vocab.safe_cuts import SafeCuts

_TEXTS_AT_ONCE = 1_000
_CACHED_CHARACTERS = 1 << 26
_ENTRY_CHARACTERS = 150  # what a short piece and its ids take beside the piece's characters
_START = np.uint32(1 << 31)  # marks, beside the id, a token that begins a word

MarkWords = Callable[[str, np.ndarray], np.ndarray]
"""Text and offsets, (tokens, 2) in code points, to (tokens,) bool, True where a word begins."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text.

    Args:
        ids: (tokens,) int32, no special tokens added.
        starts: (tokens,) bool, True where a word begins.
    """

    ids: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Texts laid end to end.

    Args:
        ids: (all tokens,) int32, no special tokens added.
        starts: (all tokens,) bool, True where a word begins.
        lengths: (texts,) int64, tokens of each.
        points: for each text, the first token that reaches beyond each asked point, or beyond
            the space before it, counted within the text; its length where there is none.
        by_piece: whether pieces were looked up; False where whole texts were encoded.
    """

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    points: list[list[int]]
    by_piece: bool


def encode(tokenizer: Any, texts: Iterable[str]) -> Iterator[Encoded]:
    """Encode texts in order; words are those of the tokenizer's own pre-tokenizer.

    That is right for WordPiece, byte-level BPE and Metaspace alike, where offsets are not: some
    post-processors leave the space before a word inside its token, others do not.
    """
    encoder = Encoder(tokenizer.backend_tokenizer)
    pending = iter(texts)
    while chunk := list(islice(pending, _TEXTS_AT_ONCE)):
        found = encoder.encode(chunk)
        ends = np.cumsum(found.lengths)
        for start, end in zip(ends - found.lengths, ends, strict=True):
            yield Encoded(found.ids[start:end], found.starts[start:end])


class Encoder:
    """Gives the ids that the tokenizer gives, faster: a piece between spaces is encoded once.

    Where the tokenizer does not allow that, and for texts with added tokens in them, the
    tokenizer encodes whole texts. As a guard, one text of every call is encoded both ways; where
    they differ, so are all texts of that call.

    Memory is bounded: the pieces are forgotten when they fill some tens of megabytes.

    Args:
        backend: a `tokenizers.Tokenizer`.
        mark_words: says where words begin, in place of the pre-tokenizer; nothing is cut then.
    """

    def __init__(self, backend: Any, mark_words: MarkWords | None = None) -> None:
        self._backend = backend
        self._mark_words = mark_words
        self._cutting = SafeCuts(backend)
        self._by_piece = self._cutting.allowed and mark_words is None
        self._inner = _inner_tokens(backend, self._cutting.inner)
        self._forget()

    def encode(self, texts: Sequence[str],
               points: Sequence[Sequence[int]] | None = None) -> EncodedTexts:
        """Encode texts, and tell which tokens stand at some points of them.

        Args:
            texts: any number.
            points: for each text, offsets in code points.
        """
        pieces = self._cut(texts) if self._by_piece else [None] * len(texts)
        packed = self._packed(texts, pieces)
        if self._by_piece and texts and packed[0] != self._whole(texts[:1])[0]:
            pieces = [None] * len(texts)
            packed = self._packed(texts, pieces)
        flat = np.frombuffer(b"".join(packed), dtype=np.uint32)
        lengths = np.array([len(one) // 4 for one in packed], dtype=np.int64)
        found = [self._places(*each) if each[-1] else []
                 for each in zip(texts, pieces, points, strict=True)] if points else []
        return EncodedTexts((flat & ~_START).astype(np.int32), flat >= _START, lengths, found,
                            any(cut is not None for cut in pieces))

    def _cut(self, texts: Sequence[str]) -> list[list[str] | None]:
        """Cut texts into pieces whose ids are in the cache; None for a text to take whole."""
        if self._held > _CACHED_CHARACTERS:
            self._forget()
        pieces = [self._cutting.cut(text) for text in texts]
        self._learn(set().union(*pieces))
        loose = [number for number, cut in enumerate(pieces)
                 if not self._loose.isdisjoint(cut)] if self._loose else []
        for number in loose:
            pieces[number] = self._cutting.joined(pieces[number])
        if loose:
            self._learn(set().union(*(pieces[number] for number in loose)))
        return [None if self._added and not self._added.isdisjoint(cut) else cut
                for cut in pieces]

    def _learn(self, pieces: set[str]) -> None:
        """Put the ids of unknown pieces into the cache."""
        new = [piece for piece in pieces if piece not in self._known]
        added = self._cutting.with_added_tokens(new)
        self._added |= added
        self._loose.update(piece for piece in new if not self._cutting.is_firm(piece))
        self._known.update(dict.fromkeys(added, b""))
        self._held += sum(map(len, new)) + _ENTRY_CHARACTERS * len(new)
        plain = [piece for piece in new if piece not in added]
        # A text's first piece has no space ahead, and some pre-tokenizers give it one there.
        inner = [piece for piece in plain if piece[:1] == " "]
        first = [piece for piece in plain if piece[:1] != " "]
        self._known.update(zip(inner, self._together(inner), strict=True))
        self._known.update(zip(first, self._whole(first), strict=True))

    def _together(self, pieces: list[str]) -> list[bytes]:
        """Encode pieces as one text; a token between them keeps them apart."""
        if self._cutting.separator is None or not pieces:
            return self._whole(pieces)
        between, number = self._cutting.separator
        [flat] = self._whole([between.join(pieces)])
        ids = np.frombuffer(flat, dtype=np.uint32) & ~_START
        borders = np.flatnonzero(ids == number)
        if len(borders) != len(pieces) - 1:
            return self._whole(pieces)
        begins, ends = [0, *(4 * borders + 4).tolist()], [*(4 * borders).tolist(), len(flat)]
        return [flat[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def _packed(self, texts: Sequence[str], pieces: Sequence[list[str] | None]) -> list[bytes]:
        ids_of = self._known.__getitem__
        packed = [b"" if cut is None else b"".join(map(ids_of, cut)) for cut in pieces]
        whole = [number for number, cut in enumerate(pieces) if cut is None]
        for number, ids in zip(whole, self._whole([texts[n] for n in whole]), strict=True):
            packed[number] = ids
        return packed

    def _whole(self, texts: Sequence[str]) -> list[bytes]:
        """Encode texts as they are: ids as four bytes each, the highest bit where words begin."""
        if self._mark_words is not None:
            return [_pack(found.ids, self._mark_words(text, _offsets(found)))
                    for text, found in zip(texts, self._encodings(texts), strict=True)]
        if self._inner is None:
            return [_pack(found.ids, _starts(found)) for found in self._encodings(texts)]
        # Without offsets the library takes a fifth less time, but numbers no words.
        fast = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        arrays = [np.array(found.ids, dtype=np.uint32) for found in fast]
        return [_pack(ids, ~self._inner[ids]) for ids in arrays]

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        found: list[Any] = self._backend.encode_batch(list(texts), add_special_tokens=False)
        return found

    def _places(self, text: str, pieces: list[str] | None, points: Sequence[int]) -> list[int]:
        """Find the first token that reaches beyond each point, or beyond the space before it."""
        wanted = [point - (text[point - 1:point] == " ") for point in points]
        if pieces is None:
            return self._places_within(text, wanted)
        sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
        packed = np.fromiter(map(len, map(self._known.__getitem__, pieces)), np.int64, len(pieces))
        ends = np.cumsum(sizes)
        before = np.append(0, np.cumsum(packed // 4))
        numbers = np.searchsorted(ends, wanted, side="right").tolist()
        places: list[int] = before[numbers].tolist()
        for which, number in enumerate(numbers):
            within = wanted[which] - int(ends[number] - sizes[number]) if number < len(ends) else 0
            if within:
                places[which] += self._places_within(pieces[number], [within])[0]
        return places

    def _places_within(self, text: str, points: Sequence[int]) -> list[int]:
        [found] = self._encodings([text])
        ends = np.maximum.accumulate(_offsets(found)[:, 1])
        # What stands before the first character, as Metaspace puts it there, belongs to it.
        return np.where(points, np.searchsorted(ends, points, side="right"), 0).tolist()

    def _forget(self) -> None:
        self._known: dict[str, bytes] = {}
        self._loose: set[str] = set()
        self._added: set[str] = set()
        self._held = 0


def _inner_tokens(backend: Any, prefix: str) -> np.ndarray | None:
    """Which ids are tokens inside words, (vocabulary,); None where tokens do not tell."""
    if not prefix:
        return None
    tokens = backend.get_vocab(with_added_tokens=True)
    inner = np.zeros(max(tokens.values()) + 1, dtype=bool)
    inner[[number for token, number in tokens.items() if token.startswith(prefix)]] = True
    return inner


def _pack(ids: Sequence[int] | np.ndarray, starts: np.ndarray) -> bytes:
    return (np.array(ids, dtype=np.uint32) | np.where(starts, _START, np.uint32(0))).tobytes()


def _starts(encoding: Any) -> np.ndarray:
    """Where words begin; a token without a word stands alone."""
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
    starts = np.ones(len(words), dtype=bool)
    starts[1:] = (words[1:] != words[:-1]) | (words[1:] < 0)
    return starts


def _offsets(encoding: Any) -> np.ndarray:
    """(tokens, 2) in code points."""
    return np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
