"""Training: pretraining in phases, killable and resumable."""

from bmtools.lazy import export

export(__name__, pretrain="bmtools.training.pretrain:pretrain",
       preflight="bmtools.training.preflight:preflight",
       compare_inits="bmtools.training.init_comparison:compare_inits")
