"""Longer inputs: learned positions are repeated, rotary ones get another base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from bmtools.errors import BmtoolsError, setting
from bmtools.models.architectures import position_embeddings
from bmtools.models.checkpoint_files import first_position

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel


def set_positions(config: PretrainedConfig, old: PretrainedConfig, max_positions: int,
                  rope_base: float) -> None:
    """Write the number of positions, and the base of rotary ones, into a new configuration.

    Source: Warner et al. 2024 (ModernBERT), section 3.2: 160,000 in global layers at 8,192 tokens.

    Args:
        config: of the new model, with its padding token.
        old: of the base.
        max_positions: tokens that the model will read; 0 for as many as the base.
        rope_base: of layers that see all tokens; 0 for the base's own.

    Raises:
        BmtoolsError: fewer positions than the base has, or a base for learned ones.
    """
    # No positions get lost; RoBERTa's begin after the padding token, whose id may have changed.
    positions = old.max_position_embeddings - first_position(old)
    if max_positions and max_positions < positions:
        raise BmtoolsError(
            f"{setting('max_positions')}: found {max_positions}, but the base has "
            f"{positions} positions; expected more, or 0 to leave them as they are")
    if getattr(config, "max_relative_positions", 1) < 1:
        # DeBERTa's distances count on the number of positions; farther ones are cut off at these.
        config.max_relative_positions = old.max_position_embeddings
    config.max_position_embeddings = max(positions, max_positions) + first_position(config)
    if rope_base:
        rope = getattr(config, "rope_parameters", None)
        if rope is None:
            raise BmtoolsError(f"{setting('rope_base')}: the base is of the family "
                               f"{config.model_type}, whose positions are learned; expected "
                               f"{setting('max_positions')} alone")
        rope.get("full_attention", rope)["rope_theta"] = rope_base


def repeat_positions(kept: dict[str, Tensor], model: PreTrainedModel,
                     old: PretrainedConfig) -> None:
    """Repeat learned positions up to a model's length, from the first on, in its new weights.

    Attention to near neighbours, which depends on differences of positions, works from the start.

    Source: Beltagy et al. 2020 (Longformer), section 5.

    Args:
        kept: weights of the base by name; positions are replaced.
        model: the new one.
        old: configuration of the base.
    """
    positions = position_embeddings(model)
    if positions is None:
        return
    name = next(name for name, weight in model.named_parameters() if weight is positions.weight)
    # RoBERTa's begin after the padding id.
    learned, unused = kept[name][first_position(old):], first_position(model.config)
    length = len(positions.weight) - unused
    repeated = learned.repeat(-(-length // len(learned)), 1)[:length]
    kept[name] = torch.cat([torch.zeros(unused, learned.shape[1]), repeated])
