"""Telling whether one text follows another: a head beside a masked language model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForPreTraining

from bmtools.errors import CheckpointError

FOLLOWS, RANDOM = 0, 1
_IN_CHECKPOINTS = {"pooler.weight": "bert.pooler.dense.weight",
                   "pooler.bias": "bert.pooler.dense.bias",
                   "relationship.weight": "cls.seq_relationship.weight",
                   "relationship.bias": "cls.seq_relationship.bias"}


class NextSentenceHead(nn.Module):
    """Tell from the first token's state whether the second segment follows the first.

    Trained beside a masked language model, whose checkpoint does without it.

    Source: Devlin et al. 2019, section 3.1, task 2; Shoeybi et al. 2020 (Megatron-LM) the same.

    Args:
        width: of the states.
        seed: of the new weights.
        deviation: standard deviation of the new weights, as in the model.
    """

    def __init__(self, width: int, seed: int = 0, deviation: float = 0.02) -> None:
        super().__init__()
        # Made without weights first: torch's own would be drawn from its common generator.
        self.pooler = nn.utils.skip_init(nn.Linear, width, width)
        self.relationship = nn.utils.skip_init(nn.Linear, width, 2)
        rng = torch.Generator().manual_seed(seed)
        for layer in (self.pooler, self.relationship):
            nn.init.normal_(layer.weight, std=deviation, generator=rng)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Score FOLLOWS and RANDOM, (batch, tokens, width) to (batch, 2)."""
        return self.relationship(torch.tanh(self.pooler(states[:, 0])))

    def cross_entropy_sum(self, states: Tensor, relationships: Tensor) -> Tensor:
        """Sum the cross-entropy over pairs, in nats.

        Args:
            states: (batch, tokens, width) last-layer states.
            relationships: (batch,) int64, FOLLOWS or RANDOM.

        Returns:
            a scalar, float32.
        """
        return nn.functional.cross_entropy(self(states).float(), relationships, reduction="sum")


def load_nsp_head(head: NextSentenceHead, weights: dict[str, Tensor]) -> bool:
    """Copy a head from a checkpoint's weights, if they hold one that fits.

    Args:
        head: gets the weights.
        weights: by their names in a BERT or Megatron-BERT checkpoint.

    Returns:
        whether the weights were there.
    """
    found = {ours: weights[theirs] for ours, theirs in _IN_CHECKPOINTS.items()
             if theirs in weights}
    wanted = {name: weight.shape for name, weight in head.state_dict().items()}
    if {name: weight.shape for name, weight in found.items()} != wanted:
        return False
    head.load_state_dict(found)
    return True


def join_nsp_head(model: Any, head: NextSentenceHead) -> Any:
    """Join a masked language model and its head in transformers' own class for both.

    Args:
        model: a BERT or Megatron-BERT masked language model.
        head: trained beside it.

    Returns:
        a BertForPreTraining or MegatronBertForPreTraining; its weights are copies.

    Raises:
        CheckpointError: an architecture that transformers knows no such class of.
    """
    if model.config.model_type not in ("bert", "megatron-bert"):
        raise CheckpointError(f"{type(model).__name__}: cannot be saved with a next-sentence head, "
                              "expected a BERT or Megatron-BERT")
    joined = AutoModelForPreTraining.from_config(model.config)
    weights = {**model.state_dict(),
               **{_IN_CHECKPOINTS[name]: weight for name, weight in head.state_dict().items()}}
    joined.load_state_dict(weights)
    return joined.train(model.training)
