"""Head for sentence pairs, trained and saved together with a masked language model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bmtools.io.failures import reading
from bmtools.models.inference_files import require_finite
from bmtools.models.model_files import stored_tensors, weight_names

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_FAMILIES = ("bert", "megatron-bert")
# Names in transformers' classes for pretraining.
_NAMES = {f"{ours}.{kind}": f"{theirs}.{kind}" for kind in ("weight", "bias")
          for ours, theirs in (("pooler", "bert.pooler.dense"),
                               ("relationship", "cls.seq_relationship"))}


class NextSentenceHead(nn.Module):
    """Classifier of the first token's state: does the second segment follow the first?

    It serves next-sentence and sentence-order prediction, which differ in the negative examples.

    Source: Devlin et al. 2019, section 3.1, task 2; also Shoeybi et al. 2020 (Megatron-LM).

    Args:
        hidden_size: size of the states.
        seed: seed for the new weights.
        std: standard deviation of the new weights, as in the model.
    """

    def __init__(self, hidden_size: int, seed: int = 0, std: float = 0.02) -> None:
        super().__init__()
        # Start without weights, because torch would sample them with its global generator.
        self.pooler = nn.utils.skip_init(nn.Linear, hidden_size, hidden_size)
        self.relationship = nn.utils.skip_init(nn.Linear, hidden_size, 2)
        rng = torch.Generator().manual_seed(seed)
        for layer in (self.pooler, self.relationship):
            nn.init.normal_(layer.weight, std=std, generator=rng)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Score "follows" and "does not", (batch, tokens, hidden size) to (batch, 2)."""
        scores: Tensor = self.relationship(torch.tanh(self.pooler(states[:, 0])))
        return scores


def is_saved(config: PretrainedConfig) -> bool:
    """Return whether checkpoints of a model's family can contain the head."""
    return config.model_type in _FAMILIES


def read_head(directory: Path, model: PreTrainedModel) -> NextSentenceHead | None:
    """Read the head that a checkpoint contains; None if it has none.

    Args:
        directory: directory of the checkpoint.
        model: its masked language model.

    Raises:
        CheckpointError: weights do not fit the model or are not finite.
    """
    if not is_saved(model.config) \
            or not weight_names(directory).issuperset(_NAMES.values()):
        return None
    head = NextSentenceHead(model.config.hidden_size)
    with reading(directory, "the head of next-sentence prediction cannot be read",
                 "expected the head of this model"):
        tensors = stored_tensors(directory)
        weights = {ours: tensors[theirs]().float() for ours, theirs in _NAMES.items()}
        head.load_state_dict(weights)
    require_finite(directory, weights)
    return head


def join_head(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> PreTrainedModel:
    """Join a masked language model and its head in transformers' class for pretraining.

    Args:
        model: its weights are shared with the result; models of other families are returned
            unchanged.
        weights: weights of the head by name; may be empty.
    """
    if not weights or not is_saved(model.config):
        return model
    from transformers import AutoModelForPreTraining

    with torch.device("meta"):
        joined: PreTrainedModel = AutoModelForPreTraining.from_config(model.config)
    joined.load_state_dict({**model.state_dict(),
                            **{_NAMES[name]: value for name, value in weights.items()}},
                           assign=True)
    joined.tie_weights()
    return joined
