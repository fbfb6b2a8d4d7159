"""Files of checkpoints and tokenizers, looked at before torch and transformers are imported."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.installation import require_versions
from bmtools.io.provenance.manifest import read_manifest, read_object
from bmtools.io.tensor_files import LENGTH_BYTES, TensorEntry, parse_header
from bmtools.models.exported.formats import (
    MASKED_LM,
    check_exported,
    read_exported,
    refuse_exported,
)
from bmtools.models.published_files import (
    BIN,
    OLD_CONFIG,
    WEIGHTS,
    conversion,
    listed_files,
    megatron_file,
    pickled_files,
)

CONFIG = "config.json"
# Their positions are counted from behind the id of the padding token.
POSITIONS_AFTER_PADDING = frozenset(
    {"camembert", "data2vec-text", "longformer", "mpnet", "roberta", "roberta-prelayernorm",
     "xlm-roberta", "xlm-roberta-xl"})
MASKED_LM_FAMILIES = frozenset((
    "albert", "bert", "big_bird", "camembert", "convbert", "data2vec-text", "deberta",
    "deberta-v2", "distilbert", "electra", "ernie", "esm", "eurobert", "fnet", "gte",
    "jina_embeddings_v3", "longformer", "megatron-bert", "mobilebert", "modernbert", "mpnet",
    "nomic_bert", "rembert", "roberta", "roberta-prelayernorm", "roformer", "squeezebert",
    "xlm-roberta", "xlm-roberta-xl"))
"""Values of `model_type` whose encoder and head are known here."""
STATIC = "model2vec"
"""Value of `model_type` of static models."""
STATE_COPIES = 4
"""Weights, gradients and the optimizer's two moments, all float32. Muon keeps one moment of the
matrices inside the encoder."""
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model",
               "vocab.json")
_OTHER_WEIGHTS = ("tf_model.h5", "flax_model.msgpack", "model.onnx")
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_LFS = b"version "  # begins a file of Git LFS that stands for another
_FINE_TUNED = re.compile(r".+For(Token|Sequence)Classification|.+ForQuestionAnswering")
_DISCRIMINATOR = "ElectraForPreTraining"
_SHARDS = "; it holds shards of text, which pretrain and distill read"


class _Config(TypedDict, total=False):
    """The keys of `config.json` that are read here."""

    architectures: list[str] | None
    model_type: str
    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    max_position_embeddings: int | None
    pad_token_id: int | None
    id2label: dict[str, str]
    problem_type: str | None


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
    raise CheckpointError(f"Directory '{path}' does not exist{_near_or_on_hub(path)}")


def _near_or_on_hub(path: Path) -> str:
    """Say which directory has a similar name, or how to get a model of this name."""
    from difflib import get_close_matches

    names = [one.name for one in path.parent.iterdir() if one.is_dir()] \
        if path.parent.is_dir() else []
    if near := get_close_matches(path.name, names, 1):
        return f"; did you mean {path.with_name(near[0])}"
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
    refuse_exported(directory)
    if not (directory / CONFIG).is_file():
        raise CheckpointError(f"{directory}: no {CONFIG}, expected a checkpoint directory"
                              f"{_what_it_is(directory)}")
    config = read_config(directory)
    family = config.get("model_type", "")
    if "auto_map" in config and family not in MASKED_LM_FAMILIES:
        raise CheckpointError(f"{directory}: found model_type {family!r}, whose code comes with "
                              f"the model and is never run; {_expected_family()}")
    layers, tensors = config.get("num_hidden_layers"), len(_tensors(directory))
    if layers is not None and not 0 <= layers <= tensors:  # a library would build them all
        raise CheckpointError(f"{directory / CONFIG}: found num_hidden_layers {layers}, but "
                              f"{WEIGHTS} has {tensors} tensors; restore the checkpoint")
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


def check_for_inference(directory: Path, check: Callable[[Path], None] = check_checkpoint,
                        model_class: str = "") -> None:
    """Refuse a directory without a checkpoint or an exported model.

    Args:
        directory: to be looked at.
        check: of a checkpoint.
        model_class: transformers' auto class that an exported model must be of; any without.
    """
    check_directory(directory)
    if exported := read_exported(directory):
        check_exported(directory, exported, model_class)
    else:
        check(directory)


def check_scored(directory: Path) -> None:
    """Refuse a directory without a masked language model, exported or not."""
    check_for_inference(directory, check_masked_lm, MASKED_LM)


def _expected_family() -> str:
    return f"expected a masked language model: {', '.join(sorted(MASKED_LM_FAMILIES))}"


def read_config(directory: Path, name: str = CONFIG) -> dict[str, Any]:
    """Read a model's `config.json`, or a file like it.

    Raises:
        CheckpointError: it is no JSON object.
    """
    return read_object(directory / name, _Config)


def positions(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens a model reads by its configuration; None where it does not say."""
    found = config.get("max_position_embeddings")
    if found is None:
        return None
    return int(found) - first_position(
        SimpleNamespace(**{"model_type": "", "pad_token_id": 1, **config}))


def first_position(config: Any) -> int:
    """Number of the first position id: past the padding token in RoBERTa's relatives, else 0.

    Args:
        config: transformers' configuration, or an object with the same attributes.
    """
    if config.model_type in POSITIONS_AFTER_PADDING and config.pad_token_id is not None:
        return int(config.pad_token_id) + 1
    return 0


def check_length(max_length: int, directory: Path) -> None:
    """Refuse sequences longer than a checkpoint's positions.

    Raises:
        BmtoolsError: they are longer.
    """
    require_length(max_length, positions(read_config(directory)), str(directory))


def require_length(max_length: int, limit: int | None, model: str) -> None:
    """Refuse sequences longer than a model's positions, where their number is known.

    Raises:
        BmtoolsError: names both.
    """
    if limit is not None and max_length > limit:
        raise BmtoolsError(f"{setting('max_length')}: found {max_length}, but {model} has {limit} "
                           "positions; expected that or less")


def count_weights(directory: Path) -> int:
    """Count a checkpoint's weights; those that are tied count once.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    return sum(math.prod(one["shape"]) for one in _tensors(directory).values()
               if one["dtype"].startswith(("F", "BF")))


def weight_bytes(directory: Path) -> int:
    """Return the bytes of a checkpoint's weights in float32; see `count_weights`."""
    return 4 * count_weights(directory)


def weight_names(directory: Path) -> set[str]:
    """List the names of a checkpoint's weights.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    return set(_tensors(directory))


def _tensors(directory: Path) -> dict[str, TensorEntry]:
    """Read what the headers of all weight files say of their tensors."""
    return {name: entry for path in weight_files(directory)
            for name, entry in _read_header(path).items()}


def weight_files(directory: Path) -> list[Path]:
    """List the files of a checkpoint's weights."""
    index = directory / f"{WEIGHTS}.index.json"
    if not index.is_file():
        if not (directory / WEIGHTS).is_file():
            raise CheckpointError(f"{directory}: no {WEIGHTS}{_other_weights(directory)}")
        return [directory / WEIGHTS]
    return listed_files(index)


def _other_weights(directory: Path) -> str:
    """Say which weights there are instead of safetensors, and how to convert them."""
    if found := pickled_files(directory):
        return (f", but {found[0].name}, which can run code when it is loaded; convert it without "
                f"that: {conversion(directory)}")
    for name in _OTHER_WEIGHTS:
        if (directory / name).is_file():
            return f", but {name}, which is not read here; convert it with transformers first"
    return ", expected a model with safetensors weights"


def require_no_pointer(path: Path) -> None:
    """Refuse a pointer file of Git LFS in place of weights.

    Raises:
        CheckpointError: it is one.
    """
    with path.open("rb") as stream:
        if stream.read(len(_LFS)) == _LFS:
            raise CheckpointError(f"{path}: found a pointer of Git LFS, expected weights; run git "
                                  f"lfs pull in {path.parent}")


def _read_header(path: Path) -> dict[str, TensorEntry]:
    """Read what a safetensors file says of its tensors, and make sure that it holds them.

    Raises:
        CheckpointError: a file that was cut off, or that only points to another one.
    """
    require_no_pointer(path)
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(LENGTH_BYTES)
        length = int.from_bytes(head, "little")
        try:
            header, _ = parse_header(stream.read(length) if length < size else b"")
        except ValueError:
            raise CheckpointError(f"{path}: found {size:,} bytes that are no safetensors file; "
                                  "download or copy it again") from None
    expected = LENGTH_BYTES + length + max(
        (one["data_offsets"][1] for one in header.values()), default=0)
    if size < expected:
        raise CheckpointError(f"{path}: found {size:,} bytes, expected {expected:,}; the file was "
                              "cut off, download or copy it again")
    return header


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
    if any((directory / name).is_file() for name in (WEIGHTS, BIN)):
        return "; it holds weights alone, download the whole model"
    inner = sorted({path.parent for pattern in (f"*/{CONFIG}", f"snapshots/*/{CONFIG}")
                    for path in directory.glob(pattern)})
    if inner:
        return f"; perhaps {' or '.join(map(str, inner[:4]))} is meant"
    return ""


def _holds_tokenizer(directory: Path) -> bool:
    return any((directory / name).is_file() for name in _TOKENIZERS)


def _holds_shards(directory: Path) -> bool:
    return next(directory.glob("shard-*.safetensors"), None) is not None
