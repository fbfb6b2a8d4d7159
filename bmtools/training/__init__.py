"""Training: pretraining in phases and distillation, killable and resumable."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.training.distill import distill as distill
    from bmtools.training.pretrain import pretrain as pretrain

export(__name__, pretrain="bmtools.training.pretrain",
       distill="bmtools.training.distill")
