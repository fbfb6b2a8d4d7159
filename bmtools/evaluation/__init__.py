"""Metrics of annotations and answers: of tasks while they train, and of `score-tasks`.

Functions take plain values; nothing here imports torch or a task. `counts`, `spans`, `labels`,
`correlation` and `answers` define the metrics. `samples` counts what they need by document,
`resampling` and `seeds` give intervals and tests of any of them, `matching` and `task_scores` score
files. `suite` and `suite_scores` average scores over the sets of a benchmark.
"""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.evaluation.suite_scores import suite_scores as suite_scores
    from bmtools.evaluation.task_scores import task_scores as task_scores

export(__name__, suite_scores="bmtools.evaluation.suite_scores",
       task_scores="bmtools.evaluation.task_scores")
