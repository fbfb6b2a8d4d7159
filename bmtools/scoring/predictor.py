"""Predictors of masked tokens: their inputs and logits, and the unigram baseline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.jsonl import RecordReader
from bmtools.records import Record
from bmtools.vocab.encoding import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Reduced = TypeVar("Reduced")
_TEXTS_AT_ONCE = 1_000
_BATCH_SIZE = 64


@dataclass(frozen=True, slots=True)
class MaskedCopies:
    """A sequence and the spans to mask in it, each in a copy of its own.

    Args:
        input_ids: (tokens,) int64, special tokens included.
        spans: (copies, 2) int64, the masked positions of each copy: the first, which is predicted,
            and the end.
    """

    input_ids: np.ndarray
    spans: np.ndarray


class MaskLogits(NamedTuple):
    """A predictor's logits at masked positions.

    Args:
        sequences: (predictions,) int64, index of the sequence of each.
        positions: (predictions,) int64, masked position of each.
        logits: (predictions, vocabulary) float32.
    """

    sequences: np.ndarray
    positions: np.ndarray
    logits: Tensor


class Predictor(Protocol):
    """A model that predicts masked tokens.

    Attributes:
        name: name in results.
        signature_fields: fields that signatures show: the precision, or the kind of a baseline.
        measured: further keys of its lines, complete once it has predicted.
        tokenizer: makes the ids that the predictor reads and proposes.
        vocabulary: fingerprint of the tokenizer.
        max_tokens: longest sequence it takes, special tokens included.
    """

    name: str
    signature_fields: dict[str, str]
    measured: dict[str, dict[str, float]]
    tokenizer: PreTrainedTokenizerBase
    vocabulary: str
    max_tokens: int

    def predict(self, inputs: Sequence[MaskedCopies],
                reduce: Callable[[MaskLogits], Reduced]) -> Iterator[Reduced]:
        """Predict each copy's first mask and yield what `reduce` makes of each batch's logits.

        Batches come in any order; `reduce` may run in several threads at a time.
        """
        ...


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
        self.measured: dict[str, dict[str, float]] = {}
        self.tokenizer = model.tokenizer
        self.vocabulary = model.vocabulary
        self.max_tokens = sys.maxsize
        logits = np.log(counts + 1.0)
        logits[sorted(special_ids(model.tokenizer))] = -np.inf
        self._logits = torch.from_numpy(logits).float()

    def predict(self, inputs: Sequence[MaskedCopies],
                reduce: Callable[[MaskLogits], Reduced]) -> Iterator[Reduced]:
        """Yield what `reduce` makes of the same logits at every masked position."""
        masked = [(index, start) for index, copies in enumerate(inputs)
                  for start in copies.spans[:, 0].tolist()]
        for start in range(0, len(masked), _BATCH_SIZE):
            batch = np.array(masked[start:start + _BATCH_SIZE], dtype=np.int64)
            yield reduce(MaskLogits(batch[:, 0], batch[:, 1], self._logits.expand(len(batch), -1)))


def count_frequencies(source: str | PathLike[str], predictors: Sequence[Predictor],
                      reject: Reject = refuse) -> list[UnigramPredictor]:
    """Count the tokens of a file's texts once for each distinct vocabulary among predictors.

    Raises:
        DataError: there is no text to count.
    """
    distinct = list({predictor.vocabulary: predictor for predictor in predictors}.values())
    counts = [np.zeros(1 + max(predictor.tokenizer.get_vocab().values())) for predictor in distinct]
    texts = (record["text"] for record in RecordReader([str(source)], reject))
    while chunk := list(islice(texts, _TEXTS_AT_ONCE)):
        for predictor, count in zip(distinct, counts, strict=True):
            ids = np.concatenate([encoded.ids for encoded in encode(predictor.tokenizer, chunk)])
            count += np.bincount(ids, minlength=len(count))
    if not all(count.any() for count in counts):
        raise DataError(f"{source}: no words to count; expected records with text")
    return [UnigramPredictor(str(source), predictor, count)
            for predictor, count in zip(distinct, counts, strict=True)]


def check_length(predictor: Predictor, record: Record, tokens: int, hint: str) -> None:
    """Refuse a sequence that a predictor cannot take whole.

    Raises:
        RecordError: names both lengths and the way out.
    """
    if tokens > predictor.max_tokens:
        raise RecordError(
            record.place, f"found {tokens} tokens, but {predictor.name} takes at most "
            f"{predictor.max_tokens}, special ones included; {hint}", record)


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """List the ids of special tokens, but for the unknown token, which is text."""
    roles = ("pad", "cls", "sep", "bos", "eos", "mask")
    return {getattr(tokenizer, f"{role}_token_id") for role in roles} - {None}
