"""Distillation: smaller models that learn to predict as larger ones."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.distillation.distill import distill as distill

export(__name__, distill="bmtools.distillation.distill:distill")
