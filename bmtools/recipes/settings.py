"""Settings of training runs; importing this costs nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bmtools.errors import (
    check_choices,
    require,
    require_above_0,
    require_at_least,
    require_seed,
    setting,
)

Values = Mapping[str, Any]
"""Values of settings by name."""
Masking = Literal["tokens", "words", "spans", "terms"]
MaskRateCurve = Literal["fixed", "steps", "linear", "cosine"]
_LARGEST_BATCH = 1 << 20  # sequences; the largest published are 65,536 (LAMB)


@dataclass(frozen=True)
class OptimizationConfig:
    """Optimization.

    Args:
        optimizer: adamw, stable-adamw (update clipping, Wortsman et al. 2023) or muon (matrices
            of the encoder by Muon, the rest by AdamW).
        weight_decay: decoupled weight decay, on matrices only.
        adam_beta1: decay of the optimizer's mean of gradients.
        adam_beta2: decay of the optimizer's mean of squared gradients.
        adam_epsilon: term added to the denominator of AdamW's updates.
        max_grad_norm: largest norm of the gradients; larger ones are scaled down to it.
        ema: decay of an exponential moving average of the weights, such as 0.999, which is what
            is scored and what checkpoints hold; 0: the weights themselves.
        dropout: dropout probability of the whole model during training. Off for pretraining, a
            departure from Devlin et al. 2019: no text is repeated often enough to be memorized,
            and training is faster (Geiping and Goldstein 2022, section 4.3).
        micro_batch_size: sequences of a forward pass; gradients are accumulated. 0: the whole
            batch.
        memory_gib: memory limit of each process in GiB, libraries included; on a GPU, of the
            GPU's memory. The memory of each phase is measured on a few sequences, and the
            micro-batch is fitted to the limit where micro_batch_size is 0. 0: no limit, and a GPU
            that runs out of memory halves the micro-batch.
        mixed_precision: precision of matrix products; weights and optimizer states stay in
            float32. auto: the one that this machine is fastest in, which a resumed run keeps; no:
            float32; bf16; fp16, on GPUs only.
        tf32: use TF32 for products of float32 matrices on a GPU.
        compile: compile the model; takes minutes at the start.
        activation_checkpointing: recompute activations inside layers instead of keeping them.
        deterministic: compute the same bits again on a GPU, also after an interruption, with the
            same micro_batch_size, processes, kind of GPU and software. Slower; an operation that
            cannot do so ends the run. A CPU does so anyway.
        seed: seed of the order of documents, of masking, of new weights and of dropout.
    """

    optimizer: Literal["adamw", "stable-adamw", "muon"] = "adamw"
    weight_decay: float = 0.01
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    max_grad_norm: float = 1.0
    ema: float = 0.0
    dropout: float = 0.0
    micro_batch_size: int = 0
    memory_gib: float = 0.0
    mixed_precision: Literal["auto", "no", "bf16", "fp16"] = "auto"
    tf32: bool = True
    compile: bool = False
    activation_checkpointing: bool = False
    deterministic: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self)
        require_at_least(self, weight_decay=0, micro_batch_size=0, memory_gib=0)
        require_seed(self.seed)
        require_above_0(self, "adam_epsilon", "max_grad_norm")
        for name in ("adam_beta1", "adam_beta2", "ema", "dropout"):
            require(0 <= getattr(self, name) < 1, name, getattr(self, name), "0 to less than 1")


@dataclass(frozen=True)
class LearningRateConfig:
    """Learning rate over a phase.

    Args:
        learning_rate: peak learning rate.
        schedule: learning rate after the warm-up: linear or cosine decay to the final rate,
            constant, or wsd (constant, then 1 - sqrt decay over the last part; Hägele et al.
            2024).
        warmup_ratio: share of the phase with linear warm-up from 0.
        warmup_steps: steps of warm-up; takes precedence over the ratio unless 0.
        decay_ratio: share of the phase with decay in a wsd schedule.
        min_lr_ratio: final learning rate, as a share of the peak.
    """

    learning_rate: float = 5e-4
    schedule: Literal["linear", "cosine", "constant", "wsd"] = "linear"
    warmup_ratio: float = 0.1
    warmup_steps: int = 0
    decay_ratio: float = 0.2
    min_lr_ratio: float = 0.0

    def __post_init__(self) -> None:
        check_choices(self)
        require_above_0(self, "learning_rate")
        require_at_least(self, warmup_steps=0)
        for name in ("warmup_ratio", "decay_ratio", "min_lr_ratio"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "0 to 1")

    def at(self, step: int, steps: int) -> float:
        """Compute the learning rate of an update; the `steps` of a phase are numbered from 0."""
        warmup = self.warmup_steps or round(self.warmup_ratio * steps)
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        left, share = (steps - step) / max(steps - warmup, 1), 1.0  # share falls from 1 to 0
        if self.schedule == "linear":
            share = left
        elif self.schedule == "cosine":
            share = (1 - math.cos(math.pi * left)) / 2
        elif self.schedule == "wsd":
            falling = max(round(self.decay_ratio * steps), 1)
            share = 1 - math.sqrt(max(step - (steps - falling), 0) / falling)
        return self.learning_rate * (self.min_lr_ratio + (1 - self.min_lr_ratio) * share)


@dataclass(frozen=True)
class PhaseLengthConfig:
    """Length of a phase: in steps, else in tokens, else in epochs.

    Args:
        steps: updates; 0 leaves it to tokens or epochs.
        tokens: tokens to train on, without padding; 0 leaves it to epochs.
        epochs: passes over the text, rounded to whole steps.
    """

    steps: int = 0
    tokens: int = 0
    epochs: float = 1.0

    def __post_init__(self) -> None:
        require_at_least(self, steps=0, tokens=0)
        require(self.steps > 0 or self.tokens > 0 or self.epochs > 0, "epochs", self.epochs,
                "above 0")


@dataclass(frozen=True)
class BatchConfig:
    """Batches of sequences.

    Args:
        max_length: longest sequence, special tokens included.
        batch_size: sequences per step, over all processes.
        initial_batch_size: sequences per step at the beginning of the phase; 0 for no ramp.
        ramp_ratio: share of the phase over which the batch size grows, linearly.
        layout: padded (one document per sequence, batches of similar length), packed (several
            documents per sequence, each with attention and positions of its own) or auto (packed
            on a GPU, padded elsewhere).
    """

    max_length: int = 128
    batch_size: int = 32
    initial_batch_size: int = 0
    ramp_ratio: float = 0.1
    layout: Literal["auto", "padded", "packed"] = "auto"

    def __post_init__(self) -> None:
        check_choices(self)
        require_at_least(self, max_length=8, batch_size=1)
        require(self.batch_size <= _LARGEST_BATCH, "batch_size", self.batch_size,
                f"up to {_LARGEST_BATCH:,}")
        require(0 <= self.initial_batch_size <= self.batch_size, "initial_batch_size",
                self.initial_batch_size, f"0, or up to {setting('batch_size')}")
        require(0 <= self.ramp_ratio <= 1, "ramp_ratio", self.ramp_ratio, "0 to 1")


@dataclass(frozen=True)
class ObjectiveConfig:
    """Objective and masking of a phase.

    Args:
        objective: masked (masked-language modelling), masked+nsp (with next-sentence prediction),
            masked+sop (with sentence-order prediction) or causal (next-token prediction).
        masking: units that are masked together: words, tokens, spans of words, or listed terms
            before other words.
        mask_rate: share of tokens to mask; the initial share where it changes.
        mask_rate_end: share of tokens to mask at the end of the phase; 0: the initial share.
        mask_curve: change of the masking rate over the phase: fixed, steps, linear or cosine.
        mask_rate_steps: number of equal steps where mask_curve is steps.
        mask_replace_prob: share of masked tokens that become the mask token.
        random_replace_prob: share of masked tokens that become a random token.
    """

    objective: Literal["masked", "masked+nsp", "masked+sop", "causal"] = "masked"
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
        require_at_least(self, mask_rate_steps=2)
        masked, random = self.mask_replace_prob, self.random_replace_prob
        # Sums of decimal shares may miss 1 by a rounding.
        if not (masked >= 0 and random >= 0 and masked + random <= 1 + 1e-9):
            raise ValueError(f"{setting('mask_replace_prob')} and "
                             f"{setting('random_replace_prob')}: found {masked} and {random}, "
                             "expected shares that add up to 1 at most")

    @property
    def pair_term(self) -> str:
        """Loss of sentence pairs: nsp, sop or, without pairs, an empty string."""
        return self.objective.partition("+")[2]


@dataclass(frozen=True)
class FreezeConfig:
    """Frozen weights of a phase.

    Args:
        frozen_layers: layers frozen from the bottom, the embeddings with them; 0 freezes nothing.
        frozen: names of further weights to freeze, with * and ?, separated by commas.
    """

    frozen_layers: int = 0
    frozen: str = ""

    def __post_init__(self) -> None:
        require_at_least(self, frozen_layers=0)


@dataclass(frozen=True)
class RegularizationConfig:
    """Regularization towards the initial weights.

    Buonocore et al. 2023 (BioBIT), table 2, take a layer decay of 0.9 or 0.95 and a mixout of 0.9.

    Args:
        layer_decay: learning rate of each layer as a share of that of the layer above it, down to
            the embeddings; 1: the same for all layers.
        mixout: probability that an input of a matrix uses the initial weights instead of the
            current ones, drawn at each step; 0 for none.
        mixout_scope: weights that mixout mixes: layers (matrices of the encoder's layers), linear
            (all linear maps, as in the code of Lee et al. 2020, but a decoder that is tied to the
            embeddings) or all (every weight, as in their formula; vectors number by number). Those
            without initial weights, such as a new head, are left out.
        mixout_gradient: gradient of mixed weights: exact, or unscaled, which leaves out the factor
            1 / (1 - mixout) of the mixture, as does the code of Lee et al. 2020.
        l2_sp: strength of the L2 penalty on the distance to the initial weights: half of it times
            the squared distance is added to the loss; 0 for none.
    """

    layer_decay: float = 1.0
    mixout: float = 0.0
    mixout_scope: Literal["layers", "linear", "all"] = "layers"
    mixout_gradient: Literal["exact", "unscaled"] = "exact"
    l2_sp: float = 0.0

    def __post_init__(self) -> None:
        check_choices(self)
        require(0 < self.layer_decay <= 1, "layer_decay", self.layer_decay, "above 0, at most 1")
        require(0 <= self.mixout < 1, "mixout", self.mixout, "0 to less than 1")
        require_at_least(self, l2_sp=0)


@dataclass(frozen=True)
class AdversarialConfig:
    """Adversarial training, on the word embeddings of a masked language model.

    The code of Liu et al. 2020 (ALUM) has a weight of 10, a noise of 1e-5, one step of 1e-3 and
    the norm inf. Gu et al. 2021 (PubMedBERT), table 9, found most tasks slightly worse with it.

    Args:
        adversarial: weight of the divergence between predictions with and without perturbation;
            0 for none. A step then takes nearly three times as long.
        adversarial_noise: standard deviation of the initial noise, in the units of embeddings;
            noise too small for bf16 gives no direction.
        adversarial_steps: steps of gradient ascent that find a perturbation.
        adversarial_step: length of an ascent step for each token.
        adversarial_radius: largest perturbation of a token.
        adversarial_norm: norm of perturbations: inf (largest element) or l2.
    """

    adversarial: float = 0.0
    adversarial_noise: float = 1e-3
    adversarial_steps: int = 1
    adversarial_step: float = 1e-3
    adversarial_radius: float = 1e-3
    adversarial_norm: Literal["inf", "l2"] = "inf"

    def __post_init__(self) -> None:
        check_choices(self)
        require_at_least(self, adversarial=0)
        require(self.adversarial_noise > 0, "adversarial_noise", self.adversarial_noise,
                "above 0: without noise the divergence has no slope")
        require_at_least(self, adversarial_steps=1)
        require_above_0(self, "adversarial_step", "adversarial_radius")


@dataclass(frozen=True)
class InitializationConfig:
    """Initialization of new weights; a checkpoint's stay as they are.

    Args:
        positions: how learned positions start: as sinusoid (Vaswani et al. 2017), which lets small
            models learn sooner, or random, as in BERT and RoBERTa.
    """

    positions: Literal["sinusoid", "random"] = "sinusoid"

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True)
class ReplayConfig:
    """Replay of an earlier corpus (Buonocore et al. 2023, BioBIT).

    Args:
        replay_steps: steps between batches of the replayed text; 0 for none.
        replay_update: update of a replayed batch: own, or summed, one update by its gradients and
            those of the batch of its step, as in the authors' notebook.
    """

    replay_steps: int = 0
    replay_update: Literal["own", "summed"] = "own"

    def __post_init__(self) -> None:
        check_choices(self)
        require_at_least(self, replay_steps=0)


@dataclass(frozen=True)
class ReportingConfig:
    """Reports and checkpoints of a run, and its time budget.

    Args:
        logging_steps: steps between lines of metrics.
        save_steps: steps between saved states to resume from; 0 for none.
        save_total_limit: states to keep; older ones are deleted.
        keep_steps: steps between checkpoints kept permanently beside the output; 0 for none.
        eval_steps: steps between evaluations on held-out text; 0: at the end of each phase.
        budget: wall time after which a session saves a state and ends, such as 90m or 24h.
        trackers: further services for the metrics, such as tensorboard or wandb, separated by
            commas.
    """

    logging_steps: int = 50
    save_steps: int = 500
    save_total_limit: int = 1
    keep_steps: int = 0
    eval_steps: int = 0
    budget: str = ""
    trackers: str = ""

    def __post_init__(self) -> None:
        require_at_least(self, logging_steps=1, save_total_limit=1, save_steps=0, keep_steps=0,
                         eval_steps=0)
        require(self.budget_seconds() is not None, "budget", self.budget,
                "a number and s, m, h or d, such as 90m")

    def budget_seconds(self) -> float | None:
        """Parse the budget: seconds, infinite without a budget, None if malformed."""
        if not self.budget:
            return float("inf")
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(self.budget[-1])
        try:
            seconds = float(self.budget[:-1]) * (unit or 0)
        except ValueError:
            return None
        return seconds if seconds > 0 else None


@dataclass(frozen=True)
class PreflightConfig:
    """Preflight measurement.

    Args:
        probe_seconds: seconds of timed steps for each phase.
    """

    probe_seconds: float = 10.0

    def __post_init__(self) -> None:
        require_above_0(self, "probe_seconds")
