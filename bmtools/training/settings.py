"""Settings of training runs; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

OBJECTIVES = ("masked", "causal")
PRECISIONS = ("no", "bf16", "fp16")


@dataclass(frozen=True)
class LoopSettings:
    """How a loop optimises, whatever it optimises.

    Args:
        learning_rate: peak rate.
        warmup_share: share of the steps on which the rate rises, linearly; it then falls to 0.
        weight_decay: AdamW's, on matrices only.
        adam_epsilon: AdamW's.
        clip_norm: gradients are scaled down to this norm.
        dropout: probability everywhere in the model while it trains. Off for pretraining, a
            departure from Devlin et al. 2019: nothing is seen often enough to be learnt by
            heart, and training is faster (Geiping and Goldstein 2022, section 4.3).
        micro_batch: rows in memory at a time; gradients add up to the batch. 0: all at once.
        precision: what matrices are multiplied in: no (float32), bf16 or fp16.
        seed: seed of the order of rows, of masking, of new weights and of dropout.
    """

    learning_rate: float = 5e-4
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    adam_epsilon: float = 1e-6
    clip_norm: float = 1.0
    dropout: float = 0.0
    micro_batch: int = 0
    precision: str = "no"
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.learning_rate > 0, "--learning-rate", self.learning_rate, "above 0")
        _require(0 <= self.warmup_share <= 1, "--warmup-share", self.warmup_share, "0 to 1")
        _require(self.weight_decay >= 0, "--weight-decay", self.weight_decay, "0 or more")
        _require(self.clip_norm > 0, "--clip-norm", self.clip_norm, "above 0")
        _require(0 <= self.dropout < 1, "--dropout", self.dropout, "0 to less than 1")
        _require(self.micro_batch >= 0, "--micro-batch", self.micro_batch, "0 or more")
        _require(self.precision in PRECISIONS, "--precision", self.precision,
                 " or ".join(PRECISIONS))


@dataclass(frozen=True)
class RowSettings:
    """How text becomes batches of masked rows.

    Args:
        row_tokens: longest row, special tokens included.
        batch_size: rows a step, over all processes.
        objective: masked (restore hidden words) or causal (predict the next token).
        mask_rate: share of tokens hidden.
        whole_words: hide words rather than tokens.
        masked_share: share of hidden tokens that become the mask token.
        random_share: share of hidden tokens that become a random token.
    """

    row_tokens: int = 128
    batch_size: int = 32
    objective: str = "masked"
    mask_rate: float = 0.15
    whole_words: bool = True
    masked_share: float = 0.8
    random_share: float = 0.1

    def __post_init__(self) -> None:
        _require(self.row_tokens >= 8, "--row-tokens", self.row_tokens, "8 or more")
        _require(self.batch_size >= 1, "--batch-size", self.batch_size, "1 or more")
        _require(self.objective in OBJECTIVES, "--objective", self.objective,
                 " or ".join(OBJECTIVES))
        _require(0 < self.mask_rate <= 1, "--mask-rate", self.mask_rate, "above 0, at most 1")
        shares = (self.masked_share, self.random_share)
        _require(min(shares) >= 0 and sum(shares) <= 1, "--masked-share and --random-share",
                 shares, "shares that add up to 1 at most")


@dataclass(frozen=True)
class RunSettings:
    """How long a run is, and what it reports and keeps.

    Args:
        steps: updates; 0 leaves it to `epochs`.
        epochs: passes over the rows, where `steps` does not say it.
        report_every: steps between lines of metrics.
        save_every: steps between states to resume from; 0 for none.
    """

    steps: int = 0
    epochs: float = 1.0
    report_every: int = 50
    save_every: int = 500

    def __post_init__(self) -> None:
        _require(self.steps >= 0, "--steps", self.steps, "0 or more")
        _require(self.steps > 0 or self.epochs > 0, "--epochs", self.epochs, "above 0")
        _require(self.report_every >= 1, "--report-every", self.report_every, "1 or more")
        _require(self.save_every >= 0, "--save-every", self.save_every, "0 or more")

    def count_steps(self, steps_per_epoch: int) -> int:
        """Number of updates for a corpus that takes so many to pass over."""
        return self.steps or max(1, round(self.epochs * steps_per_epoch))


@dataclass(frozen=True)
class DistillSettings:
    """What a student learns from (Lewis et al. 2020, Bio-LM, section 7.1).

    Args:
        mlm_weight: weight of the masked-LM loss.
        kl_weight: weight of the divergence from the teacher's predictions.
        cosine_weight: weight of the distance between last-layer states.
        temperature: divides the logits of both before they are compared.
    """

    mlm_weight: float = 5.0
    kl_weight: float = 2.0
    cosine_weight: float = 1.0
    temperature: float = 2.0

    def __post_init__(self) -> None:
        weights = (self.mlm_weight, self.kl_weight, self.cosine_weight)
        _require(min(weights) >= 0 and sum(weights) > 0, "loss weights", weights,
                 "0 or more, not all 0")
        _require(self.temperature > 0, "--temperature", self.temperature, "above 0")


def _require(holds: bool, name: str, found: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}: found {found}, expected {expected}")
