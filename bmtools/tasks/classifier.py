"""A pretrained encoder under a new linear head."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForTokenClassification

from bmtools.errors import CheckpointError
from bmtools.io.manifest import read_manifest
from bmtools.models.checkpoint import Checkpoint
from bmtools.vocab.tokenizer import fingerprint, load_tokenizer, same_vocabulary


def load_encoder(directory: Path) -> Checkpoint:
    """Load a checkpoint in float32 as a token classifier that has no labels yet.

    The checkpoint may be a masked language model, a bare encoder or a classifier, whose head is
    of no use here.

    Raises:
        CheckpointError: no such directory, no weights that can be read safely, weights of the
            encoder missing, or a tokenizer that does not belong to it.
    """
    if not (directory / "config.json").is_file():
        raise CheckpointError(f"{directory}: no config.json, expected a checkpoint directory")
    tokenizer = load_tokenizer(directory)
    torch.manual_seed(0)  # a part between encoder and head may be new, as ModernBERT's
    try:
        model, report = AutoModelForTokenClassification.from_pretrained(
            directory, id2label={0: "O"}, label2id={"O": 0}, ignore_mismatched_sizes=True,
            dtype=torch.float32, use_safetensors=True,
            local_files_only=True, trust_remote_code=False, output_loading_info=True)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{directory}: {str(error).strip().splitlines()[0][:200]}; expected "
                              "a model with safetensors weights") from error
    wrong = [*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])]
    encoder = sorted(key for key in wrong if key.startswith(f"{model.base_model_prefix}."))
    if encoder:
        raise CheckpointError(f"{directory}: no fitting weights for {encoder[0]}, expected a whole "
                              f"{type(model.base_model).__name__}")
    if not isinstance(getattr(model, "classifier", None), nn.Linear):
        raise CheckpointError(f"{directory}: the head of a {type(model).__name__} is not known, "
                              "expected one linear layer, as over BERT, RoBERTa or ModernBERT")
    return Checkpoint(directory, model, tokenizer, _belonging(directory, model, tokenizer))


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


def _belonging(directory: Path, model: Any, tokenizer: Any) -> str:
    """Check that the tokenizer is the model's and can close a row; return its fingerprint."""
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise CheckpointError(f"{directory}: the tokenizer has {len(tokenizer)} tokens, the model "
                              f"embeds {rows}; put the model's own tokenizer beside it")
    for role in ("cls", "sep", "pad"):
        if getattr(tokenizer, f"{role}_token_id") is None:
            raise CheckpointError(f"{directory}: the tokenizer has no {role} token, "
                                  "expected that of an encoder")
    vocabulary = fingerprint(tokenizer)
    recorded = read_manifest(directory).get("vocabulary")
    if recorded is not None:
        same_vocabulary(vocabulary, recorded, f"{directory}: tokenizer")
    return vocabulary
