"""Settings of `score-tasks`; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bmtools.errors import check_choices, require

TaskName = Literal["ner", "pico", "relations", "classification", "multilabel", "similarity", "qa",
                   "factoid"]


@dataclass(frozen=True)
class TaskScoresConfig:
    """Predictions: where they are, and what they are predictions of.

    Args:
        task: whose metrics are computed; by default the one that the keys of gold records and
            predictions belong to. Classification is also that of nli and yesno; factoid scores
            answers as BioASQ does, merged over the snippets of a question.
        predicted: key of the predictions: an object of them as `predict` writes it, or the task's
            own key, such as entities, where they took the place of annotations.
        negative: class that is no finding, such as a pair without a relation; it counts for
            accuracy alone, and F1 is over the others; empty for none.
        group_seeds: take files whose names differ in their last number alone, such as
            bio-0.jsonl and bio-1.jsonl, for seeds of one model.
    """

    task: TaskName | None = None
    predicted: str = "predicted"
    negative: str = ""
    group_seeds: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        require(bool(self.predicted), "predicted", repr(self.predicted), "a key")
