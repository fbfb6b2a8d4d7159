"""Unigram baseline: a predictor that knows token frequencies and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from bmtools.errors import DataError
from bmtools.records import Record
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Predictor, Reduced, special_ids
from bmtools.vocab.encoding import encode

_TEXTS_AT_ONCE = 1_000
_BATCH_SIZE = 64


class UnigramPredictor:
    """Unigram frequencies as predictor, the same at every mask; see `Predictor`.

    The probability of a token is its count plus one over the sum of these (add-one smoothing);
    special tokens are never proposed.

    Args:
        source: name of the counted text.
        model: predictor whose vocabulary this one shares.
        counts: (vocabulary,) occurrences of each token.
    """

    def __init__(self, source: str, model: Predictor, counts: np.ndarray) -> None:
        self.name = f"frequency of {source}"
        self.signature_fields = {"baseline": "unigram+1"}
        self.line_fields: dict[str, Any] = {}
        self.tokenizer = model.tokenizer
        self.vocabulary = model.vocabulary
        self.max_tokens = sys.maxsize
        logits = np.log(counts + 1.0)
        logits[sorted(special_ids(model.tokenizer))] = -np.inf
        self._logits = torch.from_numpy(logits).float()

    def predict(self, inputs: Sequence[MaskedCopies],
                reduce: Callable[[MaskLogits], Reduced]) -> Iterator[Reduced]:
        """Yield what `reduce` makes of the same logits at every masked position."""
        masked = [(index, position) for index, copies in enumerate(inputs)
                  for start, end in copies.spans.tolist()
                  for position in range(start, end if copies.predict_all else start + 1)]
        for start in range(0, len(masked), _BATCH_SIZE):
            batch = np.array(masked[start:start + _BATCH_SIZE], dtype=np.int64)
            yield reduce(MaskLogits(batch[:, 0], batch[:, 1], self._logits.expand(len(batch), -1)))


def count_frequencies(records: Iterable[Record], predictors: Sequence[Predictor],
                      source: str) -> list[UnigramPredictor]:
    """Count the tokens of texts once for each distinct vocabulary among predictors.

    Raises:
        DataError: there is no text to count.
    """
    distinct = list({predictor.vocabulary: predictor for predictor in predictors}.values())
    counts = [np.zeros(1 + max(predictor.tokenizer.get_vocab().values()))
              for predictor in distinct]
    texts = (record["text"] for record in records)
    while chunk := list(islice(texts, _TEXTS_AT_ONCE)):
        for predictor, count in zip(distinct, counts, strict=True):
            ids = np.concatenate([encoded.ids for encoded in encode(predictor.tokenizer, chunk)])
            count += np.bincount(ids, minlength=len(count))
    if not all(count.any() for count in counts):
        raise DataError(f"{source}: no words to count; expected records with text")
    return [UnigramPredictor(source, predictor, count)
            for predictor, count in zip(distinct, counts, strict=True)]
