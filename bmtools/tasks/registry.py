"""The table of tasks, and the tasks of fine-tuned models. A new task adds a line to the table.

Importing this module does not import torch.
"""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.errors import BmtoolsError, CheckpointError, require, setting
from bmtools.io.json_files import NAME, read_manifest
from bmtools.models.model_files import read_config
from bmtools.records import RecordFields
from bmtools.tasks.settings import (
    ClassificationConfig,
    MultilabelConfig,
    NerConfig,
    PicoConfig,
    QaConfig,
    RelationsConfig,
    SimilarityConfig,
    TaskConfig,
)

if TYPE_CHECKING:
    from bmtools.tasks.task import AnyTask

_UNTUNED = ("ForMaskedLM", "ForPreTraining", "ForCausalLM")
# Name: module and class in this package, its settings, the key of records that contains its
# annotations, and a line for the list of tasks.
TASKS: dict[str, tuple[str, type[TaskConfig], str, str]] = {
    "ner": ("ner:NerTask", NerConfig, "entities", "Train a model to find entities in text."),
    "pico": ("ner:PicoTask", PicoConfig, "entities",
             "Train a model to find the words of participants, interventions and outcomes."),
    "relations": ("relations:RelationsTask", RelationsConfig, "relations",
                  "Train a model to find relations between the entities of a text."),
    "classification": ("classification:ClassificationTask", ClassificationConfig, "label",
                       "Train a model to choose one label for a text or a pair of texts."),
    "nli": ("classification:NliTask", ClassificationConfig, "label",
            "Train a model to judge whether one text follows from another."),
    "multilabel": ("classification:MultilabelTask", MultilabelConfig, "labels",
                   "Train a model to assign any number of labels to a text."),
    "similarity": ("classification:SimilarityTask", SimilarityConfig, "score",
                   "Train a model to score how similar two texts are."),
    "yesno": ("classification:YesNoTask", ClassificationConfig, "label",
              "Train a model to answer questions with yes, no or maybe."),
    "qa": ("qa:QaTask", QaConfig, "answers",
           "Train a model to find the answers to questions in texts."),
}


def load_task(name: str) -> type[AnyTask]:
    """Import a task's class.

    Raises:
            BmtoolsError: if there is no such task.
    """
    if name not in TASKS:
        raise BmtoolsError(f"{setting('task')}: found {name!r}, expected {' or '.join(TASKS)}")
    module, _, class_name = TASKS[name][0].partition(":")
    return getattr(import_module(f"{__package__}.{module}"), class_name)


def find_task(directory: Path, task: str = "") -> str:
    """Return the task that a model was fine-tuned on, without loading the model.

    Args:
        directory: the model.
        task: task to use it for; empty for the task named in `bmtools.json`.

    Raises:
        CheckpointError: if the task is missing, unknown or different.
    """
    trained = read_manifest(directory).get("settings", {}).get("task", "")
    [head, *_] = read_config(directory).get("architectures") or [""]
    if not trained and head.endswith(_UNTUNED):
        raise CheckpointError(
            f"{directory}: found a model that was never fine-tuned ({head}), expected one that "
            f"bmtools finetune wrote: bmtools finetune {task or next(iter(TASKS))} --model "
            f"{shlex.quote(str(directory))} --train FILE --dev FILE -o DIR")
    if not task and not trained:
        raise CheckpointError(
            f"{directory}: found no task in {NAME}, expected a model that bmtools finetune wrote; "
            f"for one fine-tuned elsewhere set {setting('task')} ({' or '.join(TASKS)})")
    if trained and trained not in TASKS:
        raise CheckpointError(f"{directory / NAME}: found the task {trained!r}, expected one of "
                              f"{', '.join(TASKS)}; use the version of bmtools that wrote it")
    if task and trained and task != trained:
        raise CheckpointError(f"{directory}: found a model for {trained}, expected one for {task}; "
                              f"leave {setting('task')} out or name {trained}")
    return task or trained


def check_into(into: str, task: str) -> None:
    """Raise an error if predictions would replace a key of records that is not the task's own.

    Raises:
        ValueError: names the key, and the possible ones.
    """
    own = TASKS[task][2]
    require(bool(into) and (into == own or into not in RecordFields.__annotations__), "into",
            repr(into), f"{own!r}, whose values predictions replace, or a key that records do not "
                        "have, such as 'predicted'")
