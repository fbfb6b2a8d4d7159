"""The weights that a run trains and keeps.

A fine-tuning set has a part of the vocabulary, while a step clears, measures and updates the
gradient of all embeddings: of a small model an eighth of its time. So a run trains the embeddings
of the tokens that it reads. Rows that no input names have no gradient, so AdamW does nothing to
them but weight decay, which is made up for at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.models.offload import WeightsFile
from bmtools.recipes.settings import FreezeConfig, RegularizationConfig
from bmtools.tasks.run_settings import FinetunePlan
from bmtools.tasks.task import AnySplit, AnyTask, Evaluation

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class PartialEmbedding(nn.Module):
    """Some rows of an embedding, looked up by the numbers that they have in the whole.

    Args:
        whole: of all tokens; it is left as it is.
        tokens: (rows,) int64 ascending, those to keep.
    """

    rows: Tensor

    def __init__(self, whole: nn.Embedding, tokens: Tensor) -> None:
        super().__init__()
        rows = torch.full((whole.num_embeddings,), -1)
        rows[tokens] = torch.arange(len(tokens))
        self.register_buffer("rows", rows, persistent=False)
        self.weight = nn.Parameter(whole.weight.detach()[tokens], whole.weight.requires_grad)
        self._padding = None if whole.padding_idx is None else int(rows[whole.padding_idx])

    def forward(self, ids: Tensor) -> Tensor:
        """Embed ids, (batch, tokens); those that are not kept raise an IndexError."""
        return functional.embedding(self.rows[ids], self.weight, self._padding)


def read_tokens(plan: FinetunePlan, task: AnyTask, splits: Mapping[str, AnySplit]) -> Tensor | None:
    """Collect the ids of all sets' tokens, (tokens,) int64 ascending.

    Returns:
        the ids; None unless AdamW trains all weights and nothing else changes them.
    """
    if plan.regularization != RegularizationConfig() or plan.freezing != FreezeConfig() \
            or plan.optimization.optimizer != "adamw":
        return None
    special = np.array(task.checkpoint.tokenizer.all_special_ids, dtype=np.int64)
    seen = [item.ids for split in splits.values() for item in split.inputs]
    return torch.from_numpy(np.unique(np.concatenate([*seen, special])).astype(np.int64))


def shrink(model: PreTrainedModel, tokens: Tensor | None) -> nn.Embedding | None:
    """Leave a model the embeddings of these tokens only.

    Returns:
        its whole embedding; None if it stays, as without tokens.
    """
    whole = model.get_input_embeddings()
    names = [name for name, module in model.named_modules() if module is whole]
    if tokens is None or type(whole) is not nn.Embedding or len(names) != 1 \
            or model.get_output_embeddings() is not None:
        return None
    model.set_submodule(names[0], PartialEmbedding(whole, tokens))
    return whole


@dataclass
class Best:
    """The best evaluation of a seed; the highest `rank` is best.

    Args:
        seed: of the run.
        at: epoch and, with evaluations between epochs, step.
        evaluations: number of this one in its run, from 1.
        rank: score, and what decides between equal ones.
        dev: scores on the development set.
        weights: of the model, in a file.
        tokens_seen: in training up to it.
        tokens: ids of those whose embeddings are in the weights; None for all.
        decay: factor of the other embeddings, by weight decay.
    """

    seed: int
    at: dict[str, float]
    evaluations: int
    rank: tuple[float, float]
    dev: Evaluation
    weights: WeightsFile
    tokens_seen: int
    tokens: Tensor | None
    decay: float


def trained_model(task: AnyTask, best: Best) -> PreTrainedModel:
    """Make the model of the best evaluation; its file is closed."""
    model = task.new_model(best.seed)
    whole = shrink(model, best.tokens)
    best.weights.load(model.state_dict().values())
    best.weights.close()
    if whole is not None:
        partial = cast("PartialEmbedding", model.get_input_embeddings())
        with torch.no_grad():
            whole.weight *= best.decay
            whole.weight[best.tokens] = partial.weight
        [name] = [name for name, module in model.named_modules() if module is partial]
        model.set_submodule(name, whole)
    return model
