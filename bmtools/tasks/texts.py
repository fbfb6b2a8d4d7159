"""Inputs that are one text or a pair of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bmtools.data.masking.corruption import IGNORED
from bmtools.tasks.task import encode_texts, pad, pad_ids

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase



@dataclass(frozen=True, slots=True)
class TextInput:
    """A text, or a pair of texts, ready for a model.

    Args:
        ids: (tokens,) int32, special tokens included.
        token_type_ids: (tokens,) int32, 1 on the second text and its last special token.
        truncated: tokens that were cut off.
        target: what the outputs are trained towards; IGNORED where there is no label, or the
            training set lacks it.
    """

    ids: np.ndarray
    token_type_ids: np.ndarray
    truncated: int
    target: np.ndarray = field(default_factory=lambda: np.array(IGNORED))

    def __len__(self) -> int:
        return len(self.ids)


class PairEncoder:
    """Special tokens around one text or two, and segments where the model has them.

    BERT reads `[CLS] a [SEP] b [SEP]`, RoBERTa `<s> a </s></s> b </s>`: the format is that of the
    tokenizer's post-processor, BERT's without one.

    Args:
        tokenizer: of the model.
        config: of the model.
        max_length: most tokens, special tokens included.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig,
                 max_length: int) -> None:
        self._tokenizer = tokenizer
        backend = tokenizer.backend_tokenizer
        self._max_length = max_length
        self._has_segments = getattr(config, "type_vocab_size", 0) > 1
        empty = backend.encode("", add_special_tokens=False)
        special = [token for token in backend.post_process(empty, empty).ids
                   if token in tokenizer.all_special_ids]
        self._between = special[1:-1] or [tokenizer.sep_token_id]

    def encode(self, texts: Sequence[tuple[str, str | None]]) -> Iterator[TextInput]:
        """Encode texts, each with a second one or None, in order."""
        encodings = encode_texts(self._tokenizer, (text for pair in texts for text in pair
                                                   if text is not None))
        for _, second in texts:
            first = next(encodings).ids
            yield self._join(first, None if second is None else next(encodings).ids)

    def _join(self, first: Sequence[int], second: Sequence[int] | None) -> TextInput:
        """Truncate the tokens of one text or two to fit and put special tokens around them."""
        between = [] if second is None else self._between
        texts = first, second or ()
        sizes = longest_first(len(texts[0]), len(texts[1]), self._max_length - 2 - len(between))
        kept = [text[:size] for text, size in zip(texts, sizes, strict=True)]
        ids, types = self.frame(kept[0], None if second is None else kept[1])
        return TextInput(ids, types, sum(map(len, texts)) - sum(sizes))

    def frame(self, first: Sequence[int] | np.ndarray,
              second: Sequence[int] | np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Put special tokens around the tokens of one text or two.

        Returns:
            ids and token_type_ids, (tokens,) int32 each.
        """
        between = [] if second is None else self._between
        ids = np.array([self._tokenizer.cls_token_id, *first, *between,
                        *(() if second is None else second), self._tokenizer.sep_token_id],
                       dtype=np.int32)
        types = np.zeros_like(ids)
        if second is not None:
            types[len(ids) - len(second) - 1:] = 1
        return ids, types

    @property
    def pair_tokens(self) -> int:
        """Special tokens around and between two texts."""
        return 2 + len(self._between)

    def collate(self, inputs: Sequence[TextInput]) -> dict[str, np.ndarray]:
        """Pad inputs to the longest: arguments of the model, (batch, tokens) int64 each."""
        batch = pad_ids([item.ids for item in inputs], self._tokenizer.pad_token_id)
        if self._has_segments:
            batch["token_type_ids"] = pad([item.token_type_ids for item in inputs], 0)
        return batch


def longest_first(first: int, second: int, size: int) -> tuple[int, int]:
    """Truncate two lengths to a sum of at most `size`, always taking from the longer one."""
    shorter, longer = sorted((first, second))
    shorter = min(shorter, max(size // 2, size - longer))
    longer = min(longer, size - shorter)
    return (shorter, longer) if first <= second else (longer, shorter)
