"""Next-sentence prediction: a head beside a masked language model."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import AutoModelForPreTraining, PreTrainedModel

from bmtools.errors import CheckpointError

FOLLOWS, RANDOM = 0, 1
_CHECKPOINT_NAMES = {"pooler.weight": "bert.pooler.dense.weight",
                   "pooler.bias": "bert.pooler.dense.bias",
                   "relationship.weight": "cls.seq_relationship.weight",
                   "relationship.bias": "cls.seq_relationship.bias"}


class NextSentenceHead(nn.Module):
    """Classifier of the first token's state: does the second segment follow the first?

    Trained beside a masked language model, whose checkpoint does not need it.

    Source: Devlin et al. 2019, section 3.1, task 2; Shoeybi et al. 2020 (Megatron-LM) the same.

    Args:
        hidden_size: of the states.
        seed: of the new weights.
        std: standard deviation of the new weights, as in the model.
    """

    def __init__(self, hidden_size: int, seed: int = 0, std: float = 0.02) -> None:
        super().__init__()
        # Without weights at first: torch would draw them from its global generator.
        self.pooler = nn.utils.skip_init(nn.Linear, hidden_size, hidden_size)
        self.relationship = nn.utils.skip_init(nn.Linear, hidden_size, 2)
        rng = torch.Generator().manual_seed(seed)
        for layer in (self.pooler, self.relationship):
            nn.init.normal_(layer.weight, std=std, generator=rng)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Score FOLLOWS and RANDOM, (batch, tokens, hidden size) to (batch, 2)."""
        scores: Tensor = self.relationship(torch.tanh(self.pooler(states[:, 0])))
        return scores

    def cross_entropy_sum(self, states: Tensor, relationships: Tensor) -> Tensor:
        """Sum the cross-entropy over pairs, in nats.

        Args:
            states: (batch, tokens, hidden size) last-layer states.
            relationships: (batch,) int64, FOLLOWS or RANDOM.

        Returns:
            a scalar, float32.
        """
        return nn.functional.cross_entropy(self(states).float(), relationships, reduction="sum")


def load_nsp_head(head: NextSentenceHead, weights: dict[str, Tensor]) -> bool:
    """Copy a head from a checkpoint's weights, if they contain one that fits.

    Args:
        head: receives the weights.
        weights: by their names in a BERT or Megatron-BERT checkpoint.

    Returns:
        True if the weights were there.
    """
    found = {ours: weights[theirs] for ours, theirs in _CHECKPOINT_NAMES.items()
             if theirs in weights}
    expected = {name: weight.shape for name, weight in head.state_dict().items()}
    if {name: weight.shape for name, weight in found.items()} != expected:
        return False
    head.load_state_dict(found)
    return True


def join_nsp_head(model: PreTrainedModel, head: NextSentenceHead) -> PreTrainedModel:
    """Join a masked language model and its head in transformers' own class for both.

    Args:
        model: a BERT or Megatron-BERT masked language model.
        head: trained beside it.

    Returns:
        a BertForPreTraining or MegatronBertForPreTraining; its weights are copies.

    Raises:
        CheckpointError: transformers has no such class for the architecture.
    """
    if model.config.model_type not in ("bert", "megatron-bert"):
        raise CheckpointError(f"{type(model).__name__}: cannot be saved with a next-sentence head, "
                              "expected a BERT or Megatron-BERT")
    joined: PreTrainedModel = AutoModelForPreTraining.from_config(model.config)
    weights = {**model.state_dict(),
               **{_CHECKPOINT_NAMES[name]: weight for name, weight in head.state_dict().items()}}
    joined.load_state_dict(weights)
    return joined.train(model.training)
