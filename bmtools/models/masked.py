"""A masked language model in two parts, so that the vocabulary is met only where it is asked."""

from __future__ import annotations

from typing import Any

from torch import Tensor, finfo, ones, tril, zeros
from torch import bool as boolean

from bmtools.errors import CheckpointError


def encode(model: Any, ids: Tensor, attended: Tensor, causal: bool = False) -> Tensor:
    """Run the encoder without its head.

    Args:
        ids: (batch, tokens) int64.
        attended: (batch, tokens) bool; False on padding.
        causal: let each position see only itself and what stands before it.

    Returns:
        last-layer states, (batch, tokens, width).
    """
    mask: Any = attended.long()
    if causal:
        mask = _causal_mask(model, attended)
    return model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state


def _causal_mask(model: Any, attended: Tensor) -> Any:
    """Make the (batch, 1, tokens, tokens) mask; ModernBERT wants one for each kind of layer.

    Eager attention adds its mask to the scores, so a boolean one would hide nothing.
    """
    tokens = attended.shape[1]
    before = tril(ones(tokens, tokens, dtype=boolean, device=attended.device))
    mask = before & attended[:, None, None, :]
    if model.config.model_type == "modernbert":
        near = before.triu(-model.config.sliding_window)
        return {"full_attention": mask, "sliding_attention": mask & near}
    if model.config._attn_implementation == "eager":
        return zeros(mask.shape, device=mask.device, dtype=model.dtype).masked_fill(
            ~mask, finfo(model.dtype).min)
    return mask


def predict(model: Any, states: Tensor) -> Tensor:
    """Turn states into vocabulary logits, (..., width) to (..., vocabulary).

    Raises:
        CheckpointError: an architecture whose head is laid out in a way not known here.
    """
    for name in ("cls", "lm_head"):
        if hasattr(model, name):
            return getattr(model, name)(states)
    if hasattr(model, "head") and hasattr(model, "decoder"):
        return model.decoder(model.head(states))
    raise CheckpointError(f"{type(model).__name__}: the head of this architecture is not known, "
                          "expected BERT, RoBERTa, XLM-R, Megatron-BERT or ModernBERT")
