"""Contextual embeddings of tokens that a model lacks: its states at their pieces, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from bmtools.errors import BmtoolsError, setting
from bmtools.models.architectures import first_position
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.settings import parse_layers
from bmtools.models.token_contexts import Occurrences


class TokenEmbeddings(NamedTuple):
    """Embeddings of some tokens: (tokens,) int64 ids and (tokens, hidden size) vectors."""

    tokens: Tensor
    vectors: Tensor


@torch.inference_mode()
def contextual_embeddings(base: Checkpoint, occurrences: Occurrences, layers: str,
                          batch_tokens: int) -> TokenEmbeddings:
    """Average the base model's states at a token's pieces, then over its sentences.

    Each sentence is read once for all its tokens; sentences of similar length share a batch.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), section 3, equations 1 and 2.

    Args:
        base: a masked language model.
        occurrences: of the tokens.
        layers: whose states to average; the paper's is the last one.
        batch_tokens: of a batch.
    """
    tokens, rows = np.unique(occurrences.tokens, return_inverse=True)
    device = base.model.device
    sums = torch.zeros(len(tokens), base.model.config.hidden_size)
    for first, end in occurrences.batches(batch_tokens):
        input_ids, attention_mask = pad_sequences(occurrences.input_ids[first:end],
                                                  base.tokenizer.pad_token_id)
        states = mean_states(base.model, layers, attention_mask.to(device),
                             input_ids=input_ids.to(device)).cpu()
        inside = occurrences.within(first, end)
        starts = (occurrences.sentences[inside] - first) * states.shape[1] \
            + occurrences.starts[inside]
        sizes = occurrences.ends[inside] - occurrences.starts[inside]
        offsets = np.cumsum(sizes) - sizes
        pieces = np.repeat(starts - offsets, sizes) + np.arange(sizes.sum())
        vectors = torch.nn.functional.embedding_bag(
            torch.from_numpy(pieces), states.flatten(0, 1), torch.from_numpy(offsets), mode="mean")
        sums.index_add_(0, torch.from_numpy(rows[inside]), vectors)
    counts = torch.from_numpy(np.bincount(rows, minlength=len(tokens)))
    return TokenEmbeddings(torch.from_numpy(tokens), sums / counts[:, None])


def pad_sequences(sequences: Sequence[np.ndarray], padding: int) -> tuple[Tensor, Tensor]:
    """Pad sequences of ids to (sequences, tokens), and make their attention mask, bool."""
    lengths = np.array([len(sequence) for sequence in sequences])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, padding, dtype=np.int64)
    ids[mask] = np.concatenate(sequences)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def mean_states(model: PreTrainedModel, layers: str, attention_mask: Tensor, *,
                input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
                positions: Tensor | None = None) -> Tensor:
    """Average the states of some layers, (sequences, tokens, hidden size) float32.

    The last layer's are those that the head reads, after a final layer norm if there is one.

    Args:
        model: a masked language model that has these layers (`check_layers`).
        layers: as in `TransferConfig`.
        attention_mask: (sequences, tokens) bool, False on padding.
        input_ids: (sequences, tokens), or None.
        inputs_embeds: (sequences, tokens, hidden size) in place of ids.
        positions: (sequences, tokens), counted from 0; None for consecutive ones.
    """
    numbers = parse_layers(layers)
    output = model.base_model(
        input_ids=input_ids, inputs_embeds=inputs_embeds, attention_mask=attention_mask.long(),
        position_ids=None if positions is None else positions + first_position(model.config),
        output_hidden_states=numbers != (-1,))
    last: Tensor = output.last_hidden_state
    if numbers == (-1,):
        return last.float()
    states = (*output.hidden_states[:-1], last)
    return torch.stack(states if numbers is None else [states[number] for number in numbers]) \
        .float().mean(dim=0)


def check_layers(config: PretrainedConfig, layers: str, name: object = "the base") -> None:
    """Refuse layers that a model does not have.

    Args:
        config: of the model.
        layers: as in `TransferConfig`.
        name: of the model in messages.

    Raises:
        BmtoolsError: see above.
    """
    last = config.num_hidden_layers
    for number in parse_layers(layers) or ():
        if not -last - 1 <= number <= last:
            raise BmtoolsError(f"{setting('layers')}: found {number}, but {name} has layers 1 to "
                               f"{last}, and 0 for its embeddings")
