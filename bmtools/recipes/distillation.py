"""Settings of distillation; importing this costs nothing."""

from __future__ import annotations

import re
from typing import Literal

from bmtools.errors import check_choices, require, require_above_0, require_at_least, setting
from bmtools.settings import Settings, option

_LAYER_PAIRS = re.compile(r"uniform|last|(?:last|\d+):(?:last|\d+)(?:,(?:last|\d+):(?:last|\d+))*")


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
    logit_mse_weight: float = option(
        0.0, "Weight of the squared distance between logits, where predictions are compared.")
    hidden_weight: float = option(0.0, "Weight of the squared distance between states of layers "
                                       "(TinyBERT, Jiao et al. 2020).")
    layer_map: str = option(
        "uniform", "Layers whose states are compared: uniform (the embeddings and every layer of "
                   "the student, with the teacher's at equal distances), last, or pairs such as "
                   "0:0,3:6,last:12 of a layer of the student and one of the teacher; 0 is the "
                   "embeddings.")
    relation_weight: float = option(
        0.0, "Weight of the divergence between attention relations: of queries with queries, keys "
             "with keys and values with values (MiniLMv2, Wang et al. 2021).")
    relation_layers: str = option(
        "last", "Layers whose relations are compared, as in `layer_map`, from 1; of a large "
                "teacher one above its middle is better than the last, such as last:21 of 24.")
    relation_heads: int = option(
        0, "Heads of relations, which divide both widths; 0: the teacher's attention heads.")
    align_tokens: bool = option(
        False, "Let the student have another vocabulary: a token is compared with the teacher's "
               "tokens that share its characters, by states of the last or of other layers alone.")
    teacher_precision: Literal["auto", "float32", "bf16", "fp16"] = option(
        "auto", "Precision of the teacher's matrices, in memory too; auto: that of the run's "
                "products. Models that transformers computes in float32 alone stay so.")
    teacher_device: str = option(
        "same", "Device of the teacher; same: the student's.", metavar="same|cpu|cuda[:N]")
    teacher_cache: str = option("", "Directory that keeps the teacher's outputs for this run and "
                                    "others on the same text, with the same masks.", metavar="DIR")
    teacher_top_k: int = option(
        128, "Tokens that stand for a prediction in teacher_cache: the likeliest half, and as many "
             "drawn from the others. 0: the whole vocabulary.")

    def __post_init__(self) -> None:
        check_choices(self)
        weights = (self.mlm_weight, self.kl_weight, self.cosine_weight, self.logit_mse_weight,
                   self.hidden_weight, self.relation_weight)
        if not (min(weights) >= 0 and sum(weights) > 0):
            raise ValueError(f"loss weights: found {weights}, expected 0 or more, not all 0")
        require_above_0(self, "temperature")
        require_at_least(self, relation_heads=0, teacher_top_k=0)
        require(self.teacher_top_k != 1, "teacher_top_k", 1, "0, or 2 or more")
        for name in ("logit_mse_weight", "hidden_weight", "relation_weight"):
            require(not (self.teacher_cache and getattr(self, name)), name, getattr(self, name),
                    f"0 with {setting('teacher_cache')}, which has no outputs for this loss")
        for name in ("layer_map", "relation_layers"):
            require(_LAYER_PAIRS.fullmatch(getattr(self, name)) is not None, name,
                    repr(getattr(self, name)), "uniform, last or pairs such as 1:3,last:6")

    @property
    def trains_every_weight(self) -> bool:
        """Whether a loss reaches the head, and with it every weight of the student."""
        return self.mlm_weight + self.kl_weight + self.logit_mse_weight > 0
