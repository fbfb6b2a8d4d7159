"""A fine-tuned model that teaches another one of the same task by its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import CheckpointError, setting
from bmtools.io.json_files import read_manifest
from bmtools.models.architectures import max_tokens
from bmtools.records import Record
from bmtools.tasks.predict import load_fine_tuned, on_device, run_by_length
from bmtools.tasks.registry import find_task
from bmtools.tasks.run_settings import PredictConfig
from bmtools.tasks.task import (
    IMPOSSIBLE,
    TRAIN,
    AnySplit,
    AnyTask,
    Example,
    ModelInput,
    Split,
)
from bmtools.tasks.texts import TextTask


class TaskTeacher:
    """A fine-tuned model whose logits for every input are computed once, before training.

    A text, or a pair of texts, it reads by its own tokenizer and in its own length; where labels
    belong to words, pairs of entities or answers, it reads the student's inputs.

    Attributes:
        notes: what of the teacher is not learned.

    Args:
        directory: the model.
        name: of the task.

    Raises:
        CheckpointError: no model of this task, or one without labels.
    """

    def __init__(self, directory: Path, name: str) -> None:
        tuned = read_manifest(directory).get("settings", {}).get("task", name)
        if tuned != name or name == "similarity":
            raise CheckpointError(f"{directory}: found a teacher for {tuned}, expected one for "
                                  f"{'a task with labels' if tuned == name else name}")
        find_task(directory, name)
        self._task: AnyTask = load_fine_tuned(directory, PredictConfig(), name)
        self.notes = [f"{directory} has a CRF: its emissions are learned, not its transitions"] \
            if getattr(self._task.config, "crf", False) else []

    def teach(self, task: AnyTask, name: str, records: Sequence[Record], split: AnySplit) -> None:
        """Compute logits for the inputs of a set that the student has read from records.

        Raises:
            CheckpointError: other labels, or, where the student's inputs are read, another
                vocabulary or kind of input, or too few positions.
        """
        self._require_same(task)
        inputs = split.inputs
        if isinstance(self._task, TextTask):
            kept = self._task.usable(records, "", lambda _: None) if name == TRAIN else records
            inputs = list(self._task.inputs(kept))
        split.taught = run_by_length(inputs, PredictConfig.batch_size,
                                     lambda some: self._logits(task, some))

    def _require_same(self, task: AnyTask) -> None:
        teacher = self._task.checkpoint
        shared: dict[str, tuple[object, object]] = {} if task.fixed_labels else {
            "labels": (", ".join(self._task.labels), ", ".join(task.labels))}
        if not isinstance(task, TextTask):
            shared |= {"vocabulary": (teacher.vocabulary[:12], task.checkpoint.vocabulary[:12]),
                       setting("max_length"): (min(task.max_length, max_tokens(teacher.model)),
                                               task.max_length)}
            shared |= {setting(field): (getattr(self._task.config, field),
                                        getattr(task.config, field))
                       for field in task.input_settings}
        for what, (found, expected) in shared.items():
            if found != expected:
                raise CheckpointError(f"{teacher.path}: found a teacher with {what} {found}, "
                                      f"expected that of the student, {expected}")

    def _logits(self, task: AnyTask, inputs: Sequence[ModelInput]) -> list[np.ndarray]:
        """Compute logits wherever inputs could have labels, (labels, classes) each."""
        batch = self._task.collate(inputs)
        compared = task.collate_labels([*map(task.with_any_labels, inputs)], batch) != IGNORED
        model = self._task.checkpoint.model
        logits = self._task.distributions(self._task.logits(model, on_device(batch, model)))
        rows = [own[places].reshape(-1, logits.shape[-1]) for own, places
                in zip(logits.float().cpu().numpy(), compared, strict=True)]
        return [own[:, (own > IMPOSSIBLE).any(axis=0)] for own in rows]


def encode_unlabelled(task: AnyTask, records: Sequence[Record]) -> AnySplit:
    """Encode records for a teacher to label."""
    inputs = [task.with_any_labels(item) for example in task.encode(records)
              for item in example.inputs]
    return Split([Example(inputs)], {"records": len(records), "inputs": len(inputs)})
