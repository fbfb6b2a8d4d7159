"""Pretrained encoders under new heads."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bmtools.errors import CheckpointError
from bmtools.models.checkpoint import Checkpoint, load_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_encoder(directory: Path, model_class: str) -> Checkpoint:
    """Load a checkpoint in float32 under a head that has no labels yet.

    The checkpoint may be a masked language model, a bare encoder or a classifier. What it lacks of
    the layers below the output layer, such as BERT's pooler, is new.

    Args:
        directory: the checkpoint.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.

    Raises:
        CheckpointError: no such directory, no weights that can be read safely, weights of the
            encoder missing, a tokenizer that does not belong to it, or a head without a linear
            output layer.
    """
    torch.manual_seed(0)  # weights that are new are drawn once more for each seed
    checkpoint = load_checkpoint(directory, model_class=model_class, new_head=True,
                                 id2label={0: "O"}, label2id={"O": 0})
    _output_layer(checkpoint)
    return checkpoint


def with_new_head(encoder: Checkpoint, labels: Sequence[str], seed: int) -> PreTrainedModel:
    """Copy a model and give it an output layer for some labels; new weights come from the seed.

    Source: Devlin et al. 2019, sections 4.1 and 5.3.
    """
    model: Any = copy.deepcopy(encoder.model)
    name = _output_layer(encoder)
    old = model.get_submodule(name)
    output = nn.Linear(old.in_features, len(labels), bias=old.bias is not None)
    model.set_submodule(name, output)
    rng = torch.Generator().manual_seed(seed)
    parameters = dict(model.named_parameters())
    for key in dict.fromkeys((f"{name}.weight", f"{name}.bias", *sorted(encoder.new_weights))):
        if key in parameters and parameters[key].ndim > 1:
            nn.init.normal_(parameters[key], std=model.config.initializer_range, generator=rng)
        elif key in parameters:
            nn.init.constant_(parameters[key], 0.0 if key.endswith("bias") else 1.0)
    model.num_labels = len(labels)
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: number for number, label in enumerate(labels)}
    return model


def _output_layer(encoder: Checkpoint) -> str:
    """Name the linear layer of the head that computes the one placeholder label."""
    model = encoder.model
    found = [name for name, module in model.named_modules()
             if isinstance(module, nn.Linear) and module.out_features == 1
             and not name.startswith(f"{model.base_model_prefix}.")]
    if len(found) != 1:
        raise CheckpointError(f"{encoder.path}: the head of a {type(model).__name__} is not known, "
                              "expected one linear output layer, as over BERT, RoBERTa or "
                              "ModernBERT")
    return found[0]
