"""Checks of the files of checkpoints and tokenizers before torch and transformers are imported."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from bmtools.errors import CheckpointError
from bmtools.installation import require_versions
from bmtools.io.json_files import read_manifest
from bmtools.models.exported.formats import (
    MASKED_LM,
    read_exported,
    require_engine,
)
from bmtools.models.families import MASKED_LM_FAMILIES, positions, require_length
from bmtools.models.model_files import (
    CONFIG,
    OLD_CONFIG,
    WEIGHTS,
    conversion,
    megatron_file,
    pickled_files,
    read_config,
    weight_names,
)

DECODERS = ("llama", "mistral", "qwen2")
"""Values of `model_type` of decoders that can become encoders."""
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model",
               "vocab.json")
_HUB_NAME = re.compile(r"\w[\w.-]*[/-]\w[\w.-]*")
_FINE_TUNED = re.compile(r".+For(Token|Sequence)Classification|.+ForQuestionAnswering")
_DISCRIMINATOR = "ElectraForPreTraining"
_SHARDS = "; it contains shards of text, which are input of pretrain and distill"


def check_directory(path: Path) -> None:
    """Reject a path that is not a directory, such as a model's name on the Hugging Face Hub.

    Raises:
        CheckpointError: the path does not exist or is a file.
    """
    if path.is_dir():
        return
    if (path.parent / CONFIG).is_file() and path.exists():
        raise CheckpointError(f"'{path}' is a file, expected its directory: {path.parent}")
    if path.exists():
        kind, hint = ("a file of records", "; give records without an option") \
            if ".jsonl" in path.suffixes else ("a file", "")
        raise CheckpointError(f"'{path}' is {kind}, expected the directory of a checkpoint or "
                              f"tokenizer{hint}")
    if path.is_symlink():
        raise CheckpointError(f"'{path}' is a symbolic link to '{path.readlink()}', which does not "
                              "lead to a directory; remove it, or give another one")
    raise CheckpointError(f"Directory '{path}' does not exist{_on_hub(path)}")


def _on_hub(path: Path) -> str:
    """Explain how to download a model, if the path may be its name on the Hugging Face Hub."""
    # A path that begins with an existing directory has a typing error.
    if not _HUB_NAME.fullmatch(str(path)) or (path.parent != Path() and path.parent.is_dir()):
        return ""
    target = shlex.quote(path.name)
    return (f"; to get a model from the Hugging Face Hub, run: hf download {path} --local-dir "
            f"{target} (without network: run that on a machine with network, copy the directory "
            f"here and give {target})")


def check_tokenizer(directory: Path) -> None:
    """Reject a directory without the files of a tokenizer.

    Raises:
        CheckpointError: the directory does not exist or contains no tokenizer.
    """
    check_directory(directory)
    if not _holds_tokenizer(directory):
        raise CheckpointError(
            f"{directory}: no tokenizer could be loaded, expected tokenizer.json or vocab.txt"
            f"{_what_it_is(directory)}")


def check_checkpoint(directory: Path) -> None:
    """Reject a directory without a complete checkpoint: a model in safetensors and a tokenizer.

    Raises:
        CheckpointError: file names, `config.json` or the weights' headers show that something is
            missing or damaged, or the model needs its own code.
        BmtoolsError: a library is too old to load the checkpoint.
    """
    check_directory(directory)
    if exported := read_exported(directory):
        raise CheckpointError(
            f"{directory}: found a model exported to {exported.format}, which only works in "
            "predict, score-pppl and score-mrr; expected a checkpoint, such as its source, "
            f"{exported.source}")
    if not (directory / CONFIG).is_file():
        raise CheckpointError(f"{directory}: no {CONFIG}, expected a checkpoint directory"
                              f"{_what_it_is(directory)}")
    config = read_config(directory)
    family = config.get("model_type", "")
    if "auto_map" in config and family not in MASKED_LM_FAMILIES:
        raise CheckpointError(f"{directory}: found model_type {family!r}, whose code comes with "
                              f"the model and is never run; {_expected_family()}")
    layers, tensors = config.get("num_hidden_layers"), len(weight_names(directory))
    if layers is not None and not 1 <= layers <= tensors:  # transformers would build them all
        raise CheckpointError(f"{directory / CONFIG}: found num_hidden_layers {layers}, expected 1 "
                              f"to {tensors}, the tensors of {WEIGHTS}; restore the checkpoint")
    heads, width = config.get("num_attention_heads", 1), config.get("hidden_size", 0)
    if heads < 1 or (width % heads and "head_dim" not in config):
        raise CheckpointError(f"{directory / CONFIG}: found num_attention_heads {heads}, expected "
                              f"a divisor of hidden_size {width}; restore the checkpoint")
    check_tokenizer(directory)
    require_versions()


def check_masked_lm(directory: Path) -> None:
    """Reject a directory without a masked language model; see `check_checkpoint`.

    Raises:
        CheckpointError: as in `check_checkpoint`, or the model was fine-tuned on a task or is of
            another family.
    """
    check_checkpoint(directory)
    settings = read_manifest(directory).get("settings", {})
    config = read_config(directory)
    names = config.get("architectures") or [""]
    if "task" in settings or _FINE_TUNED.fullmatch(names[0]):
        parent = f", such as {settings['model']}, which it was made from" \
            if "model" in settings else ""
        raise CheckpointError(
            f"{directory}: found a model that was fine-tuned ({settings.get('task', names[0])}), "
            f"expected a masked language model{parent}")
    family = config.get("model_type")  # missing in older files
    if family and family not in MASKED_LM_FAMILIES:
        hint = "; bmtools init-weights makes some decoders one" * names[0].endswith("ForCausalLM")
        raise CheckpointError(f"{directory}: found model_type {family!r}; {_expected_family()}"
                              f"{hint}")
    if names[0] == _DISCRIMINATOR:
        raise CheckpointError(f"{directory}: found ELECTRA's discriminator, which does not predict "
                              "tokens; expected its generator")


def check_base(directory: Path) -> None:
    """Reject a directory without a masked language model or a decoder that can become one.

    Raises:
        CheckpointError: as in `check_masked_lm`, or the model is a decoder with other layers.
    """
    check_checkpoint(directory)
    if is_decoder(directory):
        return
    config = read_config(directory)
    family, names = config.get("model_type"), config.get("architectures") or [""]
    if family not in MASKED_LM_FAMILIES and names[0].endswith("ForCausalLM"):
        raise CheckpointError(
            f"{directory}: found the decoder {family}, whose layers EuroBERT does not have; "
            f"expected {', '.join(DECODERS)} or a masked language model")
    check_masked_lm(directory)


def is_decoder(directory: Path) -> bool:
    """Return whether a checkpoint is a decoder that can become an encoder."""
    return read_config(directory).get("model_type") in DECODERS


def check_for_inference(directory: Path, check: Callable[[Path], None] = check_checkpoint,
                        model_class: str = "") -> None:
    """Reject a directory without a checkpoint or an exported model.

    Args:
        directory: directory to check.
        check: check to run on a checkpoint.
        model_class: transformers' auto class that an exported model must have; empty for any.
    """
    check_directory(directory)
    exported = read_exported(directory)
    if exported is None:
        check(directory)
        return
    if model_class and exported.model_class != model_class:
        raise CheckpointError(f"{directory}: found an exported {exported.model_class}, expected an "
                              f"{model_class}")
    require_engine(f"{directory} ({exported.format})")


def check_scored(directory: Path) -> None:
    """Reject a directory without a masked language model, exported or not."""
    check_for_inference(directory, check_masked_lm, MASKED_LM)


def _expected_family() -> str:
    return f"expected a masked language model: {', '.join(sorted(MASKED_LM_FAMILIES))}"


def check_length(max_length: int, directory: Path) -> None:
    """Reject sequences longer than a checkpoint's positions.

    Raises:
        BmtoolsError: they are longer.
    """
    require_length(max_length, positions(read_config(directory)), str(directory))


def describe_directory(directory: Path) -> str:
    """Describe the content of a directory that was given in place of records."""
    if (directory / CONFIG).is_file():
        return "; it contains a checkpoint, for options such as --model"
    if _holds_tokenizer(directory):
        return "; it contains a tokenizer, for options such as --tokenizer"
    if _holds_shards(directory):
        return _SHARDS
    files = sorted(path for path in directory.iterdir() if path.is_file())
    ending = "".join(files[0].suffixes[-2:]) if files else ""
    return f"; to read its files, give {directory / ('*' + ending)}" if files else " in it"


def _what_it_is(directory: Path) -> str:
    """Describe the content of a directory without a checkpoint, and what to do with it."""
    if megatron_file(directory):
        return f"; to convert Megatron-LM's, run: {conversion(directory)} --tokenizer DIR"
    if (directory / OLD_CONFIG).is_file() and pickled_files(directory):
        return f"; to convert {OLD_CONFIG}, run: {conversion(directory)}"
    if _holds_tokenizer(directory):
        return (f"; it contains only a tokenizer; to train a model, run: bmtools pretrain FILE "
                f"--architecture bert-small --tokenizer {shlex.quote(str(directory))} -o DIR")
    if _holds_shards(directory):
        return _SHARDS
    return ""


def _holds_tokenizer(directory: Path) -> bool:
    return any((directory / name).is_file() for name in _TOKENIZERS)


def _holds_shards(directory: Path) -> bool:
    return next(directory.glob("shard-*.safetensors"), None) is not None
