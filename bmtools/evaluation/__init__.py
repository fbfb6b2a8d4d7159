"""Metrics of annotations and answers: of tasks while they train, and of `score-tasks`.

Functions take plain values; nothing here imports torch or a task. `counts`, `spans`, `labels`,
`correlation` and `answers` define the metrics. `samples` counts what they need by document,
`resampling` and `seeds` give intervals and tests of any of them, `matching` and `task_scores` score
files.
"""

from bmtools.lazy import export

export(__name__, task_scores="bmtools.evaluation.task_scores")
