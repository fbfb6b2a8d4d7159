"""Checkpoint directories: a model, its tokenizer and the manifest of how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerFast, logging

from bmtools.errors import CheckpointError
from bmtools.io.atomic import new_directory
from bmtools.io.manifest import Manifest, hash_directory, read_manifest
from bmtools.models.architectures import position_embeddings, token_embeddings, unused_positions
from bmtools.vocab.tokenizer import (
    fingerprint,
    load_tokenizer,
    require_same_vocabulary,
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
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    vocabulary: str
    new_weights: frozenset[str] = frozenset()

    def hash(self) -> str:
        """Hash the directory's files."""
        return hash_directory(self.path)


def load_masked_lm(directory: Path, device: str = "cpu") -> Checkpoint:
    """Load a masked language model in float32, in evaluation mode.

    Raises:
        CheckpointError: no such directory, no masked-LM head, unsafe weights, or a tokenizer
            that does not belong to the model.
    """
    checkpoint = _load(directory, "AutoModelForMaskedLM", device)
    if checkpoint.tokenizer.mask_token_id is None:
        raise CheckpointError(f"{directory}: the tokenizer has no mask token, "
                              "expected a masked language model")
    return checkpoint


def load_fine_tuned(directory: Path, model_class: str, device: str = "cpu") -> Checkpoint:
    """Load a fine-tuned model in float32, in evaluation mode.

    Args:
        directory: the checkpoint.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.
        device: where it will run.

    Raises:
        CheckpointError: as for `load_masked_lm`, or weights of the head are missing.
    """
    return _load(directory, model_class, device)


def load_with_new_head(directory: Path, model_class: str, **options: Any) -> Checkpoint:
    """Load an encoder's weights in float32 into a model whose head, or pooler, may be new.

    Args:
        directory: the checkpoint.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.
        options: for its `from_pretrained`.

    Raises:
        CheckpointError: as for `load_masked_lm`, or weights of the encoder are missing.
    """
    return _load(directory, model_class, head_may_be_new=True, ignore_mismatched_sizes=True,
                 **options)


def _load(directory: Path, model_class: str, device: str = "cpu", head_may_be_new: bool = False,
          **options: Any) -> Checkpoint:
    if not (directory / "config.json").is_file():
        raise CheckpointError(f"{directory}: no config.json, expected a checkpoint directory")
    tokenizer = load_tokenizer(directory)
    try:
        model, report = getattr(transformers, model_class).from_pretrained(
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
    vocabulary = _check_tokenizer(directory, model, tokenizer)
    return Checkpoint(directory, model.to(device).eval(), tokenizer, vocabulary, new)


def _check_tokenizer(directory: Path, model: PreTrainedModel,
                     tokenizer: PreTrainedTokenizerFast) -> str:
    """Check that the tokenizer is the model's and an encoder's; return its fingerprint."""
    size = token_embeddings(model).num_embeddings
    if len(tokenizer) > size:
        raise CheckpointError(f"{directory}: the tokenizer has {len(tokenizer)} tokens, the model "
                              f"embeds {size}; put the model's own tokenizer beside it")
    for role in ("cls", "sep", "pad"):
        if getattr(tokenizer, f"{role}_token_id") is None:
            raise CheckpointError(f"{directory}: the tokenizer has no {role} token, "
                                  "expected that of an encoder")
    vocabulary = fingerprint(tokenizer)
    recorded = read_manifest(directory).get("vocabulary")
    if recorded is not None:
        require_same_vocabulary(vocabulary, recorded, f"{directory}: tokenizer")
    return vocabulary


def save_checkpoint(directory: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast,
                    manifest: Manifest, overwrite: bool = False) -> dict[str, Any]:
    """Write a complete checkpoint, or nothing, and return the content of its `bmtools.json`.

    Raises:
        BmtoolsError: the directory is not empty and `overwrite` is off.
    """
    with new_directory(directory, overwrite) as partial:
        return write_checkpoint_files(partial, model, tokenizer, manifest)


def write_checkpoint_files(directory: Path, model: PreTrainedModel,
                           tokenizer: PreTrainedTokenizerFast,
                           manifest: Manifest) -> dict[str, Any]:
    """Write a checkpoint's files into an unfinished directory (`io.atomic.new_directory`)."""
    model.save_pretrained(directory)
    tokenizer.model_max_length = max_tokens(model)
    save_tokenizer(tokenizer, directory)
    return manifest.write(directory)


def max_tokens(model: PreTrainedModel) -> int:
    """Length of the longest input in tokens, special ones included."""
    positions = position_embeddings(model)
    if positions is None:
        return int(model.config.max_position_embeddings)
    return positions.num_embeddings - unused_positions(positions)
