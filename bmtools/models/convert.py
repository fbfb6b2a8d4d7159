"""Conversion of published checkpoints to safetensors with a fitting tokenizer."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bmtools.errors import CheckpointError, setting
from bmtools.installation import require_versions
from bmtools.io.directories import new_directory
from bmtools.io.failures import reading
from bmtools.io.json_files import read_object
from bmtools.io.provenance.manifest import Manifest, directory_licences, hash_file
from bmtools.io.step import Step
from bmtools.models.checkpoint import (
    require_fitting_tokenizer,
    silence_transformers,
    write_checkpoint_files,
)
from bmtools.models.families import MASKED_LM_FAMILIES
from bmtools.models.inference_files import require_finite
from bmtools.models.megatron_lm import read_megatron
from bmtools.models.model_files import (
    CONFIG,
    OLD_CONFIG,
    megatron_file,
    pickled_files,
    read_config,
    weight_files,
)
from bmtools.models.pickled_weights import read_weights
from bmtools.models.settings import Casing
from bmtools.records import JsonObject
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import CONFIG as TOKENIZER_CONFIG
from bmtools.vocab.tokenizer import TOKENIZER, VOCAB, fingerprint, is_uncased, upper_case_tokens

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

_TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, VOCAB, "special_tokens_map.json",
                    "added_tokens.json", "vocab.json", "merges.txt", "spiece.model",
                    "sentencepiece.bpe.model")
_CLASSES = ("MODEL_FOR_PRETRAINING", "MODEL_FOR_MASKED_LM", "MODEL")
_WRAPPERS = re.compile(r"(?:(?:_orig_mod|module|model)\.)*")
_BERT_ATTENTION = "encoder.layer.0.attention.self.query.weight"


def convert(checkpoint: str | PathLike[str], output: str | PathLike[str], *,
            tokenizer: str | PathLike[str] | None = None, casing: Casing | None = None,
            overwrite: bool = False, step: Step | None = None) -> JsonObject:
    """Write a published checkpoint as safetensors, with its tokenizer and `bmtools.json`.

    Its weights are `pytorch_model.bin`, as one file or several, safetensors with an old
    configuration or tokenizer, or Megatron-LM's `model_optim_rng.pt`. Only tensors are read from
    pickled files; no code in them is run. All weights are compared with the weights of the
    resulting model.

    Args:
        checkpoint: directory of the downloaded checkpoint.
        output: directory to write.
        tokenizer: directory of its vocabulary, if the checkpoint does not contain one.
        casing: whether text keeps its case; required if the files do not state it.
        overwrite: replace the content of the output directory.
        step: the running command, if any.

    Returns:
        `checkpoint`, the `class` of the model, its number of `weights`, the number of tokens in its
        `vocabulary`, `casing`, names `left_out` because no class of the model has them, and the
        `removed_prefix` that a wrapper such as torch.compile had added to all names.

    Raises:
        CheckpointError: weights are missing, damaged or cannot be read, or the configuration,
            vocabulary or casing does not fit.
    """
    require_versions()
    silence_transformers()
    source = Path(checkpoint)
    config: PretrainedConfig
    prefix = ""
    if megatron := megatron_file(source):
        sources, (config, state) = [megatron], read_megatron(megatron)
    else:
        prefix, state = _unwrapped(read_weights(source))
        sources, config = pickled_files(source) or weight_files(source), _read_config(source, state)
    require_finite(source, state)
    words = _load_tokenizer(Path(tokenizer or source), config, casing)
    model, left_out = _load(source, config, state)
    is_mlm = type(model).__name__.endswith(("ForMaskedLM", "ForPreTraining"))
    require_fitting_tokenizer(source, words, model.config.vocab_size, is_mlm)
    line = {"class": type(model).__name__, "weights": model.num_parameters(),
            "vocabulary": len(words), "casing": "uncased" if is_uncased(words) else "cased",
            "left_out": left_out, "removed_prefix": prefix}
    manifest = Manifest("convert", {"published": str(source), "casing": line["casing"]},
                        fingerprint(words), inputs={str(path): hash_file(path) for path in sources},
                        results={"left_out": left_out, "removed_prefix": prefix},
                        licences={"published": directory_licences(source)}, step=step)
    with new_directory(Path(output), overwrite) as partial:
        write_checkpoint_files(partial, model, words, manifest)
    return {"checkpoint": str(output), **line}


def _unwrapped(state: Mapping[str, Tensor]) -> tuple[str, dict[str, Tensor]]:
    """Remove a prefix that wrappers added to all names; return the prefix and the weights."""
    prefix = min((_WRAPPERS.findall(name)[0] for name in state), key=len, default="")
    if not all(name.startswith(prefix) for name in state):
        prefix = ""
    return prefix, {name.removeprefix(prefix): weight for name, weight in state.items()}


def _read_config(source: Path, state: Mapping[str, Tensor]) -> PretrainedConfig:
    """Read a configuration; old ones have another file name and no model type."""
    from transformers import AutoConfig

    name = CONFIG if (source / CONFIG).is_file() else OLD_CONFIG
    if not (source / name).is_file():
        raise CheckpointError(f"{source}: no {CONFIG} with the weights; download the complete "
                              "model")
    content = read_config(source, name)
    if "model_type" not in content and {_BERT_ATTENTION, f"bert.{_BERT_ATTENTION}"} & state.keys():
        content["model_type"] = "bert"
    family = content.pop("model_type", None)
    if family not in MASKED_LM_FAMILIES:
        raise CheckpointError(f"{source / name}: found model_type {family!r}, expected one of "
                              f"{', '.join(sorted(MASKED_LM_FAMILIES))}")
    content.pop("auto_map", None)
    with reading(source / name, "no configuration could be made of it", "restore it"):
        return AutoConfig.for_model(family, **content)


def _load_tokenizer(directory: Path, config: PretrainedConfig,
                    casing: Casing | None) -> PreTrainedTokenizerFast:
    """Load a tokenizer whose casing is stated in its files or by the caller.

    Raises:
        CheckpointError: the casing is not stated, or the vocabulary contradicts it.
    """
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        for name in _TOKENIZER_FILES:
            if (directory / name).is_file():
                shutil.copyfile(directory / name, copy / name)
        if not any(copy.iterdir()):
            raise CheckpointError(f"{directory}: no tokenizer, expected {TOKENIZER} or {VOCAB}; "
                                  f"give its directory with {setting('tokenizer')}")
        if not (copy / TOKENIZER).is_file() and (copy / VOCAB).is_file():
            _state_casing(directory, copy, casing)
        (copy / CONFIG).write_text(json.dumps({"model_type": config.model_type}))
        try:
            tokenizer = load_tokenizer(copy)
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(place, str(directory))) from error
        found = "uncased" if is_uncased(tokenizer) else "cased"
        if casing and found != casing:
            raise CheckpointError(f"{directory / TOKENIZER}: found a tokenizer that is {found}, "
                                  f"but {setting('casing')} {casing}; leave that out")
        tokenizer.name_or_path = ""
        return tokenizer


def _state_casing(directory: Path, copy: Path, casing: Casing | None) -> None:
    """Write the casing, which `vocab.txt` does not state, into the configuration of a tokenizer."""
    path = copy / TOKENIZER_CONFIG
    content = read_object(path) if path.is_file() else {}
    beside = [read_object(directory / name) for name in (CONFIG, OLD_CONFIG)
              if (directory / name).is_file()]
    stated = next((one["do_lower_case"] for one in (content, *beside)
                   if one.get("do_lower_case") is not None), None)
    upper = upper_case_tokens((copy / VOCAB).read_text("utf-8", "replace").splitlines())
    fitting = "cased" if upper else "uncased"
    asked = casing or ("" if stated is None else "uncased" if stated else "cased")
    if asked != fitting and casing != "cased":
        said = f"{setting('casing')} {casing}" if casing else \
            "no file says whether text keeps its case" if stated is None else \
            f"{TOKENIZER_CONFIG} says do_lower_case {json.dumps(stated)}"
        raise CheckpointError(f"{directory}: {said}, but its vocabulary has "
                              + (f"upper case ({min(upper)!r})" if upper else "no upper case")
                              + f"; set {setting('casing')} {fitting}")
    content.setdefault("tokenizer_class", "BertTokenizer")
    path.write_text(json.dumps({**content, "do_lower_case": asked == "uncased"}))


def _load(source: Path, config: PretrainedConfig,
          state: dict[str, Tensor]) -> tuple[PreTrainedModel, list[str]]:
    """Load the weights into the class with the fewest missing weights; raise if any is missing.

    Returns:
        the model, and the names of weights that it does not use.
    """
    import transformers

    if any(name.startswith("lm_predictions.") for name in state):
        config.legacy = False  # Microsoft's name for DeBERTa's head
    kinds: list[Any] = [getattr(transformers, name, None) for name in config.architectures or ()]
    kinds = kinds[:1] + [getattr(transformers, f"{name}_MAPPING").get(type(config), None)
                         for name in _CLASSES]
    with reading(source, "no model could be made of its configuration", "restore config.json"):
        fits = [kind.from_pretrained(
            None, config=deepcopy(config), state_dict=dict(state), dtype=torch.float32,
            output_loading_info=True, ignore_mismatched_sizes=True)
            for kind in dict.fromkeys(kinds) if kind is not None]
    model, report = min(fits, key=lambda fit: (len(fit[1]["missing_keys"]),
                                               len(fit[1]["unexpected_keys"])))
    for name in sorted(report["missing_keys"]):
        raise CheckpointError(f"{source}: no weights for {name}, expected a complete "
                              f"{type(model).__name__}")
    for name, found, expected in report["mismatched_keys"]:
        raise CheckpointError(f"{source}: found {name} of shape {tuple(found)}, "
                              f"expected {tuple(expected)} from config.json")
    model.tie_weights()
    for name, made in model.state_dict().items():
        weight = state.get(name, state.get(name.removeprefix(f"{model.base_model_prefix}.")))
        if weight is not None and not torch.equal(made, weight):
            raise CheckpointError(f"{source}: found {name} that differs from the weights it is "
                                  'tied to; write "tie_word_embeddings": false into config.json')
    return model.eval(), sorted(report["unexpected_keys"])
