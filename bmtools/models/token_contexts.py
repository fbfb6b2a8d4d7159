"""Sentences with new tokens: sampling them, and finding the base model's pieces of each token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from tokenizers import Encoding
from transformers import PreTrainedTokenizerFast

from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import Checkpoint

_SENTENCES_AT_ONCE = 2_000
_WORD_START_MARKS = ("", "\u0120", "\u2581")  # by type of tokenizer
TokenSpan = tuple[int, int, int]
"""A token's id, and its start and end in code points."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the corpus; targets are words sampled beforehand: word, start and end."""

    text: str
    targets: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Occurrences:
    """Occurrences of new tokens in sentences as the base model tokenizes them.

    Sentences are sorted by length, occurrences by sentence and position.

    Args:
        input_ids: old ids of each sentence, special tokens included.
        sentences: (occurrences,) number of the sentence of each.
        tokens: (occurrences,) new id.
        starts: (occurrences,) position of its first piece, special tokens counted.
        ends: (occurrences,) position after its last piece.
        is_exact: (occurrences,) bool, whether its pieces cover nothing else.
    """

    input_ids: list[np.ndarray]
    sentences: np.ndarray
    tokens: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    is_exact: np.ndarray

    def batches(self, max_tokens: int) -> Iterator[tuple[int, int]]:
        """Group sentences into padded batches of at most so many tokens: first, end."""
        first = 0
        for number, ids in enumerate(self.input_ids):
            if number > first and len(ids) * (number + 1 - first) > max_tokens:
                yield first, number
                first = number
        if first < len(self.input_ids):
            yield first, len(self.input_ids)

    def within(self, first: int, end: int) -> slice:
        """Find the occurrences in a batch of sentences."""
        start, stop = np.searchsorted(self.sentences, [first, end])
        return slice(int(start), int(stop))

    def select(self, chosen: np.ndarray) -> Occurrences:
        """Keep some occurrences, and their sentences."""
        needed = np.unique(self.sentences[chosen])
        return Occurrences([self.input_ids[number] for number in needed],
                           np.searchsorted(needed, self.sentences[chosen]), self.tokens[chosen],
                           self.starts[chosen], self.ends[chosen], self.is_exact[chosen])


class _Reservoirs:
    """Uniform samples of the spans of each token, drawn in one pass.

    Args:
        size: of a token's sample.
        rng: the source of all randomness.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._size = size
        self._rng = rng
        self._counts: dict[int, int] = {}
        self.samples: dict[int, list[tuple[str, int, int]]] = {}

    def offer(self, text: str, span: TokenSpan) -> None:
        """Keep a span, in place of another one once the sample is full, or pass it over."""
        token, start, end = span
        sample = self.samples.setdefault(token, [])
        count = self._counts[token] = self._counts.get(token, 0) + 1
        if count <= self._size:
            sample.append((text, start, end))
            return
        replaced = int(self._rng.integers(count))
        if replaced < self._size:
            sample[replaced] = (text, start, end)


def sample_sentences(tokenizer: PreTrainedTokenizerFast, is_new: np.ndarray,
                     sentences: Iterable[Sentence], max_sentences: int,
                     rng: np.random.Generator) -> dict[str, list[TokenSpan]]:
    """Sample sentences that contain each new token, uniformly and in one pass.

    Keeps only the sampled sentences in memory. A token that occurs twice in a sentence counts
    once, at its first occurrence. A token that is a target anywhere gets its targets alone.

    Args:
        tokenizer: the new one.
        is_new: (vocabulary,) bool.
        sentences: the corpus; duplicates are as likely as they are frequent.
        max_sentences: sentences for a token, at most.
        rng: the source of all randomness.

    Returns:
        the occurrences in each sentence.
    """
    found, targeted = _Reservoirs(max_sentences, rng), _Reservoirs(max_sentences, rng)
    vocabulary = tokenizer.get_vocab()
    remaining = iter(sentences)
    while chunk := list(islice(remaining, _SENTENCES_AT_ONCE)):
        encodings = tokenizer.backend_tokenizer.encode_batch(
            [sentence.text for sentence in chunk], add_special_tokens=False)
        for sentence, encoding in zip(chunk, encodings, strict=True):
            spans = _new_token_spans(sentence.text, encoding, is_new)
            for span in _target_spans(sentence, encoding, is_new, vocabulary):
                targeted.offer(sentence.text, span)
                found.samples.pop(span[0], None)
            for span in spans:
                if span[0] not in targeted.samples:
                    found.offer(sentence.text, span)
    by_sentence: dict[str, list[TokenSpan]] = {}
    for token, sample in sorted({**found.samples, **targeted.samples}.items()):
        for text, start, end in sample:
            by_sentence.setdefault(text, []).append((token, start, end))
    return by_sentence


def _new_token_spans(text: str, encoding: Encoding, is_new: np.ndarray) -> list[TokenSpan]:
    """Find the first occurrence of each new token."""
    ids = np.array(encoding.ids, dtype=np.int64)
    positions = np.flatnonzero(is_new[ids])
    if not len(positions):
        return []
    offsets = encoding.offsets
    spans: dict[int, TokenSpan] = {}
    for position in positions.tolist():
        token = int(ids[position])
        if token not in spans:
            spans[token] = (token, *_strip(text, *offsets[position]))
    return list(spans.values())


def _target_spans(sentence: Sentence, encoding: Encoding, is_new: np.ndarray,
                  vocabulary: dict[str, int]) -> Iterator[TokenSpan]:
    """Find the new tokens of targets: the one at the same offsets, else the one spelled alike."""
    if not sentence.targets:
        return
    by_offsets = {_strip(sentence.text, *offsets): token for token, offsets in
                  zip(encoding.ids, encoding.offsets, strict=True) if is_new[token]}
    for word, start, end in sentence.targets:
        candidates = (by_offsets.get((start, end)),
                      *(vocabulary.get(mark + word) for mark in _WORD_START_MARKS))
        for token in candidates:
            if token is not None and is_new[token]:
                yield token, start, end
                break


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Exclude the space before a word, which some tokenizers count as part of it."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


def locate_pieces(base: Checkpoint, spans: dict[str, list[TokenSpan]]) -> Occurrences:
    """Tokenize sentences with the base's tokenizer and find the pieces of new tokens.

    Sentences that are too long for the base model are left out, and so are occurrences of which
    its tokenizer keeps nothing.
    """
    tokenizer = base.tokenizer
    found: list[tuple[np.ndarray, np.ndarray]] = []
    remaining = iter(spans)
    longest = max_tokens(base.model)
    while texts := list(islice(remaining, _SENTENCES_AT_ONCE)):
        encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            if len(encoding.ids) + 2 <= longest:
                pieces = _pieces(text, encoding.offsets, spans[text])
                if len(pieces):
                    found.append((np.array([tokenizer.cls_token_id, *encoding.ids,
                                            tokenizer.sep_token_id], dtype=np.int64), pieces))
    found.sort(key=lambda sentence: len(sentence[0]))
    counts = [len(pieces) for _, pieces in found]
    pieces = np.concatenate([np.zeros((0, 4), np.int64), *(pieces for _, pieces in found)])
    return Occurrences([ids for ids, _ in found], np.repeat(np.arange(len(found)), counts),
                       pieces[:, 0], pieces[:, 1], pieces[:, 2], pieces[:, 3].astype(bool))


def _pieces(text: str, offsets: Sequence[tuple[int, int]],
            spans: Sequence[TokenSpan]) -> np.ndarray:
    """Find the pieces that share a character with each span.

    Returns:
        (occurrences, 4), sorted by position: new id, position of the first piece, position after
        the last one, and 1 if these cover the span and nothing else.
    """
    if not offsets:
        return np.zeros((0, 4), dtype=np.int64)
    piece_starts, piece_ends = np.array(
        [_strip(text, *offset) for offset in offsets], dtype=np.int64).T
    tokens, starts, ends = np.array(spans, dtype=np.int64).T
    firsts = np.searchsorted(piece_ends, starts, side="right")
    stops = np.searchsorted(piece_starts, ends, side="left")
    kept = stops > firsts
    tokens, starts, ends, firsts, stops = (
        each[kept] for each in (tokens, starts, ends, firsts, stops))
    is_exact = (piece_starts[firsts] == starts) & (piece_ends[stops - 1] == ends)
    found = np.stack([tokens, firsts + 1, stops + 1, is_exact], axis=1)
    return found[np.argsort(firsts, kind="stable")]
