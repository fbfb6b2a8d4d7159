"""Training: pretraining and distillation in phases, killable and resumable."""

from bmtools import lazy

lazy.export(__name__, pretrain="bmtools.training.pretrain:pretrain",
            distill="bmtools.training.distill:distill")
