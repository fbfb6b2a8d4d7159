"""Distillation: smaller models that learn to predict as larger ones."""

from bmtools.lazy import export

export(__name__, distill="bmtools.distillation.distill:distill")
