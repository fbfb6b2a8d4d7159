"""Encoding of texts to token ids and word starts; each chunk between spaces is encoded once.

A safe split divides a text into chunks whose ids, put together, are the ids of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from bmtools.vocab.pretokens import SafeSplitter
from bmtools.vocab.segmenters import Segmenter, segmented_starts
from bmtools.vocab.tokenizer import special_tokens_as_text
from bmtools.vocab.words import PrefixedWords, word_starts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TEXTS_AT_ONCE = 1_000
_CACHED_CHARACTERS = 1 << 26
_ENTRY_CHARACTERS = 150  # memory for a short chunk and its ids, in addition to its characters
_START = np.uint32(1 << 31)  # bit that is added to the id of a token that begins a word


@dataclass(frozen=True, slots=True)
class EncodedText:
    """One text.

    Args:
        ids: (tokens,) int32, without special tokens.
        word_starts: (tokens,) bool, True for tokens that begin a word.
    """

    ids: np.ndarray
    word_starts: np.ndarray


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Concatenated texts.

    Args:
        ids: (all tokens,) int32, without special tokens.
        word_starts: (all tokens,) bool, True for tokens that begin a word.
        lengths: (texts,) int64, number of tokens in each text.
        tokens_at: for each text, the number of the first token that reaches beyond each requested
            offset, or beyond the space before it; the number of tokens if no token does.
        in_chunks: whether any text was encoded in chunks.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    lengths: np.ndarray
    tokens_at: list[list[int]]
    in_chunks: bool


def encode(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Iterator[EncodedText]:
    """Encode texts in order; `bmtools.vocab.words` defines the words."""
    encoder = Encoder(tokenizer.backend_tokenizer)
    pending = iter(texts)
    while batch := list(islice(pending, _TEXTS_AT_ONCE)):
        encoded = encoder.encode(batch)
        ends = np.cumsum(encoded.lengths)
        for start, end in zip(ends - encoded.lengths, ends, strict=True):
            yield EncodedText(encoded.ids[start:end], encoded.word_starts[start:end])


class Encoder:
    """Encoder with the tokenizer's ids, but faster: a chunk between spaces is encoded once.

    If the tokenizer does not allow chunks, or a text contains added tokens, the complete text is
    encoded. As a check, one text of every call is encoded in both ways. If the results differ, all
    texts of the call are encoded without chunks.

    Special tokens in a text, such as `[SEP]`, are read as text. Memory is limited: the cache is
    emptied when it reaches some tens of megabytes.

    Args:
        backend: the tokenizer.
        segmenter: finds words in scripts without spaces; it disables chunks.
    """

    def __init__(self, backend: Tokenizer, segmenter: Segmenter | None = None) -> None:
        self._backend = backend
        self._segmenter = segmenter
        self._splitter = SafeSplitter(backend)
        self._in_chunks = self._splitter.enabled and segmenter is None
        prefix = self._splitter.inner_prefix
        self._prefixed = PrefixedWords(backend, prefix) if prefix and segmenter is None else None
        self._packed_ids: dict[str, bytes] = {}
        self._unsafe: set[str] = set()
        self._with_added: set[str] = set()
        self._cached_characters = 0

    def encode(self, texts: Sequence[str],
               offsets: Sequence[Sequence[int]] | None = None) -> EncodedTexts:
        """Encode texts, and find the tokens at some offsets.

        Args:
            texts: any number.
            offsets: for each text, in code points.
        """
        chunks = self._split(texts) if self._in_chunks else [None] * len(texts)
        ids_of = self._packed_ids.__getitem__
        packed = [b"" if own is None else b"".join(map(ids_of, own)) for own in chunks]
        # As a check, the first text is also encoded without chunks.
        guarded = packed[:1] if any(chunks[:1]) else []
        whole = [number for number, own in enumerate(chunks) if own is None or not number]
        for number, ids in zip(whole, self._encode_whole([texts[n] for n in whole]), strict=True):
            packed[number] = ids
        if guarded and packed[:1] != guarded:
            chunks, packed = [None] * len(texts), self._encode_whole(texts)
        flat = np.frombuffer(b"".join(packed), dtype=np.uint32)
        lengths = np.array([len(one) // 4 for one in packed], dtype=np.int64)
        tokens_at = [self._tokens_at(*each) if each[-1] else []
                     for each in zip(texts, chunks, offsets, strict=True)] if offsets else []
        return EncodedTexts((flat & ~_START).astype(np.int32), flat >= _START, lengths, tokens_at,
                            any(own is not None for own in chunks))

    def _split(self, texts: Sequence[str]) -> list[list[str] | None]:
        """Split texts into chunks and cache their ids; None for a text without chunks."""
        if self._cached_characters > _CACHED_CHARACTERS:
            for cache in (self._packed_ids, self._unsafe, self._with_added):
                cache.clear()
            self._cached_characters = 0
        chunks = [self._splitter.split(text) for text in texts]
        self._cache_chunks(set().union(*chunks))
        unsafe = [number for number, own in enumerate(chunks)
                  if not self._unsafe.isdisjoint(own)] if self._unsafe else []
        for number in unsafe:
            chunks[number] = self._splitter.merge_unsafe(chunks[number])
        if unsafe:
            self._cache_chunks(set().union(*(chunks[number] for number in unsafe)))
        return [None if self._with_added and not self._with_added.isdisjoint(own) else own
                for own in chunks]

    def _cache_chunks(self, chunks: set[str]) -> None:
        """Encode the chunks that are not in the cache."""
        new = [chunk for chunk in chunks if chunk not in self._packed_ids]
        with_added = self._splitter.with_added_tokens(new)
        self._with_added |= with_added
        self._unsafe.update(chunk for chunk in new if not self._splitter.is_safe(chunk))
        self._packed_ids.update(dict.fromkeys(with_added, b""))
        self._cached_characters += sum(map(len, new)) + _ENTRY_CHARACTERS * len(new)
        plain = [chunk for chunk in new if chunk not in with_added]
        # A text's first chunk has no leading space, and some pre-tokenizers add one.
        inner = [chunk for chunk in plain if chunk[:1] == " "]
        first = [chunk for chunk in plain if chunk[:1] != " "]
        if inner and self._splitter.separator is not None:
            # Encode one text, with a separator token between the chunks.
            separator, separator_id = self._splitter.separator
            [flat] = self._encode_whole([separator.join(inner)], joined=True)
            marked = np.append(np.frombuffer(flat, dtype=np.uint32), np.uint32(0))
            borders = np.flatnonzero(marked[:-1] & ~_START == separator_id)
            if len(borders) == len(inner) - 1:
                begins = np.append(0, borders + 1)
                marked[begins] |= _START
                flat, ends = marked.tobytes(), 4 * np.append(borders, len(marked) - 1)
                self._packed_ids |= {chunk: flat[begin:end] for chunk, begin, end
                                     in zip(inner, (4 * begins).tolist(), ends.tolist(),
                                            strict=True)}
                inner = []
        whole = inner + first
        self._packed_ids.update(zip(whole, self._encode_whole(whole), strict=True))

    def _encode_whole(self, texts: Sequence[str], joined: bool = False) -> list[bytes]:
        """Encode complete texts to ids of four bytes, with the highest bit at word starts.

        Args:
            texts: any number.
            joined: whether the texts contain special tokens as separators.
        """
        # Without offsets the library takes a fifth less time.
        encode_batch = self._backend.encode_batch_fast if self._prefixed is not None \
            else self._backend.encode_batch
        shown = special_tokens_as_text(self._backend, texts)
        self._backend.encode_special_tokens = not joined
        encodings = encode_batch(list(texts if joined else shown), add_special_tokens=False)
        self._backend.encode_special_tokens = True
        ids = np.fromiter(chain.from_iterable(one.ids for one in encodings), np.uint32)
        if self._prefixed is not None:
            starts = self._prefixed.starts(ids)
        elif self._segmenter is not None:
            starts = np.concatenate([np.zeros(0, dtype=bool), *(
                segmented_starts(text, one.offsets, self._segmenter)
                for text, one in zip(texts, encodings, strict=True))])
        else:
            starts = word_starts(self._backend, texts, encodings)
        packed = (ids | starts * _START).tobytes()
        ends = [*accumulate((4 * len(one) for one in encodings), initial=0)]
        return [packed[begin:end] for begin, end in pairwise(ends)]

    def _tokens_at(self, text: str, chunks: list[str] | None, offsets: Sequence[int]) -> list[int]:
        """Find the first token that reaches beyond each offset, or beyond the space before it."""
        offsets = [offset - (text[offset - 1:offset] == " ") for offset in offsets]
        if chunks is None:
            return self._tokens_within(text, offsets)
        sizes = np.fromiter(map(len, chunks), np.int64, len(chunks))
        ends = np.cumsum(sizes)
        tokens_before = np.cumsum([0, *(len(self._packed_ids[own]) // 4 for own in chunks)])
        numbers = np.searchsorted(ends, offsets, side="right").tolist()
        tokens: list[int] = tokens_before[numbers].tolist()
        for which, number in enumerate(numbers):
            within = offsets[which] - int(ends[number] - sizes[number]) if number < len(ends) else 0
            if within:
                tokens[which] += self._tokens_within(chunks[number], [within])[0]
        return tokens

    def _tokens_within(self, text: str, offsets: Sequence[int]) -> list[int]:
        [shown] = special_tokens_as_text(self._backend, [text])
        found = self._backend.encode(shown, add_special_tokens=False)
        ends = np.maximum.accumulate([end for _, end in found.offsets], dtype=np.int64)
        # A token that Metaspace adds before the first character belongs to that character.
        return np.where(offsets, np.searchsorted(ends, offsets, side="right"), 0).tolist()
