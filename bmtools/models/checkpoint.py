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

_DEBERTA_HEAD = "lm_predictions."  # the name in Microsoft's checkpoints


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint.

    Args:
        path: directory of the checkpoint.
        model: the model, in float32.
        tokenizer: the model's tokenizer.
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
        device: device that it will run on.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.
        new_head: load an encoder's weights; the head or the pooler may be new.
        options: passed to `from_pretrained`.

    Raises:
        CheckpointError: the directory does not exist, weights are missing or unsafe, or the
            tokenizer does not belong to the model.
    """
    check_checkpoint(directory)
    set_status(f"loading {directory}")
    tokenizer = load_tokenizer(directory)
    import transformers

    silence_transformers()
    if model_class == "AutoModelForMaskedLM" and \
            any(name.startswith(_DEBERTA_HEAD) for name in weight_names(directory)):
        options["legacy"] = False  # by default transformers expects the other head
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
        raise CheckpointError(f"{directory}: no fitting weights for {missing[0]}, need a complete "
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
    """Load a model that will only predict, without transformers if the files allow that.

    Then `model` is an `InferenceModel` with the configuration, device and logits of transformers'
    model, and `tokenizer` is a `BackendTokenizer`. For an exported model, `model` is an
    `ExportedModel`.

    Args:
        directory: a checkpoint, or the output of `export model`.
        device: device that it will run on; an exported model runs on the CPU.
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
    from bmtools.models.exported.model import ExportedModel  # few models are exported

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
    """Check that a model embeds all tokens of a tokenizer, and that no required token is missing.

    Raises:
        CheckpointError: the tokenizer has too many tokens, or a special token is missing.
    """
    if len(tokenizer) > embedded:
        raise CheckpointError(f"{directory}: the tokenizer has {len(tokenizer)} tokens, the model "
                              f"embeds {embedded}; put the model's own tokenizer there")
    for role in ("cls", "sep", "pad", *["mask"] * needs_mask):
        if getattr(tokenizer, f"{role}_token_id") is None:
            raise CheckpointError(f"{directory}: the tokenizer has no {role} token; use the "
                                  "tokenizer of a masked language model")


def save_checkpoint(directory: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast,
                    manifest: Manifest, overwrite: bool = False) -> JsonObject:
    """Write a checkpoint, complete or not at all, and return the content of its `bmtools.json`.

    Raises:
        BmtoolsError: the directory is not empty and `overwrite` is off.
    """
    with new_directory(directory, overwrite) as partial:
        return write_checkpoint_files(partial, model, tokenizer, manifest)


def autocast_dtype(checkpoint: Checkpoint, precision: str) -> torch.dtype | None:
    """Return the data type for autocast in a precision; None for float32.

    Raises:
        BmtoolsError: the model cannot be computed in this precision.
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
    """Reject a directory whose disk has no room for a model, before the model is trained.

    Args:
        directory: directory that the model will be written to.
        model: model to be trained.
        copies: number of copies of its weights that will be stored at the same time.

    Raises:
        WriteError: there is no room; the message names the file and the space needed and free.
    """
    with naming(directory / "model.safetensors"):
        require_room(directory / "model.safetensors", copies * weight_bytes(model))


def weight_bytes(model: nn.Module) -> int:
    """Count the bytes of a model's weights on disk; shared weights are stored once."""
    return sum(weight.nbytes for weight in model.parameters())


def write_checkpoint_files(directory: Path, model: PreTrainedModel,
                           tokenizer: PreTrainedTokenizerFast, manifest: Manifest,
                           weights: dict[str, Tensor] | None = None) -> JsonObject:
    """Write a checkpoint's files into an unfinished directory (`io.directories.new_directory`).

    Args:
        directory: the unfinished directory.
        model: its class and configuration are written.
        tokenizer: the model's tokenizer.
        manifest: the checkpoint's manifest.
        weights: weights to write, by name, with tied weights once; default: the model's weights.

    Returns:
        the content of `bmtools.json`.
    """
    require_room(directory / "model.safetensors", weight_bytes(model))
    silence_transformers()
    model.save_pretrained(directory, state_dict=weights)
    tokenizer.model_max_length = max_tokens(model)
    # Templates of BERT's special tokens number the segments. Only some models embed segments.
    segments = ["token_type_ids"] if has_segment_embeddings(model) else []
    tokenizer.model_input_names = ["input_ids", *segments, "attention_mask"]
    save_tokenizer(tokenizer, directory)
    return manifest.write(directory)


def silence_transformers() -> None:
    """Keep the warnings and progress bars of transformers off stderr."""
    from transformers import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
