"""Low-rank adapters: training of small matrices beside frozen ones, merged at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bmtools.errors import setting
from bmtools.installation import require_extra
from bmtools.training.regularization import mixed_names

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bmtools.tasks.run_settings import LoraConfig


def add_adapters(model: PreTrainedModel, config: LoraConfig, seed: int) -> Any:
    """Put adapters beside all linear maps of the encoder's layers and freeze the rest below a head.

    Args:
        model: changed in place.
        config: rank and scale.
        seed: of the adapters' weights.

    Returns:
        peft's model, whose `merge_and_unload` returns `model` as it was, with changed weights.
    """
    require_extra("peft", setting("lora_rank"))
    import peft

    above = [name for name, _ in model.named_parameters()
             if not name.startswith(f"{model.base_model_prefix}.")]
    names = [name.removesuffix(".weight") for name in mixed_names(model)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = peft.LoraModel(model, peft.LoraConfig(
            r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=names), "default")
    for name in above:
        model.get_parameter(name).requires_grad_(True)
    return adapted
