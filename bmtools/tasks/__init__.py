"""Supervised tasks: one file each, with fine-tuning, prediction and metrics for all of them."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.tasks.finetune import finetune as finetune
    from bmtools.tasks.inference import predict as predict
    from bmtools.tasks.metrics.task_scores import task_scores as task_scores

export(__name__, finetune="bmtools.tasks.finetune",
       predict="bmtools.tasks.inference:predict",
       task_scores="bmtools.tasks.metrics.task_scores")
