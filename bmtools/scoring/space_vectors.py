"""Hidden states of words in context: one vector for each occurrence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch

from bmtools.errors import DataError
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import Checkpoint, autocast_dtype
from bmtools.models.transfer.context_embeddings import (
    TokenSpan,
    contextual_embeddings,
    locate_pieces,
)
from bmtools.scoring.settings import StateReadingConfig
from bmtools.scoring.space_sample import WordContext, cut_context

_SPECIAL_TOKENS = 2  # around a context


@dataclass(frozen=True)
class WordVectors:
    """One model's vectors of the occurrences that all models can read.

    Args:
        contexts: (occurrences,) indices of contexts, ascending; the same for all models.
        vectors: (occurrences, width) float32.
        token_counts: (occurrences,) tokens of the word in the model's vocabulary.
        unknown: (occurrences,) bool, whether one of them is the unknown token.
    """

    contexts: np.ndarray
    vectors: np.ndarray
    token_counts: np.ndarray
    unknown: np.ndarray


def are_single_tokens(forms: Sequence[str], checkpoints: Sequence[Checkpoint]) -> np.ndarray:
    """Check which words, as they are written after a space, are one token to every model, bool."""
    single = np.ones(len(forms), dtype=bool)
    for checkpoint in checkpoints:
        encodings = checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
            [f" {form}" for form in forms], add_special_tokens=False)
        unknown = checkpoint.tokenizer.unk_token_id
        single &= [len(one.ids) == 1 and one.ids[0] != unknown for one in encodings]
    return single


def fit_contexts(contexts: Sequence[WordContext], checkpoints: Sequence[Checkpoint],
                 reach: int) -> list[WordContext]:
    """Halve contexts until every model can read them; the same for all models.

    Args:
        contexts: unchanged where they fit.
        checkpoints: all models.
        reach: characters on either side of words, as the contexts were cut.
    """
    fitting = list(contexts)
    pending = set(range(len(fitting)))
    while pending and reach:
        texts = {number: fitting[number].text for number in sorted(pending)}
        pending = set()
        for checkpoint in checkpoints:
            encodings = checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
                list(texts.values()), add_special_tokens=False)
            longest = max_tokens(checkpoint.model) - _SPECIAL_TOKENS
            pending |= {number for number, encoding in zip(texts, encodings, strict=True)
                        if len(encoding.ids) > longest}
        reach //= 2
        for number in pending:
            fitting[number] = cut_context(fitting[number], reach)
    return fitting


def read_vectors(contexts: Sequence[WordContext], checkpoints: Sequence[Checkpoint], layers: str,
                 inference: StateReadingConfig) -> Iterator[WordVectors]:
    """Yield each model's vectors of the occurrences that all models can read.

    Source: Ethayarajh 2019, section 3; words of several tokens are means over them, as in
    Pavlova and Makhlouf 2023 (BIOptimus), equation 1.

    Args:
        contexts: of the words.
        checkpoints: each on its device.
        layers: to average, as in `EmbeddingSpaceConfig`.
        inference: size and precision of passes.

    Raises:
        DataError: there is no occurrence that all models can read.
    """
    spans: dict[str, list[TokenSpan]] = {}
    for number, context in enumerate(contexts):
        spans.setdefault(context.text, []).append((number, context.start, context.end))
    located = [locate_pieces(checkpoint, spans) for checkpoint in checkpoints]
    common = reduce(np.intersect1d, (one.tokens for one in located), np.arange(len(contexts)))
    if not len(common):
        raise DataError("found no word that all models can read; they take too few tokens, or "
                        "none of these characters")
    for checkpoint, one in zip(checkpoints, located, strict=True):
        kept = one.select(np.isin(one.tokens, common))
        order = np.argsort(kept.tokens)
        unknown_id = checkpoint.tokenizer.unk_token_id
        unknown = np.array([
            unknown_id in kept.input_ids[sentence][start:end]
            for sentence, start, end in zip(kept.sentences, kept.starts, kept.ends, strict=True)
        ], dtype=bool)
        dtype = autocast_dtype(checkpoint, inference.precision)
        with torch.autocast(checkpoint.model.device.type, dtype=dtype, enabled=dtype is not None):
            found = contextual_embeddings(checkpoint, kept, layers, inference.batch_tokens)
        yield WordVectors(common, found.vectors.numpy(), (kept.ends - kept.starts)[order],
                          unknown[order])
