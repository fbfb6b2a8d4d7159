"""Training: pretraining in phases and distillation, killable and resumable."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.training.distillation.distill import distill as distill
    from bmtools.training.init_comparison import compare_inits as compare_inits
    from bmtools.training.pretrain import pretrain as pretrain

export(__name__, pretrain="bmtools.training.pretrain",
       compare_inits="bmtools.training.init_comparison:compare_inits",
       distill="bmtools.training.distillation.distill")
