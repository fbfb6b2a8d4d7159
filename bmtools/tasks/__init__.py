"""Supervised tasks: one file each, with fine-tuning and prediction for all of them."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.tasks.finetune import finetune as finetune
    from bmtools.tasks.inference import predict as predict

export(__name__, finetune="bmtools.tasks.finetune:finetune",
       predict="bmtools.tasks.inference:predict")
