"""Supervised tasks, each in its own file, with fine-tuning, prediction and metrics for all."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.tasks.finetune import finetune as finetune
    from bmtools.tasks.metrics.score_tasks import task_scores as task_scores
    from bmtools.tasks.predict import predict as predict

export(__name__, finetune="bmtools.tasks.finetune",
       predict="bmtools.tasks.predict:predict",
       task_scores="bmtools.tasks.metrics.score_tasks")
