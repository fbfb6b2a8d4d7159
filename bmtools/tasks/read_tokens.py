"""Embeddings of the tokens that a run reads, without the rest of the vocabulary.

A fine-tuning set has a part of the vocabulary, while a step clears, measures and updates the
gradient of all embeddings: of a small model an eighth of its time. Rows that no input names have no
gradient, so AdamW does nothing to them but weight decay, which is made up for at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

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


@dataclass(frozen=True)
class ReadTokens:
    """The tokens that a run reads.

    Args:
        tokens: (tokens,) int64 ascending.
    """

    tokens: Tensor

    @classmethod
    def of(cls, inputs: Sequence[np.ndarray], others: Sequence[int]) -> ReadTokens:
        """Collect the ids of inputs, and others such as those of special tokens."""
        seen = np.unique(np.concatenate([*inputs, np.array(others, dtype=np.int64)]))
        return cls(torch.from_numpy(seen.astype(np.int64)))

    def shrink(self, model: PreTrainedModel) -> nn.Embedding | None:
        """Leave a model these tokens alone; returns its whole embedding, or None if it stays."""
        whole = model.get_input_embeddings()
        names = [name for name, module in model.named_modules() if module is whole]
        if type(whole) is not nn.Embedding or len(names) != 1 \
                or model.get_output_embeddings() is not None:
            return None
        model.set_submodule(names[0], PartialEmbedding(whole, self.tokens))
        return whole

    def restore(self, model: PreTrainedModel, whole: nn.Embedding | None, decay: float) -> None:
        """Put what these tokens have become into the whole embedding, and that into the model.

        Args:
            model: shrunk.
            whole: what `shrink` returned.
            decay: factor of the other rows, by weight decay.
        """
        if whole is None:
            return
        partial = cast("PartialEmbedding", model.get_input_embeddings())
        with torch.no_grad():
            whole.weight *= decay
            whole.weight[self.tokens] = partial.weight
        [name] = [name for name, module in model.named_modules() if module is partial]
        model.set_submodule(name, whole)
