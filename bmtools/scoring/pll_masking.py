"""What to hide in a text so that each of its tokens is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bmtools.keyed_random import derive, uniforms
from bmtools.scoring.predictor import MaskedCopies

_SAMPLING = 1


@dataclass(frozen=True)
class EncodedSentence:
    """A text as a model reads it.

    Args:
        ids: (tokens,) int64, special tokens included.
        words: (tokens,) int64, number of the word that a token belongs to; tokens of no word have
            a number of their own.
        asked: (asked,) int64, places of all tokens but special ones, ascending.
        head, tail: special tokens that the tokenizer puts before and behind a text.
    """

    ids: np.ndarray
    words: np.ndarray
    asked: np.ndarray
    head: int
    tail: int


def encode_sentence(encoding: Any, special: Sequence[int]) -> EncodedSentence:
    """Tell what there is to ask about in an encoded text.

    Args:
        encoding: of the tokenizer, with special tokens.
        special: ids that are marks rather than text, wherever they stand.
    """
    ids = np.array(encoding.ids, dtype=np.int64)
    added = np.array(encoding.special_tokens_mask, dtype=bool)
    inner = np.flatnonzero(~added)
    words = np.array([-1 - place if word is None else word
                      for place, word in enumerate(encoding.word_ids)], dtype=np.int64)
    head, tail = (int(inner[0]), len(ids) - 1 - int(inner[-1])) if len(inner) else (len(ids), 0)
    return EncodedSentence(ids, words, np.flatnonzero(~(added | np.isin(ids, special))), head, tail)


def spans_of(sentence: EncodedSentence, variant: str) -> np.ndarray:
    """Say what each copy of a sentence hides, (copies, 2): first place, and end.

    Sources: Salazar et al. 2020, section 2 (original); Kauf and Ivanova 2023, section 3
    (within-word: left to right within a word; whole-word).

    Args:
        sentence: to be scored.
        variant: one of `VARIANTS`. Special tokens and marks inside a word end it.
    """
    places = sentence.asked
    if variant == "original":
        return np.stack([places, places + 1], axis=1)
    words = sentence.words[places]
    starts = np.ones(len(places), dtype=bool)
    starts[1:] = (words[1:] != words[:-1]) | (places[1:] != places[:-1] + 1)
    ends = np.append(places[np.flatnonzero(starts)[1:] - 1], places[-1:]) + 1
    if variant == "whole-word":
        return np.stack([places[starts], ends], axis=1)
    return np.stack([places, ends[np.cumsum(starts) - 1]], axis=1)


def sample_spans(spans: np.ndarray, share: float, name: str, seed: int) -> np.ndarray:
    """Keep a share of the copies, drawn by the sentence's name and a seed, whatever came before.

    Args:
        spans: what copies hide.
        share: probability of each.
        name: tells the sentence from others, also from those of the same text.
        seed: of the draw.
    """
    if share == 1:
        return spans
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
    keys = derive(seed, key)
    return spans[uniforms(keys, np.arange(len(spans)), _SAMPLING) < share]


def split_into_windows(sentence: EncodedSentence, spans: np.ndarray, every: bool, most: int,
                       context: int) -> list[MaskedCopies]:
    """Lay a sentence out as rows that a model takes; one that fits is one row.

    A longer one is read through a sliding window, with the special tokens around each part, and
    each span is asked in one window, in which it sees at least `context` tokens on either side,
    where the text has them.

    Args:
        sentence: to be scored.
        spans: what copies of it hide.
        every: see `MaskedCopies`.
        most: tokens of a row, special ones included.
        context: tokens; twice as many, and the longest span, must fit into a row.

    Raises:
        ValueError: they do not fit.
    """
    if len(sentence.ids) <= most:
        return [MaskedCopies(sentence.ids, spans, every)]
    first, end = sentence.head, len(sentence.ids) - sentence.tail
    room = most - sentence.head - sentence.tail
    longest = int((spans[:, 1] - spans[:, 0]).max(initial=1))
    step = room - 2 * context - longest + 1
    if step < 1:
        raise ValueError(f"found a context of {context} tokens, expected at most "
                         f"{max(0, (room - longest) // 2)}")
    begins = np.append(np.arange(first, end - room, step), end - room)
    # The last window that begins early enough; what stands near the beginning is in the first.
    chosen = np.searchsorted(begins, spans[:, 0] - context, side="right") - 1
    chosen = chosen.clip(min=0)
    return [_part(sentence, spans[chosen == number], begin, begin + room, every)
            for number, begin in enumerate(begins.tolist()) if (chosen == number).any()]


def _part(sentence: EncodedSentence, spans: np.ndarray, begin: int, end: int,
          every: bool) -> MaskedCopies:
    """Cut a window out of a sentence."""
    ids = np.concatenate([sentence.ids[:sentence.head], sentence.ids[begin:end],
                          sentence.ids[len(sentence.ids) - sentence.tail:]])
    return MaskedCopies(ids, spans - begin + sentence.head, every)
