"""Predictors of masked tokens: the inputs they take and the logits they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from torch import Tensor

from bmtools.errors import RecordError
from bmtools.records import Record

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Reduced = TypeVar("Reduced")


@dataclass(frozen=True, slots=True)
class MaskedCopies:
    """A sequence and the spans to mask in it, each in a copy of its own.

    Args:
        input_ids: (tokens,) int64, special tokens included.
        spans: (copies, 2) int64, the masked positions of each copy: the first, and the end.
        predict_all: whether all masked positions of a copy are predicted, or the first alone.
    """

    input_ids: np.ndarray
    spans: np.ndarray
    predict_all: bool = False


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
        line_fields: further fields of result lines, known after the first prediction.
        tokenizer: makes the ids that the predictor reads and proposes.
        vocabulary: fingerprint of the tokenizer.
        max_tokens: longest sequence it takes, special tokens included.
    """

    name: str
    signature_fields: dict[str, str]
    line_fields: dict[str, Any]
    tokenizer: PreTrainedTokenizerBase
    vocabulary: str
    max_tokens: int

    def predict(self, inputs: Sequence[MaskedCopies],
                reduce: Callable[[MaskLogits], Reduced]) -> Iterator[Reduced]:
        """Predict each masked position once and yield what `reduce` makes of each batch's logits.

        Batches come in any order; `reduce` may run in several threads at a time.
        """
        ...


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
