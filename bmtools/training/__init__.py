"""The training loop, its objectives and schedules."""

from bmtools.lazy import export

export(__name__, preflight="bmtools.training.preflight:preflight")
