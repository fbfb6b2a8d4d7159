"""Training: pretraining and distillation in phases, killable and resumable."""

from bmtools.lazy import export

export(__name__, pretrain="bmtools.training.pretrain:pretrain",
       distill="bmtools.training.distill:distill",
       preflight="bmtools.training.preflight:preflight",
       compare_inits="bmtools.training.init_comparison:compare_inits")
