"""Mean of checkpoints' weights, to merge seeds, folds or stages of one run into one model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from statistics import fmean

import torch
from safetensors.torch import save_file
from torch import Tensor

from bmtools.errors import CheckpointError, require
from bmtools.io.directories import new_directory
from bmtools.io.failures import require_room
from bmtools.io.json_files import read_manifest
from bmtools.io.provenance.licence_check import check_licences, known_licences
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.step import Step
from bmtools.models.checkpoint_files import check_checkpoint
from bmtools.models.inference_files import require_finite
from bmtools.models.model_files import (
    WEIGHTS,
    read_config,
    stored_tensors,
    weight_bytes,
    weight_names,
)
from bmtools.records import JsonObject
from bmtools.status import set_status
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint, require_same_vocabulary, save_tokenizer

# Keys of config.json that do not describe the model itself.
_UNIMPORTANT = frozenset({"_name_or_path", "dtype", "torch_dtype", "transformers_version"})
# Settings of tasks that change a model's predictions or their meaning.
TASK_SETTINGS = (
    "task", "types", "merge_types", "overlapping", "scheme", "tags", "label_pieces", "head",
    "head_layers", "head_size", "crf", "negative", "max_length", "stride", "max_answer_tokens",
    "whole_words", "top_k", "no_answer", "head_types", "tail_types", "directed", "within",
    "no_relation_label", "entities", "placeholders", "markers", "pooling")
# Thresholds, which each model may have chosen itself; they are merged like weights.
THRESHOLDS = ("threshold", "null_score_diff_threshold")


def merge(models: Sequence[str | PathLike[str]], output: str | PathLike[str], *,
          overwrite: bool = False, step: Step | None = None) -> JsonObject:
    """Write a checkpoint whose weights are the means of the models' weights, in float32.

    The tokenizer, labels and settings are copied from the models, and thresholds are averaged.
    `predict` can use the result if the models were fine-tuned on a task.

    Source: Wortsman et al. 2022 (Model soups), section 2, uniform soup.

    Args:
        models: checkpoints of one architecture and vocabulary, with the same labels and settings
            of their task.
        output: directory to write.
        overwrite: replace the content of the output directory.
        step: the running command, if any.

    Returns:
        `checkpoint`, and the number of `models` and of `weights`.

    Raises:
        ValueError: there are fewer than two models. CheckpointError: the models do not fit each
            other, or weights are not finite.
    """
    paths = [Path(model) for model in models]
    require(len(paths) > 1, "models", len(paths), "2 or more")
    first = paths[0]
    for path in paths:
        check_checkpoint(path)
        _require_same_model(path, first)
    check_licences({str(path): known_licences(path) for path in paths})
    tokenizer = load_tokenizer(first)
    vocabulary = fingerprint(tokenizer)
    for path in paths[1:]:
        require_same_vocabulary(fingerprint(load_tokenizer(path)), vocabulary,
                                f"{path}: tokenizer")
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(first, local_files_only=True, trust_remote_code=False)
    means = dict(_means(paths))
    weights = sum(weight.numel() for weight in means.values())
    every = [read_manifest(path).get("settings", {}) for path in paths]
    settings = {name: fmean(one[name] for one in every) for name in THRESHOLDS
                if all(isinstance(one.get(name), float) for one in every)}
    manifest = Manifest("merge", {**every[0], **settings,
                                  "merged": [str(path) for path in paths]}, vocabulary,
                        parents=DirectoryHashes({f"merged {number}": path for number, path
                                                 in enumerate(paths, 1)}), step=step)
    with new_directory(Path(output), overwrite) as partial:
        require_room(partial / WEIGHTS, weight_bytes(first))
        config.save_pretrained(partial)
        save_file(means, partial / WEIGHTS, metadata={"format": "pt"})
        save_tokenizer(tokenizer, partial)
        manifest.write(partial)
    return {"checkpoint": str(output), "models": len(paths), "weights": weights}


def _require_same_model(path: Path, first: Path) -> None:
    """Reject a model that differs from the first in its configuration or the names of weights."""
    found, expected = read_config(path), read_config(first)
    for key in sorted((found.keys() | expected.keys()) - _UNIMPORTANT):
        if found.get(key) != expected.get(key):
            raise CheckpointError(f"{path}: found {key} {found.get(key)!r}, expected "
                                  f"{expected.get(key)!r}, as in {first}; give equal models")
    own, others = (read_manifest(one).get("settings", {}) for one in (path, first))
    for key in TASK_SETTINGS:
        if own.get(key) != others.get(key):
            raise CheckpointError(f"{path}: found a model fine-tuned with {key} {own.get(key)!r}, "
                                  f"expected {others.get(key)!r}, as in {first}; train both with "
                                  "the same setting")
    if differing := sorted(weight_names(path) ^ weight_names(first)):
        raise CheckpointError(f"{path}: found weights {differing[0]} only in this model or only in "
                              f"{first}, expected the same weights in both")


def _means(paths: Sequence[Path]) -> Iterator[tuple[str, Tensor]]:
    """Yield the mean of each weight; only one weight of each model is in memory at a time."""
    models = [stored_tensors(path) for path in paths]
    names = sorted(models[0])
    for number, name in enumerate(names, 1):
        set_status("merging", number, len(names), "weights")
        values = [model[name]() for model in models]
        for path, value in zip(paths, values, strict=True):
            if value.shape != values[0].shape:
                raise CheckpointError(f"{path}: found {name} of shape {tuple(value.shape)}, "
                                      f"expected {tuple(values[0].shape)}, as in {paths[0]}")
            require_finite(path, {name: value})
        mean = torch.stack([value.double() for value in values]).mean(dim=0)
        yield name, mean.float().contiguous()
