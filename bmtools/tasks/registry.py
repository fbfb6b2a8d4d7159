"""The table of tasks: a new one adds its line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bmtools.errors import BmtoolsError, setting
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
