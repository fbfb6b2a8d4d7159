"""Checkpoint directories: a model, its tokenizer and how they came to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForMaskedLM, logging

from bmtools.errors import CheckpointError
from bmtools.io.atomic import new_directory
from bmtools.io.manifest import Manifest, hash_directory, read_manifest
from bmtools.vocab.tokenizer import (
    fingerprint,
    load_tokenizer,
    same_vocabulary,
    save_tokenizer,
)

logging.set_verbosity_error()
logging.disable_progress_bar()


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint.

    Args:
        path: its directory.
        model: in float32.
        tokenizer: of the model.
        vocabulary: the tokenizer's fingerprint.
        new_weights: names of the model's weights that the directory does not contain.
    """

    path: Path
    model: Any
    tokenizer: Any
    vocabulary: str
    new_weights: frozenset[str] = frozenset()

    def hash(self) -> str:
        """Hash the directory's files."""
        return hash_directory(self.path)


def load_masked_lm(directory: Path, device: str = "cpu") -> Checkpoint:
    """Load a masked language model in float32, ready to score.

    Raises:
        CheckpointError: no such directory, no masked-LM head, unsafe weights, or a tokenizer
            that does not belong to the model.
    """
    checkpoint = _load(directory, AutoModelForMaskedLM.from_pretrained)
    if checkpoint.tokenizer.mask_token_id is None:
        raise CheckpointError(f"{directory}: the tokenizer has no mask token, "
                              "expected a masked language model")
    checkpoint.model.to(device).eval()
    return checkpoint


def load_fine_tuned(directory: Path, model_class: str, device: str = "cpu") -> Checkpoint:
    """Load a fine-tuned model in float32, ready to predict.

    Args:
        directory: the checkpoint.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.
        device: where it will run.

    Raises:
        CheckpointError: as for `load_masked_lm`, or weights of the head are missing.
    """
    checkpoint = _load(directory, getattr(transformers, model_class).from_pretrained)
    checkpoint.model.to(device).eval()
    return checkpoint


def load_under_new_head(directory: Path, model_class: str, **options: Any) -> Checkpoint:
    """Load an encoder's weights in float32 into a model whose head, or pooler, may be new.

    Args:
        directory: the checkpoint.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.
        options: for its `from_pretrained`.

    Raises:
        CheckpointError: as for `load_masked_lm`, or weights of the encoder are missing.
    """
    return _load(directory, getattr(transformers, model_class).from_pretrained,
                 head_may_be_new=True, ignore_mismatched_sizes=True, **options)


def _load(directory: Path, from_pretrained: Callable[..., Any], head_may_be_new: bool = False,
          **options: Any) -> Checkpoint:
    if not (directory / "config.json").is_file():
        raise CheckpointError(f"{directory}: no config.json, expected a checkpoint directory")
    tokenizer = load_tokenizer(directory)
    try:
        model, report = from_pretrained(
            directory, dtype=torch.float32, use_safetensors=True, local_files_only=True,
            trust_remote_code=False, output_loading_info=True, **options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{directory}: {str(error).strip().splitlines()[0][:200]}; expected "
                              "a model with safetensors weights") from error
    new = frozenset([*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])])
    encoder = f"{model.base_model_prefix}."
    missing = sorted(key for key in new if not head_may_be_new or (
        key.startswith(encoder) and not key.startswith(f"{encoder}pooler.")))
    if missing:
        raise CheckpointError(f"{directory}: no fitting weights for {missing[0]}, expected a whole "
                              f"{type(model.base_model if head_may_be_new else model).__name__}")
    return Checkpoint(directory, model, tokenizer, _belonging(directory, model, tokenizer), new)


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


def save_checkpoint(
    directory: Path, model: Any, tokenizer: Any, manifest: Manifest, overwrite: bool = False
) -> dict[str, Any]:
    """Write a whole checkpoint, or nothing, and return what its `bmtools.json` says.

    Raises:
        BmtoolsError: the directory holds something and `overwrite` is off.
    """
    with new_directory(directory, overwrite) as partial:
        return fill_checkpoint(partial, model, tokenizer, manifest)


def fill_checkpoint(partial: Path, model: Any, tokenizer: Any,
                    manifest: Manifest) -> dict[str, Any]:
    """Write a checkpoint's files into a directory that is still in the making."""
    model.save_pretrained(partial)
    tokenizer.model_max_length = max_tokens(model)
    save_tokenizer(tokenizer, partial)
    return manifest.write(partial)


def max_tokens(model: Any) -> int:
    """Longest input in tokens, special ones included; RoBERTa's positions start past padding."""
    embeddings = getattr(model.base_model, "embeddings", None)
    positions = getattr(embeddings, "position_embeddings", None)
    if positions is None:
        return int(model.config.max_position_embeddings)
    offset = 0 if positions.padding_idx is None else positions.padding_idx + 1
    return int(positions.num_embeddings) - offset
