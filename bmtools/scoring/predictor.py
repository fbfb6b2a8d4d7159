"""What predictors are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from torch import Tensor

from bmtools.errors import RecordError
from bmtools.records import Record

Digested = TypeVar("Digested")


@dataclass(frozen=True, slots=True)
class MaskedCopies:
    """A sentence and what to hide in it, in copies of their own.

    Args:
        ids: (tokens,) int64, special tokens included.
        spans: (copies, 2) int64: the first place that a copy hides, and the one behind the last.
        every: whether a copy is asked at every place that it hides, or at the first one alone.
    """

    ids: np.ndarray
    spans: np.ndarray
    every: bool = False


class MaskLogits(NamedTuple):
    """What stands at hidden places, according to a predictor.

    Args:
        sentences: (asked,) int64, indices of maskings.
        copies: (asked,) int64, which copy of that masking.
        positions: (asked,) int64, hidden place of each.
        logits: (asked, vocabulary) float32.
    """

    sentences: np.ndarray
    copies: np.ndarray
    positions: np.ndarray
    logits: Tensor


class Predictor(Protocol):
    """Something that can be asked what stands behind a mask.

    Attributes:
        name: how results call it.
        kind: what it is, for signatures: the precision of a model, or a kind of baseline.
        tokenizer: makes the ids that it reads and proposes.
        vocabulary: fingerprint of the tokenizer.
        max_tokens: longest sentence that it takes, special tokens included.
        notes: what results say of it beside its scores, known once it was asked.
    """

    name: str
    kind: dict[str, str]
    notes: dict[str, Any]
    tokenizer: Any
    vocabulary: str
    max_tokens: int

    def answers(self, maskings: Sequence[MaskedCopies],
                digest: Callable[[MaskLogits], Digested]) -> Iterator[Digested]:
        """Ask at each place once, in batches of any order, and yield what `digest` makes of each.

        `digest` may run in other threads, several at a time.
        """
        ...


def mask_each(ids: np.ndarray, places: np.ndarray) -> MaskedCopies:
    """Hide each of some places alone."""
    return MaskedCopies(ids, np.stack([places, places + 1], axis=1))


def check_length(predictor: Predictor, record: Record, tokens: int, way_out: str) -> None:
    """Refuse a sentence that a predictor cannot read whole.

    Raises:
        RecordError: names both lengths and the way out.
    """
    if tokens > predictor.max_tokens:
        raise RecordError(
            record.place, f"found {tokens} tokens, but {predictor.name} takes at most "
            f"{predictor.max_tokens}, special ones included; {way_out}", record)


def special_ids(tokenizer: Any) -> set[int]:
    """Ids that are marks rather than text; the unknown token stands for text and is none."""
    roles = ("pad", "cls", "sep", "bos", "eos", "mask")
    return {getattr(tokenizer, f"{role}_token_id") for role in roles} - {None}
