"""Files of checkpoints and tokenizers, looked at before torch and transformers are imported."""

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
"""Values of `model_type` of decoders that become encoders."""
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model",
               "vocab.json")
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_FINE_TUNED = re.compile(r".+For(Token|Sequence)Classification|.+ForQuestionAnswering")
_DISCRIMINATOR = "ElectraForPreTraining"
_SHARDS = "; it holds shards of text, which pretrain and distill read"


def check_directory(path: Path) -> None:
    """Refuse what is no directory, such as a model's name on the Hugging Face Hub.

    Raises:
        CheckpointError: no such directory, or a file.
    """
    if path.is_dir():
        return
    if (path.parent / CONFIG).is_file() and path.exists():
        raise CheckpointError(f"'{path}' is a file, expected its directory: {path.parent}")
    if path.exists():
        kind, hint = ("a file of records", "; records are named without an option") \
            if ".jsonl" in path.suffixes else ("a file", "")
        raise CheckpointError(f"'{path}' is {kind}, expected the directory of a checkpoint or "
                              f"tokenizer{hint}")
    if path.is_symlink():
        raise CheckpointError(f"'{path}' is a symbolic link to '{path.readlink()}', which leads to "
                              "no directory; remove it, or name another one")
    raise CheckpointError(f"Directory '{path}' does not exist{_on_hub(path)}")


def _on_hub(path: Path) -> str:
    """Say how to get a model whose name this may be on the Hugging Face Hub."""
    # What begins with a directory that is there is a path with a typing error.
    if not _HUB_NAME.fullmatch(str(path)) or (path.parent != Path() and path.parent.is_dir()):
        return ""
    target = shlex.quote(path.name)
    return (f"; a model of the Hugging Face Hub comes by: hf download {path} --local-dir {target} "
            f"(without network: run that on a machine that has it, copy the directory here and "
            f"name {target})")


def check_tokenizer(directory: Path) -> None:
    """Refuse a directory without the files of a tokenizer.

    Raises:
        CheckpointError: no such directory, or no tokenizer in it.
    """
    check_directory(directory)
    if not _holds_tokenizer(directory):
        raise CheckpointError(
            f"{directory}: no tokenizer could be loaded, expected tokenizer.json or vocab.txt"
            f"{_what_it_is(directory)}")


def check_checkpoint(directory: Path) -> None:
    """Refuse a directory that holds no whole checkpoint: a model in safetensors and a tokenizer.

    Raises:
        CheckpointError: something is missing or damaged, as far as file names, `config.json` and
            the weights' headers say; or a model that brings its own code.
        BmtoolsError: a library is too old to load it.
    """
    check_directory(directory)
    if exported := read_exported(directory):
        raise CheckpointError(
            f"{directory}: found a model exported to {exported.format}, which predict, score-pppl "
            f"and score-mrr run; expected a checkpoint, such as {exported.source}, which it was "
            "made from")
    if not (directory / CONFIG).is_file():
        raise CheckpointError(f"{directory}: no {CONFIG}, expected a checkpoint directory"
                              f"{_what_it_is(directory)}")
    config = read_config(directory)
    family = config.get("model_type", "")
    if "auto_map" in config and family not in MASKED_LM_FAMILIES:
        raise CheckpointError(f"{directory}: found model_type {family!r}, whose code comes with "
                              f"the model and is never run; {_expected_family()}")
    layers, tensors = config.get("num_hidden_layers"), len(weight_names(directory))
    if layers is not None and not 1 <= layers <= tensors:  # a library would build them all
        raise CheckpointError(f"{directory / CONFIG}: found num_hidden_layers {layers}, expected 1 "
                              f"to {tensors}, the tensors of {WEIGHTS}; restore the checkpoint")
    heads, width = config.get("num_attention_heads", 1), config.get("hidden_size", 0)
    if heads < 1 or (width % heads and "head_dim" not in config):
        raise CheckpointError(f"{directory / CONFIG}: found num_attention_heads {heads}, expected "
                              f"a divisor of hidden_size {width}; restore the checkpoint")
    check_tokenizer(directory)
    require_versions()


def check_masked_lm(directory: Path) -> None:
    """Refuse a directory without a masked language model; see `check_checkpoint`.

    Raises:
        CheckpointError: as there, a model that was fine-tuned on a task, or another family.
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
    family = config.get("model_type")  # older files have none
    if family and family not in MASKED_LM_FAMILIES:
        hint = "; bmtools init-weights makes some decoders one" * names[0].endswith("ForCausalLM")
        raise CheckpointError(f"{directory}: found model_type {family!r}; {_expected_family()}"
                              f"{hint}")
    if names[0] == _DISCRIMINATOR:
        raise CheckpointError(f"{directory}: found ELECTRA's discriminator, which predicts no "
                              "tokens; expected its generator")


def check_base(directory: Path) -> None:
    """Refuse a directory without a masked language model or a decoder that can become one.

    Raises:
        CheckpointError: see `check_masked_lm`; or a decoder with other layers.
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
    """Tell whether a checkpoint is a decoder that can become an encoder."""
    return read_config(directory).get("model_type") in DECODERS


def check_for_inference(directory: Path, check: Callable[[Path], None] = check_checkpoint,
                        model_class: str = "") -> None:
    """Refuse a directory without a checkpoint or an exported model.

    Args:
        directory: to be looked at.
        check: of a checkpoint.
        model_class: transformers' auto class that an exported model must be of; any without.
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
    """Refuse a directory without a masked language model, exported or not."""
    check_for_inference(directory, check_masked_lm, MASKED_LM)


def _expected_family() -> str:
    return f"expected a masked language model: {', '.join(sorted(MASKED_LM_FAMILIES))}"


def check_length(max_length: int, directory: Path) -> None:
    """Refuse sequences longer than a checkpoint's positions.

    Raises:
        BmtoolsError: they are longer.
    """
    require_length(max_length, positions(read_config(directory)), str(directory))


def describe_directory(directory: Path) -> str:
    """Say what a directory holds that is given where records are expected."""
    if (directory / CONFIG).is_file():
        return "; it holds a checkpoint, which --model and the like take"
    if _holds_tokenizer(directory):
        return "; it holds a tokenizer, which --tokenizer and the like take"
    if _holds_shards(directory):
        return _SHARDS
    files = sorted(path for path in directory.iterdir() if path.is_file())
    ending = "".join(files[0].suffixes[-2:]) if files else ""
    return f"; {directory / ('*' + ending)} names those in it" if files else ", and it has none"


def _what_it_is(directory: Path) -> str:
    """Say what a directory without a checkpoint holds, and what to do with it."""
    if megatron_file(directory):
        return f"; it holds one of Megatron-LM: {conversion(directory)} --tokenizer DIR"
    if (directory / OLD_CONFIG).is_file() and pickled_files(directory):
        return f" but {OLD_CONFIG}: {conversion(directory)}"
    if _holds_tokenizer(directory):
        return (f"; it holds a tokenizer and no model: bmtools pretrain FILE --architecture "
                f"bert-small --tokenizer {shlex.quote(str(directory))} -o DIR makes one")
    if _holds_shards(directory):
        return _SHARDS
    return ""


def _holds_tokenizer(directory: Path) -> bool:
    return any((directory / name).is_file() for name in _TOKENIZERS)


def _holds_shards(directory: Path) -> bool:
    return next(directory.glob("shard-*.safetensors"), None) is not None
