"""Checkpoint directories: a model, its tokenizer and the manifest of how they were made."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.io.directories import new_directory
from bmtools.io.failures import naming, reading, require_room
from bmtools.io.json_files import read_manifest
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import has_segment_embeddings, max_tokens
from bmtools.models.checkpoint_files import check_checkpoint, check_for_inference
from bmtools.models.exported.formats import Exported, read_exported
from bmtools.models.inference_files import read_inference_model, read_model_config, require_finite
from bmtools.models.model_files import weight_names
from bmtools.models.precision import FLOAT32_ONLY, HALF_PRECISIONS
from bmtools.records import JsonObject
from bmtools.status import set_status
from bmtools.vocab.loading import load_tokenizer, read_inference_tokenizer
from bmtools.vocab.tokenizer import fingerprint, require_same_vocabulary, save_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_DEBERTA_HEAD = "lm_predictions."  # as Microsoft's checkpoints name it


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

    def copy_model(self) -> PreTrainedModel:
        """Copy the model."""
        return copy.deepcopy(self.model)


def load_checkpoint(directory: Path, device: str = "cpu",
                    model_class: str = "AutoModelForMaskedLM", new_head: bool = False,
                    **options: object) -> Checkpoint:
    """Load a masked language model, or a fine-tuned one, in float32 and in evaluation mode.

    Args:
        directory: the checkpoint.
        device: where it will run.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.
        new_head: load an encoder's weights; the head, or the pooler, may be new.
        options: for `from_pretrained`.

    Raises:
        CheckpointError: no such directory, missing or unsafe weights, or a tokenizer that does not
            belong to the model.
    """
    check_checkpoint(directory)
    set_status(f"loading {directory}")
    tokenizer = load_tokenizer(directory)
    import transformers

    silence_transformers()
    if model_class == "AutoModelForMaskedLM" and \
            any(name.startswith(_DEBERTA_HEAD) for name in weight_names(directory)):
        options["legacy"] = False  # transformers expects the other head unless told
    with reading(directory, "no model could be loaded", "expected one with safetensors weights"):
        model, report = getattr(transformers, model_class).from_pretrained(
            directory, dtype=torch.float32, use_safetensors=True, local_files_only=True,
            trust_remote_code=False, output_loading_info=True, ignore_mismatched_sizes=new_head,
            **options)
    require_finite(directory, model.state_dict())
    new = frozenset([*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])])
    encoder = "" if model.base_model is model else f"{model.base_model_prefix}."
    missing = sorted(key for key in new if not new_head or (
        key.startswith(encoder) and not key.startswith(f"{encoder}pooler.")))
    if missing:
        raise CheckpointError(f"{directory}: no fitting weights for {missing[0]}, expected a whole "
                              f"{type(model.base_model if new_head else model).__name__}")
    require_fitting_tokenizer(directory, tokenizer, model.config.vocab_size,
                              model_class == "AutoModelForMaskedLM")
    vocabulary = fingerprint(tokenizer)
    recorded = read_manifest(directory).get("vocabulary")
    if recorded is not None:
        require_same_vocabulary(vocabulary, recorded, f"{directory}: tokenizer")
    return Checkpoint(directory, model.to(device).eval(), tokenizer, vocabulary, new)


def load_for_inference(directory: Path, device: str = "cpu",
                       model_class: str = "AutoModelForMaskedLM") -> Checkpoint:
    """Load a model that will only predict, without transformers where the files allow it.

    Its `model` is an `InferenceModel` then, which has the configuration, device and logits of
    transformers' model, and its `tokenizer` a `BackendTokenizer`; or an `ExportedModel`.

    Args:
        directory: the checkpoint, or what `export model` made of one.
        device: where it will run; an exported model runs on the CPU.
        model_class: transformers' auto class: AutoModelForMaskedLM, -ForTokenClassification,
            -ForSequenceClassification or -ForQuestionAnswering.

    Raises:
        CheckpointError: see `load_checkpoint`.
    """
    check_for_inference(directory, model_class=model_class)
    set_status(f"loading {directory}")
    if exported := read_exported(directory):
        return _load_exported(directory, exported)
    read = read_inference_tokenizer(directory)
    model = read and read_inference_model(directory, device, model_class)
    if not read or not model:
        return load_checkpoint(directory, device, model_class)
    tokenizer, vocabulary = read
    require_fitting_tokenizer(directory, tokenizer, model.config.vocab_size,
                              model_class == "AutoModelForMaskedLM")
    return Checkpoint(directory, cast("PreTrainedModel", model), tokenizer, vocabulary)


def _load_exported(directory: Path, exported: Exported) -> Checkpoint:
    """Load an exported model, which runs on the CPU; see `load_for_inference`."""
    from bmtools.models.exported.model import ExportedModel  # most models are none

    read = read_inference_tokenizer(directory)
    if read is None:
        raise CheckpointError(f"{directory}: found another tokenizer than it was exported with; "
                              "export the model again")
    config = read_model_config(directory)
    if config is None:
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(directory, local_files_only=True,
                                            trust_remote_code=False)
    return Checkpoint(directory, cast(
        "PreTrainedModel", ExportedModel(directory, exported, config)), *read)


def require_fitting_tokenizer(directory: Path, tokenizer: PreTrainedTokenizerFast, embedded: int,
                              needs_mask: bool) -> None:
    """Make sure that a model embeds a tokenizer's tokens, and that those it needs are there.

    Raises:
        CheckpointError: it has too many tokens, or lacks a special one.
    """
    if len(tokenizer) > embedded:
        raise CheckpointError(f"{directory}: the tokenizer has {len(tokenizer)} tokens, the model "
                              f"embeds {embedded}; put the model's own tokenizer beside it")
    for role in ("cls", "sep", "pad", *["mask"] * needs_mask):
        if getattr(tokenizer, f"{role}_token_id") is None:
            raise CheckpointError(f"{directory}: the tokenizer has no {role} token, expected that "
                                  "of a masked language model")


def save_checkpoint(directory: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast,
                    manifest: Manifest, overwrite: bool = False) -> JsonObject:
    """Write a complete checkpoint, or nothing, and return the content of its `bmtools.json`.

    Raises:
        BmtoolsError: the directory is not empty and `overwrite` is off.
    """
    with new_directory(directory, overwrite) as partial:
        return write_checkpoint_files(partial, model, tokenizer, manifest)


def autocast_dtype(checkpoint: Checkpoint, precision: str) -> torch.dtype | None:
    """Name the data type of autocast in a precision; None for float32.

    Raises:
        BmtoolsError: the model cannot be computed in it.
    """
    exported: Exported | None = getattr(checkpoint.model, "exported", None)
    if exported and precision != "float32":
        raise BmtoolsError(
            f"{setting('precision')}: found {precision}, but {checkpoint.path} was exported in "
            f"{exported.precision}; leave {setting('precision')} out")
    dtype = HALF_PRECISIONS.get(precision)
    if dtype and checkpoint.model.config.model_type in FLOAT32_ONLY:
        raise BmtoolsError(f"{setting('precision')}: found {precision}, which transformers cannot "
                           f"compute {checkpoint.path} (deberta) in; expected float32")
    return dtype


def check_room(directory: Path, model: nn.Module, copies: int = 1) -> None:
    """Refuse a directory whose disk has no room for a model, before it is trained.

    Args:
        directory: that it will be written to.
        model: to be trained.
        copies: of its weights that will be there at a time.

    Raises:
        WriteError: names the file, and how much is needed and free.
    """
    with naming(directory / "model.safetensors"):
        require_room(directory / "model.safetensors", copies * weight_bytes(model))


def weight_bytes(model: nn.Module) -> int:
    """Count the bytes of a model's weights on disk; shared ones are stored once."""
    return sum(weight.nbytes for weight in model.parameters())


def write_checkpoint_files(directory: Path, model: PreTrainedModel,
                           tokenizer: PreTrainedTokenizerFast, manifest: Manifest,
                           weights: dict[str, Tensor] | None = None) -> JsonObject:
    """Write a checkpoint's files into an unfinished directory (`io.directories.new_directory`).

    Args:
        directory: to fill.
        model: whose class and configuration are written.
        tokenizer: of the model.
        manifest: of the checkpoint.
        weights: to write by name, tied ones once; the model's own if not given.

    Returns:
        the content of `bmtools.json`.
    """
    require_room(directory / "model.safetensors", weight_bytes(model))
    silence_transformers()
    model.save_pretrained(directory, state_dict=weights)
    tokenizer.model_max_length = max_tokens(model)
    # Templates of BERT's special tokens number the segments; only some models embed them.
    segments = ["token_type_ids"] if has_segment_embeddings(model) else []
    tokenizer.model_input_names = ["input_ids", *segments, "attention_mask"]
    save_tokenizer(tokenizer, directory)
    return manifest.write(directory)


def silence_transformers() -> None:
    """Keep its warnings and progress bars away from stderr."""
    from transformers import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
