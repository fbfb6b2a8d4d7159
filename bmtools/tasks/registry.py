"""The table of tasks, to which a new task adds its line, and the tasks of fine-tuned models.

Importing this does not import torch.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.errors import BmtoolsError, CheckpointError, require, setting, suggestion
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
    YesNoConfig,
)

if TYPE_CHECKING:
    from bmtools.tasks.task import AnyTask

_UNTUNED = ("ForMaskedLM", "ForPreTraining", "ForCausalLM")
# Name: module and class in this package, its settings, and a line for the list of tasks.
TASKS: dict[str, tuple[str, type[TaskConfig], str]] = {
    "ner": ("ner:NerTask", NerConfig, "Train a model to find entities in text."),
    "pico": ("pico:PicoTask", PicoConfig,
             "Train a model to find the words of participants, interventions and outcomes."),
    "relations": ("relations:RelationsTask", RelationsConfig,
                  "Train a model to find relations between the entities of a text."),
    "classification": ("classification:ClassificationTask", ClassificationConfig,
                       "Train a model to choose one label for a text or a pair of texts."),
    "nli": ("classification:NliTask", ClassificationConfig,
            "Train a model to say what follows from one text for another."),
    "multilabel": ("multilabel:MultilabelTask", MultilabelConfig,
                   "Train a model to give a text any number of labels."),
    "similarity": ("similarity:SimilarityTask", SimilarityConfig,
                   "Train a model to score how similar two texts are."),
    "yesno": ("classification:YesNoTask", YesNoConfig,
              "Train a model to answer questions with yes, no or maybe."),
    "qa": ("qa:QaTask", QaConfig, "Train a model to find the answers to questions in texts."),
}


def load_task(name: str) -> type[AnyTask]:
    """Import a task's class; this does not import torch.

    Raises:
        BmtoolsError: no such task.
    """
    if name not in TASKS:
        raise BmtoolsError(f"{setting('task')}: found {name!r}, expected {' or '.join(TASKS)}")
    module, _, class_name = TASKS[name][0].partition(":")
    return getattr(import_module(f"{__package__}.{module}"), class_name)


def find_task(directory: Path, task: str = "") -> str:
    """Name the task that a model was fine-tuned on; cheap.

    Args:
        directory: the model.
        task: that it is given to; empty for the one that `bmtools.json` names.

    Raises:
        CheckpointError: no task is known, or another one.
        BmtoolsError: no such task.
    """
    settings = read_manifest(directory).get("settings", {})
    trained = settings.get("task", "")
    heads = read_config(directory).get("architectures") or [""]
    fitting = [trained] if trained else _possible_tasks(directory)
    tuned_for = " or ".join(fitting)
    if not tuned_for and heads[0].endswith(_UNTUNED):
        checkpoint = (settings.get("exported") or {}).get("source", str(directory))
        raise CheckpointError(
            f"{directory}: found a model that was never fine-tuned ({heads[0]}), expected one that "
            f"bmtools finetune wrote: bmtools finetune {task or next(iter(TASKS))} --model "
            f"{shlex.quote(checkpoint)} --train FILE --dev FILE -o DIR")
    if not task and not trained:
        raise CheckpointError(
            f"{directory}: found no task in {NAME}, expected a model that bmtools finetune wrote; "
            f"for one fine-tuned elsewhere set {setting('task')} "
            f"({' or '.join(fitting or TASKS)})")
    if not task and trained not in TASKS:
        raise CheckpointError(f"{directory / NAME}: found the task {trained!r}, "
                              f"{suggestion(trained, TASKS)}")
    load_task(task or trained)
    if task and fitting and task not in fitting:
        raise CheckpointError(f"{directory}: found a model for {tuned_for}, expected one for "
                              f"{task}; leave {setting('task')} out or name {tuned_for}")
    return task or trained


def _possible_tasks(directory: Path) -> list[str]:
    """Name the tasks that a model from elsewhere may have been fine-tuned on, by its head."""
    config = read_config(directory)
    [head, *_] = config.get("architectures") or [""]
    kind = config.get("problem_type")
    tasks = {name: load_task(name) for name in TASKS}
    return [name for name, task in tasks.items()
            if head.endswith(task.model_class.removeprefix("AutoModel"))
            and (not kind or kind == task.problem_type)]


def find_tasks(directories: Sequence[Path], task: str = "") -> str:
    """Name the one task that models were fine-tuned on; see `find_task`.

    Raises:
        ValueError: no model is given.
        CheckpointError: models of several tasks.
    """
    require(bool(directories), "model", "none", "one or more")
    name = find_task(directories[0], task)
    for directory in directories[1:]:
        if (other := find_task(directory, task)) != name:
            raise CheckpointError(f"{directory}: found a model for {other}, expected one for "
                                  f"{name}, as {directories[0]}; they vote together")
    return name


def check_into(into: str, task: str) -> None:
    """Refuse to write predictions over a key of records that is not the task's own.

    Raises:
        ValueError: names the key, and those that are possible.
    """
    own = load_task(task).key
    require(bool(into) and (into == own or into not in RecordFields.__annotations__), "into",
            repr(into), f"{own!r}, whose values predictions replace, or a key that records do not "
                        "have, such as 'predicted'")
