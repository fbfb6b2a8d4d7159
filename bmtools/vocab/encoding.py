"""From text to token ids that know where words begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

_TEXTS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text.

    Args:
        ids: (tokens,) int32, no special tokens added.
        starts: (tokens,) bool, True where a word begins.
    """

    ids: np.ndarray
    starts: np.ndarray


def encode(tokenizer: Any, texts: Iterable[str]) -> Iterator[Encoded]:
    """Encode texts in order; words are those of the tokenizer's own pre-tokenizer.

    That is right for WordPiece, byte-level BPE and Metaspace alike, where offsets are not: some
    post-processors leave the space before a word inside its token, others do not.
    """
    backend = tokenizer.backend_tokenizer
    pending = iter(texts)
    while chunk := list(islice(pending, _TEXTS_AT_ONCE)):
        for encoding in backend.encode_batch(chunk, add_special_tokens=False):
            words = np.array([-1 if w is None else w for w in encoding.word_ids], dtype=np.int32)
            starts = np.ones(len(words), dtype=bool)
            starts[1:] = (words[1:] != words[:-1]) | (words[1:] < 0)
            yield Encoded(np.array(encoding.ids, dtype=np.int32), starts)
