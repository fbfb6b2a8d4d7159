"""What models make of words in their surroundings: one vector for each place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import torch

from bmtools.errors import BmtoolsError, DataError
from bmtools.models.checkpoint import Checkpoint, load_masked_lm, max_tokens
from bmtools.models.context_embeddings import Located, Place, gather, locate
from bmtools.models.hardware import resolve_device
from bmtools.models.settings import parse_layers
from bmtools.scoring.space_sample import WordContext, cut_context
from bmtools.scoring.space_settings import StateReadingConfig

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_FRAME = 2  # special tokens around what is read


@dataclass(frozen=True)
class StateReader:
    """A checkpoint whose states are read.

    Args:
        checkpoint: on its device.
        layers: whose states, as in `EmbeddingSpaceConfig`.
        passes: how many tokens at a time, and in what precision.
    """

    checkpoint: Checkpoint
    layers: str
    passes: StateReadingConfig

    def vectors(self, located: Located) -> np.ndarray:
        """Average the states over the pieces of each word: (places, width) float32."""
        dtype = _DTYPES.get(self.passes.precision)
        kind = self.checkpoint.model.device.type
        with torch.autocast(kind, dtype=dtype, enabled=dtype is not None):
            found = gather(self.checkpoint, located, self.layers, self.passes.batch_tokens)
        return found.vectors.numpy()


@dataclass(frozen=True)
class WordVectors:
    """What one model made of the places that all models saw.

    Args:
        contexts: (places,) numbers of contexts, ascending; the same for all models.
        vectors: (places, width) float32.
        pieces: (places,) how many tokens the word is to the model.
        unknown: (places,) bool, whether one of them is the unknown token.
    """

    contexts: np.ndarray
    vectors: np.ndarray
    pieces: np.ndarray
    unknown: np.ndarray


def load_reader(directory: Path, layers: str, passes: StateReadingConfig) -> StateReader:
    """Load a masked language model whose states are to be read.

    Raises:
        CheckpointError: see `load_masked_lm`.
        BmtoolsError: a layer that the model does not have, or an unknown or absent device.
    """
    checkpoint = load_masked_lm(directory, resolve_device(passes.device))
    last = checkpoint.model.config.num_hidden_layers
    for number in parse_layers(layers) or ():
        if not -last - 1 <= number <= last:
            raise BmtoolsError(f"--layers: found {number}, but {directory} has layers 1 to {last}, "
                               "and 0 for its embeddings")
    return StateReader(checkpoint, layers, passes)


def are_whole(forms: Sequence[str], readers: Sequence[StateReader]) -> np.ndarray:
    """Tell which words, as they are written behind a space, are one token to every model, bool."""
    whole = np.ones(len(forms), dtype=bool)
    for reader in readers:
        encodings = reader.checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
            [f" {form}" for form in forms], add_special_tokens=False)
        unknown = reader.checkpoint.tokenizer.unk_token_id
        whole &= [len(one.ids) == 1 and one.ids[0] != unknown for one in encodings]
    return whole


def narrow(contexts: Sequence[WordContext], readers: Sequence[StateReader],
           reach: int) -> list[WordContext]:
    """Halve the surroundings of words until every model reads them; for all models alike.

    Args:
        contexts: left as they are where they fit.
        readers: all models.
        reach: characters on either side of words, as they were cut.
    """
    fitting = list(contexts)
    pending = list(range(len(fitting)))
    while pending and reach:
        pending = sorted(set[int]().union(*(_too_long(fitting, pending, reader.checkpoint)
                                            for reader in readers)))
        reach //= 2
        for number in pending:
            fitting[number] = cut_context(fitting[number], reach)
    return fitting


def _too_long(contexts: Sequence[WordContext], pending: Sequence[int],
              checkpoint: Checkpoint) -> set[int]:
    encodings = checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
        [contexts[number].text for number in pending], add_special_tokens=False)
    longest = max_tokens(checkpoint.model) - _FRAME
    return {number for number, encoding in zip(pending, encodings, strict=True)
            if len(encoding.ids) > longest}


def read_all(contexts: Sequence[WordContext],
             readers: Sequence[StateReader]) -> Iterator[WordVectors]:
    """Give each model's vectors of the places that all models see; each reads them in turn.

    Source: Ethayarajh 2019, section 3; words in several pieces are means over them, as in
    Pavlova and Makhlouf 2023 (BIOptimus), equation 1.

    Raises:
        DataError: there is no place that all models see.
    """
    places: dict[str, list[Place]] = {}
    for number, context in enumerate(contexts):
        places.setdefault(context.text, []).append((number, context.start, context.end))
    located = [locate(reader.checkpoint, places) for reader in readers]
    seen = reduce(np.intersect1d, (one.tokens for one in located), np.arange(len(contexts)))
    if not len(seen):
        raise DataError("found no word that all models see; they take too few tokens, or none of "
                        "these characters")
    for reader, one in zip(readers, located, strict=True):
        kept = one.select(np.isin(one.tokens, seen))
        order = np.argsort(kept.tokens)
        unknown = _unknown(kept, reader.checkpoint.tokenizer.unk_token_id)
        yield WordVectors(seen, reader.vectors(kept), (kept.ends - kept.firsts)[order],
                          unknown[order])


def _unknown(located: Located, unknown_id: int | None) -> np.ndarray:
    return np.array([unknown_id in located.ids[sentence][first:end] for sentence, first, end in zip(
        located.sentences, located.firsts, located.ends, strict=True)], dtype=bool)
