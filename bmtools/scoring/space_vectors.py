"""Hidden states of words in context: one vector for each occurrence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import torch

from bmtools.errors import DataError
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import Checkpoint, load_checkpoint
from bmtools.models.context_embeddings import (
    Occurrences,
    TokenSpan,
    check_layers,
    contextual_embeddings,
    locate_pieces,
)
from bmtools.models.hardware import resolve_device
from bmtools.scoring.checkpoint_predictor import AUTOCAST_DTYPES
from bmtools.scoring.settings import StateReadingConfig
from bmtools.scoring.space_sample import WordContext, cut_context

_SPECIAL_TOKENS = 2  # around a context


@dataclass(frozen=True)
class StateReader:
    """Reader of a checkpoint's hidden states.

    Args:
        checkpoint: on its device.
        layers: to average, as in `EmbeddingSpaceConfig`.
        inference: size and precision of passes.
    """

    checkpoint: Checkpoint
    layers: str
    inference: StateReadingConfig

    def vectors(self, occurrences: Occurrences) -> np.ndarray:
        """Average the states over the tokens of each word: (occurrences, width) float32."""
        dtype = AUTOCAST_DTYPES.get(self.inference.precision)
        kind = self.checkpoint.model.device.type
        with torch.autocast(kind, dtype=dtype, enabled=dtype is not None):
            found = contextual_embeddings(self.checkpoint, occurrences, self.layers,
                                          self.inference.batch_tokens)
        return found.vectors.numpy()


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


def load_reader(directory: Path, layers: str, inference: StateReadingConfig) -> StateReader:
    """Load a masked language model to read its hidden states.

    Raises:
        CheckpointError: see `load_checkpoint`.
        BmtoolsError: a layer that the model does not have, or an unknown or absent device.
    """
    checkpoint = load_checkpoint(directory, resolve_device(inference.device))
    check_layers(checkpoint.model.config, layers, directory)
    return StateReader(checkpoint, layers, inference)


def are_single_tokens(forms: Sequence[str], readers: Sequence[StateReader]) -> np.ndarray:
    """Check which words, as they are written after a space, are one token to every model, bool."""
    single = np.ones(len(forms), dtype=bool)
    for reader in readers:
        encodings = reader.checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
            [f" {form}" for form in forms], add_special_tokens=False)
        unknown = reader.checkpoint.tokenizer.unk_token_id
        single &= [len(one.ids) == 1 and one.ids[0] != unknown for one in encodings]
    return single


def fit_contexts(contexts: Sequence[WordContext], readers: Sequence[StateReader],
                 reach: int) -> list[WordContext]:
    """Halve contexts until every model can read them; the same for all models.

    Args:
        contexts: unchanged where they fit.
        readers: all models.
        reach: characters on either side of words, as the contexts were cut.
    """
    fitting = list(contexts)
    pending = set(range(len(fitting)))
    while pending and reach:
        texts = {number: fitting[number].text for number in sorted(pending)}
        pending = set()
        for reader in readers:
            encodings = reader.checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
                list(texts.values()), add_special_tokens=False)
            longest = max_tokens(reader.checkpoint.model) - _SPECIAL_TOKENS
            pending |= {number for number, encoding in zip(texts, encodings, strict=True)
                        if len(encoding.ids) > longest}
        reach //= 2
        for number in pending:
            fitting[number] = cut_context(fitting[number], reach)
    return fitting


def read_vectors(contexts: Sequence[WordContext],
                 readers: Sequence[StateReader]) -> Iterator[WordVectors]:
    """Yield each model's vectors of the occurrences that all models can read.

    Source: Ethayarajh 2019, section 3; words of several tokens are means over them, as in
    Pavlova and Makhlouf 2023 (BIOptimus), equation 1.

    Raises:
        DataError: there is no occurrence that all models can read.
    """
    spans: dict[str, list[TokenSpan]] = {}
    for number, context in enumerate(contexts):
        spans.setdefault(context.text, []).append((number, context.start, context.end))
    located = [locate_pieces(reader.checkpoint, spans) for reader in readers]
    common = reduce(np.intersect1d, (one.tokens for one in located), np.arange(len(contexts)))
    if not len(common):
        raise DataError("found no word that all models can read; they take too few tokens, or "
                        "none of these characters")
    for reader, one in zip(readers, located, strict=True):
        kept = one.select(np.isin(one.tokens, common))
        order = np.argsort(kept.tokens)
        unknown_id = reader.checkpoint.tokenizer.unk_token_id
        unknown = np.array([
            unknown_id in kept.input_ids[sentence][start:end]
            for sentence, start, end in zip(kept.sentences, kept.starts, kept.ends, strict=True)
        ], dtype=bool)
        yield WordVectors(common, reader.vectors(kept), (kept.ends - kept.starts)[order],
                          unknown[order])
