"""A pretrained encoder under a new linear head."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bmtools.errors import CheckpointError
from bmtools.models.checkpoint import Checkpoint, load_with_new_head


def load_encoder(directory: Path) -> Checkpoint:
    """Load a checkpoint in float32 as a token classifier that has no labels yet.

    The checkpoint may be a masked language model, a bare encoder or a classifier, whose head is
    of no use here.

    Raises:
        CheckpointError: no such directory, no weights that can be read safely, weights of the
            encoder missing, or a tokenizer that does not belong to it.
    """
    torch.manual_seed(0)  # a part between encoder and head may be new, as ModernBERT's
    checkpoint = load_with_new_head(
        directory, "AutoModelForTokenClassification", id2label={0: "O"},
        label2id={"O": 0})
    model = checkpoint.model
    if not isinstance(getattr(model, "classifier", None), nn.Linear):
        raise CheckpointError(f"{directory}: the head of a {type(model).__name__} is not known, "
                              "expected one linear layer, as over BERT, RoBERTa or ModernBERT")
    return checkpoint


def with_new_head(model: Any, labels: Sequence[str], seed: int) -> Any:
    """Copy a classifier and give it a head for some labels, drawn from the seed alone.

    Source: Devlin et al. 2019, section 5.3.
    """
    copied = copy.deepcopy(model)
    old = copied.classifier
    head = nn.Linear(old.in_features, len(labels), bias=old.bias is not None)
    generator = torch.Generator().manual_seed(seed)
    nn.init.normal_(head.weight, std=copied.config.initializer_range, generator=generator)
    if head.bias is not None:
        nn.init.zeros_(head.bias)
    copied.classifier = head
    copied.num_labels = len(labels)
    copied.config.id2label = dict(enumerate(labels))
    copied.config.label2id = {label: number for number, label in enumerate(labels)}
    return copied
