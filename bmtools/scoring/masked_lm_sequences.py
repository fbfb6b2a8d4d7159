"""Texts cut into rows, of which some tokens are hidden, as pretraining does both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bmtools.keyed_random import derive
from bmtools.masking.corruption import MaskedTokens, corrupt
from bmtools.masking.coverage import Coverage, count_coverage
from bmtools.masking.segmenters import word_marker
from bmtools.masking.strategies import MaskStrategy, make_strategy
from bmtools.masking.terms import TermList, spellings
from bmtools.masking.token_batch import TokenBatch
from bmtools.records import Record
from bmtools.scoring.masked_lm_settings import Combination, MaskedLmLossConfig
from bmtools.vocab.encoding import EncodedTexts, Encoder

SPECIALS = 2
"""Special tokens of a row: one opens it, one closes it."""
_WORD_SLACK = 16


@dataclass(frozen=True, eq=False)
class Sequences:
    """Texts cut into rows, end to end, without special tokens.

    Args:
        ids: (tokens,) int64.
        starts: (tokens,) bool, True where a word begins.
        maskable: (tokens,) bool, False on unknown tokens and on marks that stand in the text.
        borders: (rows + 1,) where each row begins, and where the last one ends.
        texts: (rows,) number of the text that a row is of.
        keys: (rows,) uint64, what masks are drawn from.
    """

    ids: np.ndarray
    starts: np.ndarray
    maskable: np.ndarray
    borders: np.ndarray
    texts: np.ndarray
    keys: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """(rows,) tokens of each."""
        return np.diff(self.borders)

    def drawn(self, draw: int) -> TokenBatch:
        """Give the rows as what masks are drawn for, with keys of their own for each draw."""
        sample = np.repeat(np.arange(len(self.texts)), self.lengths)
        return TokenBatch(self.ids, self.starts, self.maskable, sample, derive(self.keys, draw))


class SequenceMasker:
    """Reads texts with one vocabulary, and hides some of their tokens.

    What is hidden in a text depends on its id, its words, the seed and the draw, and on nothing
    else: not on the texts around it, nor on the model that is asked. Of two rates the higher one
    hides what the lower one does, and more, but where a budget ends; corruption changes nothing
    about what is hidden.

    Args:
        tokenizer: of the models that are asked.
        settings: how texts are cut, and what is hidden.
        terms: words and phrases for masking by terms.
        seed: of masks.

    Raises:
        BmtoolsError: no such segmenter, or one whose package is not installed.
        ValueError: terms are needed, and there are none.
    """

    def __init__(self, tokenizer: Any, settings: MaskedLmLossConfig,
                 terms: Sequence[str] = (), seed: int = 0) -> None:
        self._encoder = Encoder(tokenizer.backend_tokenizer, word_marker(settings.segmenter))
        self._special = np.array(sorted(tokenizer.all_special_ids))
        self._ordinary = np.setdiff1d(np.arange(len(tokenizer)), self._special)
        self._mask = tokenizer.mask_token_id
        self._longest = settings.max_tokens - SPECIALS
        self._seed = seed
        listed = TermList(spellings(tokenizer, terms)) if terms else None
        self._picks: dict[str, MaskStrategy] = {name: make_strategy(name, terms=listed)
                                                for name in settings.maskings()}

    def encode(self, records: Sequence[Record]) -> EncodedTexts:
        """Encode titles and texts."""
        return self._encoder.encode([_full_text(record) for record in records])

    def maskable_counts(self, found: EncodedTexts) -> np.ndarray:
        """Count the tokens of each text that may be hidden, (texts,)."""
        texts = np.repeat(np.arange(len(found.lengths)), found.lengths)
        return np.bincount(texts, weights=self._is_maskable(found.ids),
                           minlength=len(found.lengths)).astype(np.int64)

    def rows(self, found: EncodedTexts, keys: np.ndarray) -> Sequences:
        """Cut texts into rows.

        Args:
            found: texts, each with a token at least.
            keys: (texts,) of `text_keys`.
        """
        borders, texts = cut(found.lengths, found.starts, self._longest)
        firsts = borders[:-1] - (np.cumsum(found.lengths) - found.lengths)[texts]
        return Sequences(found.ids.astype(np.int64), found.starts, self._is_maskable(found.ids),
                         borders, texts, derive(self._seed, keys[texts], firsts))

    def hide(self, rows: Sequences, combination: Combination, draw: int) -> tuple[MaskedTokens,
                                                                                  Coverage]:
        """Hide some tokens, and count how many."""
        text = rows.drawn(draw)
        picked = self._picks[combination.masking](text, combination.mask_rate)
        return (corrupt(text, picked, self._mask, self._ordinary, combination.shares),
                count_coverage(text, picked))

    def _is_maskable(self, ids: np.ndarray) -> np.ndarray:
        return ~np.isin(ids, self._special)


def cut(lengths: np.ndarray, starts: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut texts that are too long into few pieces of like length, where words begin.

    Words of many tokens are cut, too, where no border is near.

    Args:
        lengths: (texts,) tokens of each, 1 or more.
        starts: (tokens,) bool, True where a word begins.
        longest: tokens of a piece.

    Returns:
        (pieces + 1,) where each begins, and where the last one ends; (pieces,) numbers of texts.
    """
    slack = min(_WORD_SLACK, longest // 8)
    counts = np.where(lengths <= longest, 1, -(-lengths // (longest - slack)))
    texts = np.repeat(np.arange(len(lengths)), counts)
    numbers = np.arange(len(texts)) - (np.cumsum(counts) - counts)[texts]
    begins = (np.cumsum(lengths) - lengths)[texts] + numbers * lengths[texts] // counts[texts]
    words = np.maximum.accumulate(np.where(starts, np.arange(len(starts)), -1))[begins]
    moved = np.where((numbers > 0) & (begins - words <= slack), words, begins)
    return np.append(moved, len(starts)), texts


def text_keys(records: Sequence[Record]) -> np.ndarray:
    """Make keys of records by their ids and texts, (records,) uint64."""
    digests = (hashlib.blake2b(f"{record['id']}\n{_full_text(record)}".encode(), digest_size=8)
               for record in records)
    return np.array([int.from_bytes(one.digest(), "little") for one in digests], dtype=np.uint64)


def _full_text(record: Record) -> str:
    """What pretraining reads of a record: its title, if it has one, a line break and its text."""
    return f"{record['title']}\n{record['text']}" if record.get("title") else str(record["text"])
