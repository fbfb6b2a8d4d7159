"""What a model scores that knows how frequent tokens are, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from bmtools.errors import DataError
from bmtools.records import Record
from bmtools.scoring.predictor import Digested, MaskedCopies, MaskLogits, Predictor, special_ids
from bmtools.vocab.encoding import encode

_TEXTS_AT_ONCE = 1_000
_ROWS_AT_ONCE = 64


class UnigramPredictor:
    """Unigram frequencies as a predictor, the same for every mask.

    The probability of a token is its count plus one over the sum of these (add-one smoothing);
    special tokens are never proposed.

    Args:
        name: what was counted.
        like: predictor whose vocabulary this one shares.
        counts: (vocabulary,) how often each token was seen.
    """

    def __init__(self, name: str, like: Predictor, counts: np.ndarray) -> None:
        self.name = f"frequency of {name}"
        self.kind = {"baseline": "unigram+1"}
        self.notes: dict[str, Any] = {}
        self.tokenizer = like.tokenizer
        self.vocabulary = like.vocabulary
        self.max_tokens = sys.maxsize
        weights = np.log(counts + 1.0)
        weights[sorted(special_ids(like.tokenizer))] = -np.inf
        self._logits = torch.from_numpy(weights).float()

    def answers(self, maskings: Sequence[MaskedCopies],
                digest: Callable[[MaskLogits], Digested]) -> Iterator[Digested]:
        """Yield what `digest` makes of the same logits for every hidden place."""
        asked = [(number, copy, place) for number, masking in enumerate(maskings)
                 for copy, (first, end) in enumerate(masking.spans.tolist())
                 for place in range(first, end if masking.every else first + 1)]
        for start in range(0, len(asked), _ROWS_AT_ONCE):
            rows = np.array(asked[start:start + _ROWS_AT_ONCE], dtype=np.int64)
            sentences, copies, places = rows.T
            yield digest(MaskLogits(sentences, copies, places,
                                    self._logits.expand(len(rows), -1)))


def count_frequencies(records: Iterable[Record], predictors: Sequence[Predictor],
                      name: str) -> list[UnigramPredictor]:
    """Count the tokens of texts once for each distinct vocabulary among predictors.

    Raises:
        DataError: there is no text to count.
    """
    distinct = list({predictor.vocabulary: predictor for predictor in predictors}.values())
    counts = [np.zeros(1 + max(predictor.tokenizer.get_vocab().values()))
              for predictor in distinct]
    for texts in _chunks(records):
        for predictor, count in zip(distinct, counts, strict=True):
            ids = np.concatenate([text.ids for text in encode(predictor.tokenizer, texts)])
            count += np.bincount(ids, minlength=len(count))
    if not all(count.any() for count in counts):
        raise DataError(f"{name}: no words to count; expected records with text")
    return [UnigramPredictor(name, predictor, count)
            for predictor, count in zip(distinct, counts, strict=True)]


def _chunks(records: Iterable[Record]) -> Iterator[list[str]]:
    texts = []
    for record in records:
        texts.append(record["text"])
        if len(texts) == _TEXTS_AT_ONCE:
            yield texts
            texts = []
    if texts:
        yield texts
