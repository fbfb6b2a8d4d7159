"""Prediction with fine-tuned models: add predictions to records."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch

from bmtools.errors import BmtoolsWarning, CheckpointError, RecordError, setting
from bmtools.io.json_files import NAME, read_manifest
from bmtools.io.jsonl import as_records
from bmtools.models.checkpoint import Checkpoint, autocast_dtype
from bmtools.models.checkpoint_files import check_for_inference
from bmtools.models.fast_encoder import InferenceModel
from bmtools.models.hardware import resolve_device
from bmtools.records import JsonObject, Record, RecordSource, readable
from bmtools.tasks.registry import TASKS, check_into, find_task, load_task
from bmtools.tasks.settings import PredictConfig, TaskConfig
from bmtools.tasks.task import AnyTask, Example, ModelInput, note_on_titles, unread_titles
from bmtools.vocab.unknown_tokens import UnknownTokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_BATCHES_AT_ONCE = 8


class Predictor:
    """A fine-tuned model with its task.

    Args:
        directory: the model.
        config: input length, batch size, device and precision.
        task: name of the task; empty for the task named in `bmtools.json`.

    Raises:
        ValueError: if predictions would replace a key of records that is not the task's own.
        CheckpointError: if no task is named, or the model is not for this task.
        BmtoolsError: if the task or device does not exist.
    """

    def __init__(self, directory: Path, config: PredictConfig | None = None,
                 task: str = "") -> None:
        self.config = config or PredictConfig()
        check_for_inference(directory)
        name = find_task(directory, task)
        check_into(self.config.into, name)
        self.task = load_fine_tuned(directory, self.config, name)

    def predict(self, records: Iterable[Record]) -> Iterator[Record]:
        """Add predictions to records in order, keeping only some batches in memory."""
        task, model = self.task, self.task.checkpoint.model
        unknown = UnknownTokens(str(task.checkpoint.path),
                                task.checkpoint.tokenizer.unk_token_id)
        dtype = autocast_dtype(task.checkpoint, self.config.precision)
        pending, titles = iter(records), 0
        while chunk := list(islice(pending, self.config.batch_size * _BATCHES_AT_ONCE)):
            examples = task.encode(chunk)
            titles += unread_titles(task, chunk)
            for record, example in zip(chunk, examples, strict=True):
                for item in example.inputs:
                    unknown.add(item.ids, record)
            with torch.autocast(model.device.type, dtype, enabled=dtype is not None):
                outputs = run_model(task, model, examples, self.config.batch_size)
            for example, output in zip(examples, outputs, strict=True):
                yield self._add(example.record, task.predict(example, output))
        unknown.warn()
        if titles:
            warnings.warn(note_on_titles(titles), BmtoolsWarning, stacklevel=2)

    def _add(self, record: Record, predictions: JsonObject) -> Record:
        """Add predictions to a record, or replace its annotations by them."""
        into, task = self.config.into, self.task
        if into == task.key:
            return record.without(task.key, *task.dependent).replace(**predictions)
        before = record.get(into, {})
        if not isinstance(before, dict):
            raise RecordError(record.place, f"key {into!r}: found a value that is not an object of "
                              f"predictions; set {setting('into')} to another key", record)
        definitions = before.get("definition", {}) | {task.key: task.config.definition}
        definitions = {key: own for key, own in definitions.items() if own}
        kept = {key: value for key, value in before.items() if key != "definition"}
        return record.replace(**{into: {
            **kept, **predictions, **({"definition": definitions} if definitions else {})}})


def load_fine_tuned(directory: Path, config: PredictConfig, name: str) -> AnyTask:
    """Load a fine-tuned model with its task and the settings used in training."""
    task_class = load_task(name)
    task_config = _read_settings(directory, name)
    if config.max_length:
        task_config = replace(task_config, max_length=config.max_length)
    task = task_class(task_config, task_class.load(directory, resolve_device(config.device),
                                                   task_config))
    labels: Any = task.checkpoint.model.config.id2label
    task.accept_labels([labels[number] for number in range(len(labels))])
    dtype = autocast_dtype(task.checkpoint, config.precision)
    if dtype and isinstance(task.checkpoint.model, InferenceModel):
        task.checkpoint.model.cast(dtype)
    task.into = config.into
    return task


def _read_settings(directory: Path, name: str) -> TaskConfig:
    """Read the task's settings that were used to train a model."""
    try:
        return msgspec.convert(read_manifest(directory).get("settings", {}), TASKS[name][1])
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{directory / NAME}: settings: {readable(str(error))}; restore the "
                              "checkpoint") from error


def load_for_export(directory: Path) -> Checkpoint | None:
    """Load a fine-tuned model with a head that transformers does not define; None for others.

    Raises:
        CheckpointError: if the head contains an LSTM or a CRF, which cannot be exported.
    """
    name = read_manifest(directory).get("settings", {}).get("task", "")
    if name not in TASKS:
        return None
    task_class = load_task(name)
    config = _read_settings(directory, name)
    if task_class.head_for(config)[1] is None:
        return None
    if getattr(config, "crf", False) or getattr(config, "head", "") == "bilstm":
        raise CheckpointError(
            f"{directory}: found a head with a CRF or an LSTM, which cannot be exported to other "
            "engines; fine-tune with a linear head or mlp and without CRF")
    return task_class.load(directory, "cpu", config)


def predict(records: RecordSource, model: str | PathLike[str], *, task: str = "",
            **settings: Any) -> Iterator[Record]:
    """Add a fine-tuned model's predictions to records.

    Args:
        records: records or dictionaries with `id`, `text` and other keys of the task, or a file.
        model: directory that `finetune` wrote, or a model fine-tuned elsewhere.
        task: name of the task, for a model without `bmtools.json`.
        settings: fields of `PredictConfig`: into, max_length, batch_size, device, precision.

    Yields:
        copies of the records in order, with an object of predictions under the key `predicted`, or
        the key in `into`. For taggers the object contains `entities` (each with id, start, end,
        type, text and score) and, with `label_pieces` all, `subtokens` (start, end and tags of each
        word). For questions it contains `answers` (each with text, start and score), for classes
        `label`, `score` (its probability) and `probabilities` (of all labels). It also
        contains the task's `definition`, by the key of its predictions, if score-tasks would
        otherwise use other settings. With into="entities" predictions replace the record's own
        entities, and `relations` are removed. With into="label" they replace its `label` and
        `score`.

    Raises:
        CheckpointError: if the model is not for a known task.
        BmtoolsError: if the task or device does not exist.
    """
    return Predictor(Path(model), PredictConfig(**settings), task).predict(as_records(records))


@torch.inference_mode()
def run_model(task: AnyTask, model: PreTrainedModel, examples: Sequence[Example[ModelInput]],
              batch_size: int, rank: int = 0,
              processes: int = 1) -> list[list[np.ndarray]]:
    """Compute the outputs of each example's inputs, in order.

    Inputs with similar lengths share a batch. Dropout is off during the computation. If there are
    several processes, each computes some of the batches and receives all outputs.
    """
    inputs = [item for example in examples for item in example.inputs]
    order = sorted(range(len(inputs)), key=lambda number: len(inputs[number]))
    was_training = model.training
    model.eval()
    found: dict[int, np.ndarray] = {}
    for start in range(rank * batch_size, len(order), processes * batch_size):
        numbers = order[start:start + batch_size]
        batch = {name: torch.from_numpy(value).to(model.device) for name, value
                 in task.collate([inputs[number] for number in numbers]).items()}
        rows = task.outputs(model, batch).cpu().numpy()
        found |= {number: task.trim(inputs[number], row)
                  for number, row in zip(numbers, rows, strict=True)}
    model.train(was_training)
    if processes > 1:
        from accelerate.utils import gather_object

        found = dict(ChainMap(*gather_object([found])))
    outputs = iter(found[number] for number in range(len(inputs)))
    return [[next(outputs) for _ in example.inputs] for example in examples]
