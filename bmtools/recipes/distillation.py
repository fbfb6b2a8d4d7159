"""Settings of distillation; importing this costs nothing."""

from __future__ import annotations

from typing import Literal

from bmtools.errors import check_choices, require_above_0
from bmtools.settings import Settings, option


class DistillationConfig(Settings, title="Losses of distillation"):
    """Losses of distillation (Lewis et al. 2020, Bio-LM, section 7.1).

    A loss of weight 0 is not computed.
    """

    mlm_weight: float = option(5.0, "Weight of the masked-LM loss.")
    kl_weight: float = option(2.0, "Weight of the divergence from the teacher's predictions.")
    cosine_weight: float = option(1.0, "Weight of the distance between last-layer states.")
    temperature: float = option(2.0, "Temperature of both softmax distributions.")
    kl_positions: Literal["masked", "all"] = option(
        "masked", "Tokens at which predictions are compared: masked, or all of them, as in "
                  "DistilBERT's commands (Sanh et al. 2020), which takes longer.")
    teacher_precision: Literal["auto", "float32", "bf16", "fp16"] = option(
        "auto", "Precision of the teacher's matrices, in memory too; auto: that of the run's "
                "products. Models that transformers computes in float32 alone stay so.")
    teacher_device: str = option(
        "same", "Device of the teacher; same: the student's.", metavar="same|cpu|cuda[:N]")

    def __post_init__(self) -> None:
        check_choices(self)
        weights = (self.mlm_weight, self.kl_weight, self.cosine_weight)
        if not (min(weights) >= 0 and sum(weights) > 0):
            raise ValueError(f"loss weights: found {weights}, expected 0 or more, not all 0")
        require_above_0(self, "temperature")

    @property
    def trains_every_weight(self) -> bool:
        """Whether a loss reaches the head, and with it every weight of the student."""
        return self.mlm_weight + self.kl_weight > 0
