"""Additions of relation extraction to an encoder: marker tokens, and a head over two mentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from tokenizers import AddedToken
from torch import Tensor, nn
from transformers import PreTrainedModel

from bmtools.models.architectures import token_embeddings
from bmtools.models.checkpoint import Checkpoint
from bmtools.tasks.heads import Head
from bmtools.vocab.tokenizer import fingerprint


class PairHead(Head):
    """A linear layer over the joined states of two mentions.

    Source: Gu et al. 2021, section 6.5; Baldini Soares et al. 2019, figure 3 (e) and (f).
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.output = nn.Linear(2 * inputs, outputs)

    def forward(self, states: Tensor) -> Tensor:
        """Pass states on; `classify` needs the mentions, too."""
        return states

    def classify(self, states: Tensor, mentions: Tensor) -> Tensor:
        """Compute logits, (batch, labels).

        Args:
            states: (batch, tokens, hidden size).
            mentions: (batch, 2, tokens) bool, True on the tokens of head and tail.
        """
        masked = states[:, None].masked_fill(~mentions[..., None], -torch.inf)
        logits: Tensor = self.output(masked.amax(dim=2).flatten(1))
        return logits


def add_tokens(checkpoint: Checkpoint, tokens: Sequence[str]) -> tuple[Checkpoint, list[int]]:
    """Give a checkpoint tokens that it lacks; its tokenizer and embeddings are changed in place.

    Returns:
        the checkpoint with its new fingerprint, and the ids of new tokens, whose embeddings
        `draw_embeddings` makes.
    """
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    known = tokenizer.get_vocab()
    if not (new := [token for token in tokens if token not in known]):
        return checkpoint, []
    # Special tokens in a text are read as text, these must not be; case folding leaves them alone.
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in new])
    if len(tokenizer) > model.config.vocab_size:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return (replace(checkpoint, vocabulary=fingerprint(tokenizer)),
            [tokenizer.get_vocab()[token] for token in new])


def draw_embeddings(model: PreTrainedModel, ids: Sequence[int], seed: int) -> None:
    """Draw the embeddings of new tokens from a seed, as those of a new model."""
    rng = torch.Generator().manual_seed(seed)
    weight = token_embeddings(model).weight
    with torch.no_grad():
        weight[list(ids)] = torch.empty(len(ids), weight.shape[1]).normal_(
            std=model.config.initializer_range, generator=rng)
