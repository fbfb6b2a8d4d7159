"""Supervised tasks: one file each, with fine-tuning and prediction for all of them."""

from bmtools.lazy import export

export(__name__, finetune="bmtools.tasks.finetune:finetune",
       predict="bmtools.tasks.inference:predict")
