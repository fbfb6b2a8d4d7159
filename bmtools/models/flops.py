"""Floating-point operations of training a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from bmtools.models.architectures import build_on_meta

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_KNOWN_MODEL_TYPES = frozenset({"bert", "camembert", "megatron-bert", "modernbert", "roberta",
                      "xlm-roberta", "xlm-roberta-xl"})
_FORWARD_AND_BACKWARD = 3  # gradients of inputs and of weights take a product each


def training_flops_per_token(config: PretrainedConfig, max_length: int, mask_rate: float,
                             windowed: bool = True) -> float | None:
    """Count the operations of training on one token, forward and backward.

    Matrix products count, an addition and a multiplication as two operations; element-wise
    operations do not, and neither do recomputed activations. The head counts for the share of
    tokens that are masked.

    Source: Chowdhery et al. 2022 (PaLM), appendix B, for what counts.

    Args:
        config: of the model.
        max_length: tokens of a sequence, special tokens included.
        mask_rate: share of tokens that are masked, 0 to 1.
        windowed: count attention scores inside ModernBERT's windows only; kernels without windows
            compute the others too.

    Returns:
        operations a token; None for an unknown architecture.
    """
    if config.model_type not in _KNOWN_MODEL_TYPES:
        return None
    model = build_on_meta(config)
    body = _multiplications(model.base_model)
    head = _multiplications(model) - body
    scores = sum(scored_pairs(max_length, window if windowed else None)
                 for window in _windows(config)) / max_length
    # A score and its share in the sum of values take a multiplication each for every channel.
    attention = 2 * scores * config.hidden_size
    return 2.0 * _FORWARD_AND_BACKWARD * (body + attention + mask_rate * head)


def scored_pairs(max_length: int, window: int | None) -> int:
    """Count the pairs of tokens that attend to each other, no further apart than a window."""
    if window is None or window >= max_length:
        return max_length**2
    return max_length * (2 * window + 1) - window * (window + 1)


def _multiplications(module: nn.Module) -> int:
    """Count multiplications a token through a module's linear layers."""
    return sum(layer.in_features * layer.out_features for layer in module.modules()
               if isinstance(layer, nn.Linear))


def _windows(config: PretrainedConfig) -> list[int | None]:
    """Return the attention window of each layer, to either side; None for global attention."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return [None] * config.num_hidden_layers
    return [config.sliding_window if kind == "sliding_attention" else None for kind in kinds]
