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
    """A sequence and the spans to mask in it, each in a separate copy.

    Args:
        input_ids: (tokens,) int64, including special tokens.
        spans: (copies, 2) int64, the masked positions of each copy: the first one, which is
            predicted, and the end.
    """

    input_ids: np.ndarray
    spans: np.ndarray


class MaskLogits(NamedTuple):
    """A predictor's logits at masked positions.

    Args:
        sequences: (predictions,) int64, index of each prediction's sequence.
        positions: (predictions,) int64, masked position of each prediction.
        logits: (predictions, vocabulary) float32.
    """

    sequences: np.ndarray
    positions: np.ndarray
    logits: Tensor


class Predictor(Protocol):
    """A model that predicts masked tokens.

    Attributes:
        name: name in results.
        signature_fields: fields shown in signatures: the precision, or the kind of a baseline.
        measured: further keys for its lines; complete after prediction.
        tokenizer: tokenizer of the predictor's input and proposals.
        vocabulary: fingerprint of the tokenizer.
        max_tokens: maximum sequence length, including special tokens.
    """

    name: str
    signature_fields: dict[str, str]
    measured: dict[str, dict[str, float]]
    tokenizer: PreTrainedTokenizerBase
    vocabulary: str
    max_tokens: int

    def predict(self, inputs: Sequence[MaskedCopies],
                reduce: Callable[[MaskLogits], Reduced]) -> Iterator[Reduced]:
        """Predict each copy's first mask and yield the result of `reduce` for each batch's logits.

        Batches come in any order; `reduce` may run in several threads at the same time.
        """
        ...


class UnigramPredictor:
    """Unigram frequencies as predictor, the same for every mask; see `Predictor`.

    The probability of a token is its count plus one, divided by the sum over all tokens (add-one
    smoothing). Special tokens are never proposed.

    Args:
        source: name of the counted text.
        model: predictor with the same vocabulary.
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
        """Yield the result of `reduce` for the same logits at every masked position."""
        masked = [(index, start) for index, copies in enumerate(inputs)
                  for start in copies.spans[:, 0].tolist()]
        for start in range(0, len(masked), _BATCH_SIZE):
            batch = np.array(masked[start:start + _BATCH_SIZE], dtype=np.int64)
            yield reduce(MaskLogits(batch[:, 0], batch[:, 1], self._logits.expand(len(batch), -1)))


def count_frequencies(source: str | PathLike[str], predictors: Sequence[Predictor],
                      reject: Reject = refuse) -> list[UnigramPredictor]:
    """Count the tokens of a file's texts once for each distinct vocabulary of the predictors.

    Raises:
        DataError: if there is no text to count.
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
    """Raise an error for a sequence that is too long for a predictor.

    Raises:
        RecordError: names both lengths and a fix.
    """
    if tokens > predictor.max_tokens:
        raise RecordError(
            record.place, f"found {tokens} tokens, but {predictor.name} reads at most "
            f"{predictor.max_tokens}, including special tokens; {hint}", record)


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """List the ids of special tokens, except the unknown token, which represents text."""
    roles = ("pad", "cls", "sep", "bos", "eos", "mask")
    return {getattr(tokenizer, f"{role}_token_id") for role in roles} - {None}
