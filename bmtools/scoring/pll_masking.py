"""Masking for pseudo-log-likelihood: spans that together predict each token of a text once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bmtools.errors import setting
from bmtools.keyed_random import derive, uniforms
from bmtools.scoring.predictor import MaskedCopies
from bmtools.scoring.settings import PpplConfig, Variant

if TYPE_CHECKING:
    from tokenizers import Encoding

_SAMPLING = 1


@dataclass(frozen=True)
class EncodedSentence:
    """A text as a model reads it.

    Args:
        input_ids: (tokens,) int64, special tokens included.
        word_ids: (tokens,) int64, number of each token's word; tokens outside words have a
            number of their own.
        positions: (scored,) int64, positions of all tokens but special ones, ascending.
        prefix_length, suffix_length: special tokens that the tokenizer puts before and behind a
            text.
    """

    input_ids: np.ndarray
    word_ids: np.ndarray
    positions: np.ndarray
    prefix_length: int
    suffix_length: int


def encode_sentence(encoding: Encoding, special: Sequence[int]) -> EncodedSentence:
    """Find the positions to score in an encoded text.

    Args:
        encoding: of the tokenizer, with special tokens.
        special: ids of special tokens, which are not scored wherever they occur.
    """
    input_ids = np.array(encoding.ids, dtype=np.int64)
    added = np.array(encoding.special_tokens_mask, dtype=bool)
    inner = np.flatnonzero(~added)
    word_ids = np.array([-1 - position if word is None else word
                         for position, word in enumerate(encoding.word_ids)], dtype=np.int64)
    prefix, suffix = (int(inner[0]), len(input_ids) - 1 - int(inner[-1])) if len(inner) \
        else (len(input_ids), 0)
    return EncodedSentence(input_ids, word_ids,
                           np.flatnonzero(~(added | np.isin(input_ids, special))), prefix, suffix)


def masked_spans(sentence: EncodedSentence, variant: Variant) -> np.ndarray:
    """Choose the span that each copy of a sentence masks, (copies, 2): first position and end.

    Special tokens inside a word end it.

    Sources: Salazar et al. 2020, section 2 (original); Kauf and Ivanova 2023, section 3
    (within-word: left to right within a word; whole-word).
    """
    positions = sentence.positions
    if variant == "original":
        return np.stack([positions, positions + 1], axis=1)
    words = sentence.word_ids[positions]
    begins = np.ones(len(positions), dtype=bool)
    begins[1:] = (words[1:] != words[:-1]) | (positions[1:] != positions[:-1] + 1)
    ends = np.append(positions[np.flatnonzero(begins)[1:] - 1], positions[-1:]) + 1
    if variant == "whole-word":
        return np.stack([positions[begins], ends], axis=1)
    return np.stack([positions, ends[np.cumsum(begins) - 1]], axis=1)


def sample_spans(spans: np.ndarray, share: float, name: str, seed: int) -> np.ndarray:
    """Sample spans; the draw depends on the sentence's name and a seed alone.

    Args:
        spans: (copies, 2).
        share: probability of each.
        name: tells the sentence from others, also from those of the same text.
        seed: of the draw.
    """
    if share == 1:
        return spans
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
    return spans[uniforms(derive(seed, key), np.arange(len(spans)), _SAMPLING) < share]


def split_into_windows(sentence: EncodedSentence, spans: np.ndarray, config: PpplConfig,
                       max_tokens: int) -> list[MaskedCopies]:
    """Cut a sentence into sequences that a model takes; one that fits stays whole.

    A longer one is read through a sliding window, with the special tokens around each part. Each
    span is predicted in one window, in which it sees at least `config.context_tokens` on either
    side, where the text has them.

    Args:
        sentence: to be scored.
        spans: masked in copies of it.
        config: variant and context.
        max_tokens: longest sequence, special tokens included.

    Raises:
        ValueError: twice the context and the longest span do not fit into a sequence.
    """
    predict_all = config.variant == "whole-word"
    ids, context = sentence.input_ids, config.context_tokens
    if len(ids) <= max_tokens:
        return [MaskedCopies(ids, spans, predict_all)]
    prefix, end = sentence.prefix_length, len(ids) - sentence.suffix_length
    room = max_tokens - prefix - sentence.suffix_length
    longest = int((spans[:, 1] - spans[:, 0]).max(initial=1))
    stride = room - 2 * context - longest + 1
    if stride < 1:
        raise ValueError(f"{setting('context_tokens')}: found {context}, expected at most "
                         f"{max(0, (room - longest) // 2)}")
    starts = np.append(np.arange(prefix, end - room, stride), end - room)
    # The last window that starts early enough; spans near the beginning are in the first.
    chosen = np.searchsorted(starts, spans[:, 0] - context, side="right") - 1
    chosen = chosen.clip(min=0)
    return [MaskedCopies(np.concatenate([ids[:prefix], ids[start:start + room], ids[end:]]),
                         spans[chosen == number] - start + prefix, predict_all)
            for number, start in enumerate(starts.tolist()) if (chosen == number).any()]
