"""One text or two as one input: special tokens, segments and truncation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np

from bmtools.tasks.task import pad

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

TruncationSide = Literal["right", "left"]
_TEXTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class TextInput:
    """A text, or a pair of texts, ready for a model.

    Args:
        ids: (tokens,) int32, special tokens included.
        token_type_ids: (tokens,) int32, 1 on the second text and its last special token.
        truncated: tokens that were cut off.
    """

    ids: np.ndarray
    token_type_ids: np.ndarray
    truncated: int

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class PairFormat:
    """Special tokens around one text or two, and segments where the model has them.

    BERT reads `[CLS] a [SEP] b [SEP]`, RoBERTa `<s> a </s></s> b </s>`.

    Args:
        cls: id of the token before the first text.
        between: ids of the tokens between two texts.
        sep: id of the token at the end.
        pad: id of the token that fills a batch.
        has_segments: the model has embeddings of a second segment.
    """

    cls: int
    between: tuple[int, ...]
    sep: int
    pad: int
    has_segments: bool

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> PairFormat:
        """Read the format off a tokenizer's post-processor; without one it is BERT's."""
        backend = tokenizer.backend_tokenizer
        empty = backend.encode("", add_special_tokens=False)
        framed = backend.post_process(empty, empty).ids
        special = [token for token in framed if token in tokenizer.all_special_ids]
        between = tuple(special[1:-1]) or (tokenizer.sep_token_id,)
        return cls(tokenizer.cls_token_id, between, tokenizer.sep_token_id,
                   tokenizer.pad_token_id, getattr(config, "type_vocab_size", 0) > 1)

    def join(self, first: Sequence[int], second: Sequence[int] | None, max_length: int,
             side: TruncationSide = "right") -> TextInput:
        """Truncate the tokens of one text or two to fit and put special tokens around them.

        Args:
            first: ids of the first text.
            second: ids of the second one, if there is one.
            max_length: most tokens, special tokens included.
            side: end that a text loses tokens from.
        """
        room = max_length - 2 - (0 if second is None else len(self.between))
        sizes = (min(len(first), room), 0) if second is None \
            else longest_first(len(first), len(second), room)
        ids = [self.cls, *_cut(first, sizes[0], side)]
        if second is not None:
            ids += [*self.between, *_cut(second, sizes[1], side)]
        ids.append(self.sep)
        types = np.zeros(len(ids), dtype=np.int32)
        if second is not None:
            types[len(ids) - sizes[1] - 1:] = 1
        return TextInput(np.array(ids, dtype=np.int32), types,
                         len(first) + len(second or ()) - sum(sizes))

    def collate(self, inputs: Sequence[TextInput]) -> dict[str, np.ndarray]:
        """Pad inputs to the longest: arguments of the model, (batch, tokens) int64 each."""
        batch = {"input_ids": pad([item.ids for item in inputs], self.pad),
                 "attention_mask": pad([np.ones_like(item.ids) for item in inputs], 0)}
        if self.has_segments:
            batch["token_type_ids"] = pad([item.token_type_ids for item in inputs], 0)
        return batch


def longest_first(first: int, second: int, size: int) -> tuple[int, int]:
    """Truncate two lengths to a sum of at most `size`, always taking from the longer one."""
    shorter, longer = sorted((first, second))
    shorter = min(shorter, max(size // 2, size - longer))
    longer = min(longer, size - shorter)
    return (shorter, longer) if first <= second else (longer, shorter)


def _cut(text: Sequence[int], size: int, side: TruncationSide) -> Sequence[int]:
    return text[len(text) - size:] if side == "left" else text[:size]


def encode_pairs(tokenizer: PreTrainedTokenizerBase, frame: PairFormat,
                 texts: Sequence[tuple[str, str | None]], max_length: int,
                 side: TruncationSide = "right") -> Iterator[TextInput]:
    """Encode texts, each with a second one or None; some at a time, in order."""
    pending = iter(texts)
    while chunk := list(islice(pending, _TEXTS_AT_ONCE)):
        flat = [text for pair in chunk for text in pair if text is not None]
        encodings = iter(tokenizer.backend_tokenizer.encode_batch(flat, add_special_tokens=False))
        for _, pair in chunk:
            first = next(encodings).ids
            second = None if pair is None else next(encodings).ids
            yield frame.join(first, second, max_length, side)
