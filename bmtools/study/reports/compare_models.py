"""Comparison of models by size, speed and memory. Each model runs in a separate process."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from bmtools.errors import DataError, setting
from bmtools.io.directories import directory_bytes
from bmtools.io.json_files import read_manifest
from bmtools.io.jsonl import as_records
from bmtools.io.system import usable_cores
from bmtools.models.checkpoint_files import check_for_inference
from bmtools.models.exported.formats import MASKED_LM, read_exported
from bmtools.models.model_files import count_weights, read_config
from bmtools.models.settings import SpeedConfig
from bmtools.records import JsonObject, RecordSource
from bmtools.settings import split_settings
from bmtools.status import set_status
from bmtools.tasks.settings import PredictConfig

if TYPE_CHECKING:
    import numpy as np

    from bmtools.models.checkpoint import Checkpoint

_TEXTS = 64
_GIVEN: dict[str, tuple[Checkpoint, bool, Sequence[str], SpeedConfig]] = {}
_Turn: TypeAlias = tuple[int, float, float]
"""Number of tokens in a turn, seconds of the model and seconds of the tokenizer."""


def _process() -> Executor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def compare_models(models: Sequence[str | PathLike[str]], texts: RecordSource,
                   **settings: object) -> list[JsonObject]:
    """Measure models on the CPU: `compare_models(["a", "b"], "notes.jsonl")`.

    All models read the same texts, each with its own tokenizer. Masked language models
    predict one token of each text. Every model runs once in each turn, so that other work on the
    machine slows down all models equally.

    Args:
        models: directories of checkpoints, which may be fine-tuned or exported.
        texts: records, or a file of records; only the first ones are read.
        settings: fields of `SpeedConfig`.

    Returns:
        for each model `parameters`, `megabytes` of its directory, the settings, and values on the
        `cpu`. `tokens_per_second` is the speed of the best turn and `median` the median speed of
        all turns, both without padding. `texts_per_second` includes the time of the tokenizer.
        `peak_megabytes` is the peak memory of the whole process.

    Raises:
        DataError: no record has a text.
        BmtoolsError: a model cannot be loaded.
    """
    config: SpeedConfig
    [config], paths = split_settings(settings, SpeedConfig), [Path(model) for model in models]
    config = replace(config, workers=config.workers or usable_cores())
    for path in paths:
        check_for_inference(path)
    read = [record["text"] for record in islice(as_records(texts), _TEXTS)]
    if not any(read):
        raise DataError(f"{setting('texts')}: found no text, expected records with text")
    measured, lines = _measure(paths, read, config), []
    for path in paths:
        exported, manifest = read_exported(path), read_manifest(path)
        lines.append({
            "model": str(path),
            "kind": exported.format if exported else read_config(path).get("model_type", ""),
            "precision": exported.precision if exported else "float32",
            # The record of an exported model contains the number of parameters of its source.
            "parameters": manifest.get("results", {}).get("parameters") if exported
            else count_weights(path),
            "megabytes": round(directory_bytes(path) / 1e6, 3), "cpu": measured[str(path)],
            "threads": config.workers, "batch_size": config.batch_size,
            "max_length": config.max_length, "texts": len(read)})
    return lines


def _measure(models: Sequence[Path], texts: Sequence[str],
             config: SpeedConfig) -> dict[str, JsonObject]:
    """Run models in turns, each in a separate process, and summarize the turns of each model."""
    turns: dict[str, list[_Turn]] = {str(path): [] for path in models}
    with ExitStack() as stack:
        runners = {name: stack.enter_context(_process()) for name in turns}
        for loaded in [runner.submit(_load, name, texts, config)
                       for name, runner in runners.items()]:
            loaded.result()
        for number in range(config.turns + 1):
            for name, runner in runners.items():
                set_status("measuring", number, config.turns + 1, "turns")
                turns[name].append(runner.submit(_turn, name).result())
        peaks = {name: runner.submit(_peak, name).result() for name, runner in runners.items()}
    measured = {}
    for name, [_, *own] in turns.items():  # the first turn is a warm-up
        speeds = [tokens / seconds for tokens, seconds, _ in own]
        fastest = min(seconds + encoding for _, seconds, encoding in own)
        measured[name] = {
            "tokens_per_second": round(max(speeds)), "median": round(median(speeds)),
            "texts_per_second": round(len(texts) / fastest, 1),
            "peak_megabytes": round(peaks[name] / 1e6)}
    return measured


def _load(name: str, texts: Sequence[str], config: SpeedConfig) -> None:
    """Load a model and its inputs in this process."""
    import torch

    from bmtools.models.checkpoint import load_for_inference
    from bmtools.tasks.predict import Predictor

    warnings.simplefilter("ignore")
    torch.set_num_threads(config.workers)
    directory, exported = Path(name), read_exported(Path(name))
    kind = exported.model_class if exported else \
        (read_config(directory).get("architectures") or [""])[0]
    is_masked_lm = kind.endswith(("ForMaskedLM", "ForPreTraining"))
    checkpoint = load_for_inference(directory, "cpu", MASKED_LM) if is_masked_lm else \
        Predictor(directory, PredictConfig(device="cpu")).task.checkpoint
    _GIVEN[name] = (checkpoint, is_masked_lm, texts, config)


def _turn(name: str) -> _Turn:
    """Run a model on all batches; return tokens, seconds of the model and of the tokenizer."""
    import numpy as np
    import torch

    from bmtools.models.architectures import max_tokens
    from bmtools.vocab.encoding import encode

    checkpoint, is_masked_lm, texts, config = _GIVEN[name]
    tokenizer = checkpoint.tokenizer
    start = time.perf_counter()
    longest = min(config.max_length, max_tokens(checkpoint.model)) - 2
    ids = [np.array([tokenizer.cls_token_id, *text.ids[:longest], tokenizer.sep_token_id])
           for text in encode(tokenizer, texts)]
    encoded = time.perf_counter()
    with torch.inference_mode():
        for first in range(0, len(ids), config.batch_size):
            _run(checkpoint, is_masked_lm, ids[first:first + config.batch_size])
    return sum(map(len, ids)), time.perf_counter() - encoded, encoded - start


def _run(checkpoint: Checkpoint, is_masked_lm: bool, ids: Sequence[np.ndarray]) -> None:
    """Compute the logits of a batch; for a masked language model, at one position of each text."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from bmtools.models.exported.model import ExportedModel
    from bmtools.models.fast_encoder import FastEncoder, InferenceModel
    from bmtools.models.mlm import encode, lm_head

    model = checkpoint.model
    sequences = [torch.from_numpy(one) for one in ids]
    inputs = pad_sequence(sequences, True, checkpoint.tokenizer.pad_token_id)
    mask = (torch.arange(inputs.shape[1]) < torch.tensor([*map(len, ids)])[:, None]).long()
    mentions = (torch.arange(inputs.shape[1]) == 0).expand(len(ids), 2, -1)
    if isinstance(model, ExportedModel):
        model(inputs, mask, positions=torch.arange(len(ids)) * inputs.shape[1],
              mentions=mentions)  # a model uses only the inputs that its graph has
    elif not is_masked_lm:
        has_own_head = any(hasattr(one, "mentions") for one in model.modules())
        model(input_ids=inputs, attention_mask=mask,
              **({"mentions": mentions} if has_own_head else {}))
    elif isinstance(model, InferenceModel):
        model.head(FastEncoder(model.weights).states(inputs, mask)[:, 0])
    else:
        lm_head(model)(encode(model, inputs, mask.bool())[:, 0])


def _peak(_name: str) -> int:
    """Return the peak memory of this process in bytes."""
    from bmtools.models.memory import peak_bytes

    return peak_bytes()
