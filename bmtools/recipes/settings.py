"""Settings of training runs; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bmtools.errors import check_choices, require, setting
from bmtools.masking.settings import Corruption, Masking, MaskRateCurve

Objective = Literal["masked", "masked+nsp", "causal"]
Precision = Literal["no", "bf16", "fp16"]
LearningRateSchedule = Literal["linear", "cosine", "constant", "wsd"]
Optimizer = Literal["adamw", "stable-adamw", "muon"]
Layout = Literal["auto", "padded", "packed"]
AdversarialNorm = Literal["inf", "l2"]


@dataclass(frozen=True)
class OptimizationConfig:
    """Optimization of any objective.

    Args:
        optimizer: adamw, stable-adamw (update clipping, Wortsman et al. 2023) or muon (matrices
            of the encoder by Muon, the rest by AdamW).
        weight_decay: decoupled, on matrices only.
        adam_beta1: decay of the optimizer's mean of gradients.
        adam_beta2: decay of its mean of squared gradients.
        adam_epsilon: AdamW's.
        max_grad_norm: gradients are scaled down to this norm.
        dropout: probability everywhere in the model while it trains. Off for pretraining, a
            departure from Devlin et al. 2019: nothing is seen often enough to be learnt by
            heart, and training is faster (Geiping and Goldstein 2022, section 4.3).
        micro_batch_size: sequences in memory at a time; gradients add up. 0: all at once.
        memory_gib: GiB that a process stays below, libraries and all, on a GPU those of the GPU:
            the memory of each phase is measured on a few sequences, and the micro-batch fitted to
            it where micro_batch_size is 0. 0 sets no bound, and a GPU that runs out of memory
            halves the micro-batch.
        mixed_precision: what matrices are multiplied in: no (float32), bf16 or fp16.
        tf32: let a GPU multiply float32 matrices in TF32.
        compile: compile the model; costs minutes at the start.
        activation_checkpointing: keep no activations inside layers, compute them again.
        seed: seed of the order of documents, of masking, of new weights and of dropout.
    """

    optimizer: Optimizer = "adamw"
    weight_decay: float = 0.01
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    max_grad_norm: float = 1.0
    dropout: float = 0.0
    micro_batch_size: int = 0
    memory_gib: float = 0.0
    mixed_precision: Precision = "no"
    tf32: bool = True
    compile: bool = False
    activation_checkpointing: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        require(0 <= self.adam_beta1 < 1, "adam_beta1", self.adam_beta1, "0 to less than 1")
        require(0 <= self.adam_beta2 < 1, "adam_beta2", self.adam_beta2, "0 to less than 1")
        require(self.adam_epsilon > 0, "adam_epsilon", self.adam_epsilon, "above 0")
        require(self.max_grad_norm > 0, "max_grad_norm", self.max_grad_norm, "above 0")
        require(0 <= self.dropout < 1, "dropout", self.dropout, "0 to less than 1")
        require(self.micro_batch_size >= 0, "micro_batch_size", self.micro_batch_size,
                "0 or more")
        require(self.memory_gib >= 0, "memory_gib", self.memory_gib, "0 or more")


@dataclass(frozen=True)
class LearningRateConfig:
    """The learning rate over a phase.

    Args:
        learning_rate: peak rate.
        schedule: what follows the warm-up: linear (to the final rate), cosine (to the final
            rate), constant, or wsd (constant, then a fall by 1 - sqrt over the last part;
            Hägele et al. 2024).
        warmup_ratio: share of the phase on which the rate rises from 0, linearly.
        warmup_steps: the same in steps; counts where it is not 0.
        decay_ratio: share of the phase on which wsd falls.
        min_lr_ratio: rate at the end of the phase, as a share of the peak.
    """

    learning_rate: float = 5e-4
    schedule: LearningRateSchedule = "linear"
    warmup_ratio: float = 0.1
    warmup_steps: int = 0
    decay_ratio: float = 0.2
    min_lr_ratio: float = 0.0

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.learning_rate > 0, "learning_rate", self.learning_rate, "above 0")
        require(0 <= self.warmup_ratio <= 1, "warmup_ratio", self.warmup_ratio, "0 to 1")
        require(self.warmup_steps >= 0, "warmup_steps", self.warmup_steps, "0 or more")
        require(0 <= self.decay_ratio <= 1, "decay_ratio", self.decay_ratio, "0 to 1")
        require(0 <= self.min_lr_ratio <= 1, "min_lr_ratio", self.min_lr_ratio, "0 to 1")


@dataclass(frozen=True)
class PhaseLengthConfig:
    """Length of a phase: in steps, else in tokens, else in epochs.

    Args:
        steps: updates; 0 leaves it to tokens or epochs.
        tokens: tokens that go in, padding left out; 0 leaves it to epochs.
        epochs: passes over the text, rounded to whole steps.
    """

    steps: int = 0
    tokens: int = 0
    epochs: float = 1.0

    def __post_init__(self) -> None:
        require(self.steps >= 0, "steps", self.steps, "0 or more")
        require(self.tokens >= 0, "tokens", self.tokens, "0 or more")
        require(self.steps > 0 or self.tokens > 0 or self.epochs > 0, "epochs", self.epochs,
                "above 0")


@dataclass(frozen=True)
class BatchConfig:
    """Batches of sequences.

    Args:
        max_length: longest sequence, special tokens included.
        batch_size: sequences a step, over all processes.
        initial_batch_size: sequences a step at the beginning of the phase; 0 for no ramp.
        ramp_ratio: share of the phase on which the batch grows to its size, linearly.
        layout: padded (a row holds one document, rows of like length share a batch), packed
            (documents share a row, attention and positions do not cross) or auto (packed on a
            GPU, padded elsewhere).
    """

    max_length: int = 128
    batch_size: int = 32
    initial_batch_size: int = 0
    ramp_ratio: float = 0.1
    layout: Layout = "auto"

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.max_length >= 8, "max_length", self.max_length, "8 or more")
        require(self.batch_size >= 1, "batch_size", self.batch_size, "1 or more")
        require(0 <= self.initial_batch_size <= self.batch_size, "initial_batch_size",
                self.initial_batch_size, f"0, or up to {setting('batch_size')}")
        require(0 <= self.ramp_ratio <= 1, "ramp_ratio", self.ramp_ratio, "0 to 1")


@dataclass(frozen=True)
class ObjectiveConfig:
    """Objective of a phase and its masking.

    Args:
        objective: masked (restore hidden words), masked+nsp (and tell whether the second segment
            follows the first) or causal (predict the next token).
        masking: what is hidden together: words, tokens, spans of words, or listed terms first.
        mask_rate: share of tokens hidden, at the beginning where it changes.
        mask_rate_end: share hidden at the end of the phase; 0: as at the beginning.
        mask_curve: how the share changes: fixed, steps, linear or cosine.
        mask_rate_steps: number of equal parts of the phase where mask_curve is steps.
        mask_replace_prob: share of hidden tokens that become the mask token.
        random_replace_prob: share of hidden tokens that become a random token.
    """

    objective: Objective = "masked"
    masking: Masking = "words"
    mask_rate: float = 0.15
    mask_rate_end: float = 0.0
    mask_curve: MaskRateCurve = "fixed"
    mask_rate_steps: int = 5
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1

    def __post_init__(self) -> None:
        check_choices(self)
        require(0 < self.mask_rate <= 1, "mask_rate", self.mask_rate, "above 0, at most 1")
        require(0 <= self.mask_rate_end <= 1, "mask_rate_end", self.mask_rate_end, "0 to 1")
        require(self.mask_curve == "fixed" or self.mask_rate_end > 0, "mask_rate_end",
                self.mask_rate_end,
                f"a share above 0 beside {setting('mask_curve')} {self.mask_curve}")
        require(self.mask_curve != "fixed" or self.mask_rate_end in (0, self.mask_rate),
                "mask_curve", self.mask_curve,
                f"steps, linear or cosine beside {setting('mask_rate_end')}")
        require(self.mask_rate_steps >= 2, "mask_rate_steps", self.mask_rate_steps, "2 or more")
        Corruption(self.mask_replace_prob, self.random_replace_prob)


@dataclass(frozen=True)
class FreezeConfig:
    """Weights that a phase does not train.

    Args:
        frozen_layers: layers frozen from the bottom, the embeddings with them; 0 freezes nothing.
        frozen: names of further weights to freeze, with * and ?, separated by commas.
    """

    frozen_layers: int = 0
    frozen: str = ""

    def __post_init__(self) -> None:
        require(self.frozen_layers >= 0, "frozen_layers", self.frozen_layers, "0 or more")

    def patterns(self) -> tuple[str, ...]:
        """Patterns of names, one by one."""
        return tuple(part.strip() for part in self.frozen.split(",") if part.strip())


@dataclass(frozen=True)
class ReportingConfig:
    """Reports and checkpoints of a run, and its time budget.

    Args:
        logging_steps: steps between lines of metrics.
        save_steps: steps between states to resume from; 0 for none.
        save_total_limit: states kept; the oldest goes when a new one is whole.
        keep_steps: steps between checkpoints kept for good beside the output; 0 for none.
        eval_steps: steps between evaluations on held-out text; 0 for the end of each phase.
        budget: wall time after which a sitting saves a state and ends, such as 90m or 24h.
        trackers: services that get the metrics too, such as tensorboard or wandb, by commas.
    """

    logging_steps: int = 50
    save_steps: int = 500
    save_total_limit: int = 1
    keep_steps: int = 0
    eval_steps: int = 0
    budget: str = ""
    trackers: str = ""

    def __post_init__(self) -> None:
        require(self.logging_steps >= 1, "logging_steps", self.logging_steps, "1 or more")
        require(self.save_steps >= 0, "save_steps", self.save_steps, "0 or more")
        require(self.save_total_limit >= 1, "save_total_limit", self.save_total_limit,
                "1 or more")
        require(self.keep_steps >= 0, "keep_steps", self.keep_steps, "0 or more")
        require(self.eval_steps >= 0, "eval_steps", self.eval_steps, "0 or more")
        require(self.budget_seconds() is not None, "budget", self.budget,
                "a number and s, m, h or d, such as 90m")

    def budget_seconds(self) -> float | None:
        """Budget in seconds; infinite where there is none, None where it cannot be read."""
        if not self.budget:
            return float("inf")
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(self.budget[-1])
        try:
            seconds = float(self.budget[:-1]) * (unit or 0)
        except ValueError:
            return None
        return seconds if seconds > 0 else None


@dataclass(frozen=True)
class RegularizationConfig:
    """Regularization towards the initial weights.

    Buonocore et al. 2023 (BioBIT), table 2, take a layer decay of 0.9 or 0.95 and a mixout of 0.9.

    Args:
        layer_decay: each layer learns at this share of the rate of the layer above it, embeddings
            slowest of all; 1 lets all learn alike.
        mixout: probability with which an input of a layer's matrix meets the weights of the start
            instead of those in training, drawn at each step; 0 for none.
        l2_sp: strength of the pull of all weights towards the start, half of it times their
            squared distance being added to the loss; 0 for none.
    """

    layer_decay: float = 1.0
    mixout: float = 0.0
    l2_sp: float = 0.0

    def __post_init__(self) -> None:
        require(0 < self.layer_decay <= 1, "layer_decay", self.layer_decay,
                "above 0, at most 1")
        require(0 <= self.mixout < 1, "mixout", self.mixout, "0 to less than 1")
        require(self.l2_sp >= 0, "l2_sp", self.l2_sp, "0 or more")

    @property
    def needs_start(self) -> bool:
        """Whether the initial weights must be kept."""
        return self.mixout > 0 or self.l2_sp > 0


@dataclass(frozen=True)
class AdversarialConfig:
    """An adversary that moves word embeddings while a masked language model trains.

    The code of Liu et al. 2020 (ALUM) has a weight of 10, a noise of 1e-5, one step of 1e-3 and
    the norm inf. Gu et al. 2021 (PubMedBERT), table 9, found most tasks slightly worse with it.

    Args:
        adversarial: weight of the divergence between predictions with and without the adversary;
            0 for none. A step then takes nearly three times as long.
        adversarial_noise: standard deviation of the noise it starts from, in the units of
            embeddings; what bf16 cannot tell from nothing gives it no direction.
        adversarial_steps: steps it climbs.
        adversarial_step: length of a step for each token.
        adversarial_radius: how far it may move a token in all.
        adversarial_norm: what lengths are measured in: inf (largest element) or l2.
    """

    adversarial: float = 0.0
    adversarial_noise: float = 1e-3
    adversarial_steps: int = 1
    adversarial_step: float = 1e-3
    adversarial_radius: float = 1e-3
    adversarial_norm: AdversarialNorm = "inf"

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.adversarial >= 0, "adversarial", self.adversarial, "0 or more")
        require(self.adversarial_noise > 0, "adversarial_noise", self.adversarial_noise,
                "above 0: without noise the divergence has no slope")
        require(self.adversarial_steps >= 1, "adversarial_steps", self.adversarial_steps,
                "1 or more")
        require(self.adversarial_step > 0, "adversarial_step", self.adversarial_step,
                "above 0")
        require(self.adversarial_radius > 0, "adversarial_radius", self.adversarial_radius,
                "above 0")


@dataclass(frozen=True)
class ReplayConfig:
    """Replay of an earlier corpus (Buonocore et al. 2023, BioBIT).

    Args:
        replay_steps: steps between batches of the replayed text; 0 for none.
    """

    replay_steps: int = 0

    def __post_init__(self) -> None:
        require(self.replay_steps >= 0, "replay_steps", self.replay_steps, "0 or more")


@dataclass(frozen=True)
class PreflightConfig:
    """Preflight measurement.

    Args:
        probe_seconds: seconds that steps of each phase are timed for.
    """

    probe_seconds: float = 10.0

    def __post_init__(self) -> None:
        require(self.probe_seconds > 0, "probe_seconds", self.probe_seconds, "above 0")


@dataclass(frozen=True)
class DistillationConfig:
    """Losses of distillation (Lewis et al. 2020, Bio-LM, section 7.1).

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
        require(min(weights) >= 0 and sum(weights) > 0, "loss weights", weights,
                "0 or more, not all 0")
        require(self.temperature > 0, "temperature", self.temperature, "above 0")
