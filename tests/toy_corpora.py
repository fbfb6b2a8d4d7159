"""Corpora in memory, made from single documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bmtools.data.shards import Corpus, DocumentBatch
from bmtools.ragged import offsets


class EncodedDocument(NamedTuple):
    """Ids and word starts, (tokens,) each, and first tokens of sentences, if known."""

    ids: np.ndarray
    word_starts: np.ndarray
    sentences: Sequence[int] | np.ndarray | None = None


def concatenate(documents: Iterable[EncodedDocument]) -> DocumentBatch:
    """Concatenate documents; skip documents without tokens."""
    kept = [one for one in documents if len(one.ids)]
    lengths = np.array([len(one.ids) for one in kept], dtype=np.int64)
    sentences = None if kept[0].sentences is None else np.concatenate(
        [np.asarray(one.sentences, dtype=np.int64) + origin
         for one, origin in zip(kept, offsets(lengths)[:-1], strict=True)])
    return DocumentBatch(np.concatenate([np.asarray(one.ids) for one in kept]),
                         np.concatenate([np.asarray(one.word_starts, dtype=bool) for one in kept]),
                         lengths, sentences)


def corpus_of(documents: Iterable[EncodedDocument], vocabulary: str = "") -> Corpus:
    """Return a corpus in memory."""
    return Corpus.of(concatenate(documents), vocabulary)
