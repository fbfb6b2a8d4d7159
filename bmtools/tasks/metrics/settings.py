"""Settings of `score-tasks`; no torch."""

from __future__ import annotations

from bmtools.errors import did_you_mean, require
from bmtools.settings import Settings, option

TASKS = ("ner", "pico", "relations", "classification", "multilabel", "similarity", "qa",
         "factoid")


class TaskScoresConfig(Settings, title="Predictions"):
    """Predictions: where they are, and what they are predictions of."""

    task: str = option(
        "", "Whose metrics are computed: ner, pico, relations, classification (also of nli and "
            "yesno), multilabel, similarity, qa, or BioASQ's factoid, which merges the answers "
            "of a question's snippets; by default what the keys of gold records and "
            "predictions belong to.", metavar="NAME")
    predicted: str = option("predicted", "Key of the predictions: an object of them as `predict` "
                                         "writes it, or the task's own key, such as entities, "
                                         "where they took the place of annotations.", metavar="KEY")
    negative: str = option(
        "", "Class that is no finding, such as a pair without a relation; it counts for accuracy "
            "alone, and F1 is over the others; empty for none.", metavar="LABEL")
    types: str = option(
        "", "Types of entities or relations to score, such as CPR:3,CPR:4; all others are left out "
            "of gold and predictions; empty for all.", metavar="NAME,...")
    undirected: bool = option(False, "Relations join two entities whichever of them is the head.")

    def __post_init__(self) -> None:
        meant = did_you_mean(self.task, TASKS)
        require(not self.task or self.task in TASKS, "task", repr(self.task),
                f"one of {', '.join(TASKS)}{meant and f'; {meant}'}")
        require(bool(self.predicted), "predicted", repr(self.predicted), "a key")

    @property
    def chosen_types(self) -> frozenset[str]:
        """Names of the types to score; none for all."""
        return frozenset(filter(None, (name.strip() for name in self.types.split(","))))
