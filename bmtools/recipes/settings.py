"""Settings of training runs; a light module without torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, get_type_hints

from bmtools.errors import LAST_SEED, BmtoolsError, require, setting
from bmtools.settings import Settings, option

Values = Mapping[str, Any]
"""Values of settings by name."""
Masking = Literal["tokens", "words", "spans", "terms"]


class OptimizationConfig(Settings, title="Optimization"):
    """Optimization."""

    optimizer: Literal["adamw", "muon"] = option(
        "adamw", "adamw or muon (Muon for matrices of the encoder, AdamW for the rest).")
    weight_decay: float = option(0.01, "Decoupled weight decay, on matrices only.")
    adam_beta1: float = option(0.9, "Decay of the optimizer's mean of gradients.", below=1)
    adam_beta2: float = option(0.999, "Decay of the optimizer's mean of squared gradients.",
                               below=1)
    adam_epsilon: float = option(1e-6, "Term added to the denominator of AdamW's updates.",
                                 above=0)
    max_grad_norm: float = option(
        1.0, "Maximum norm of the gradients; larger gradients are scaled down to it.", above=0)
    dropout: float = option(
        0.0, "Dropout probability of the whole model during training. Off for pretraining, a "
             "departure from Devlin et al. 2019: no text is repeated often enough to be memorized, "
             "and training is faster (Geiping and Goldstein 2022, section 4.3).", below=1)
    micro_batch_size: int = option(
        0, "Sequences of a forward pass; gradients are accumulated. 0: the whole batch, or on a "
           "GPU the number that fits.")
    memory_gib: float = option(
        0.0, "Memory limit of each process in GiB, libraries included; on a GPU, of the GPU's "
             "memory. The memory of each phase is measured on a few sequences. If micro_batch_size "
             "is 0, the micro-batch is fitted to the limit. 0: no limit on a CPU, and all memory "
             "of a GPU.")
    device: str = option("auto", "Device to train on: auto (a GPU if there is one), cpu, cuda or "
                                 "cuda:N.", metavar="auto|cpu|cuda[:N]")
    precision: Literal["auto", "no", "bf16", "fp16"] = option(
        "auto", "Precision of matrix products; weights and optimizer states stay in float32. auto: "
                "the fastest one on this machine, which a resumed run keeps; no: float32; bf16; "
                "fp16, only on GPUs.")
    tf32: bool = option(True, "Use TF32 for products of float32 matrices on a GPU.")
    compile: bool = option(False, "Compile the model; takes minutes at the start.")
    activation_checkpointing: bool = option(
        False, "Recompute activations inside layers instead of keeping them.")
    deterministic: bool = option(
        False, "Compute the same bits again on a GPU, also after an interruption, with the same "
               "micro_batch_size, processes, kind of GPU and software. Slower; an operation that "
               "is never deterministic ends the run. A CPU is always deterministic.")
    seed: int = option(
        0, "Seed of the order of documents, of masking, of new weights and of dropout.",
        most=LAST_SEED)

    def require_device(self, kind: str) -> None:
        """Raise an error if this kind of device, such as cpu, cannot train in the precision."""
        if self.precision == "fp16" and kind == "cpu":
            raise BmtoolsError(f"{setting('precision')}: found fp16, which a CPU cannot "
                               "train in; expected bf16 or no")


class LearningRateConfig(Settings, title="Learning rate over a phase"):
    """Learning rate over a phase."""

    learning_rate: float = option(
        5e-4, "Peak learning rate. pretrain --model without recipe or phases file uses 1e-4.",
        above=0)
    schedule: Literal["linear", "cosine", "constant", "wsd"] = option(
        "linear", "Learning rate after the warm-up: linear or cosine decay to the final rate, "
                  "constant, or wsd (constant, then 1 - sqrt decay over the last part).")
    warmup_ratio: float = option(0.1, "Share of the phase with linear warm-up from 0.", most=1)
    warmup_steps: int = option(0, "Steps of warm-up; takes precedence over the ratio unless 0.")
    decay_ratio: float = option(0.2, "Share of the phase with decay in a wsd schedule.", most=1)
    min_lr_ratio: float = option(0.0, "Final learning rate, as a share of the peak.", most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        warmup = 0.0 if self.warmup_steps else self.warmup_ratio
        # Sums of decimal shares may miss 1 by a rounding.
        if self.schedule == "wsd" and warmup + self.decay_ratio > 1 + 1e-9:
            raise ValueError(f"{setting('warmup_ratio')} and {setting('decay_ratio')}: found "
                             f"{warmup:g} and {self.decay_ratio:g}, expected shares that add up "
                             "to 1 at most in a wsd schedule")

    @property
    def depends_on_length(self) -> bool:
        """Whether the learning rate of a step depends on the number of all steps."""
        return self.schedule != "constant" or bool(self.warmup_ratio and not self.warmup_steps)


class PhaseLengthConfig(Settings, title="Length of a phase"):
    """Length of a phase: steps, or if 0 tokens, or if 0 epochs."""

    steps: int = option(0, "Updates; 0: use tokens or epochs.")
    tokens: int = option(0, "Tokens to train on, without padding; 0: use epochs.")
    epochs: float = option(1.0, "Passes over the text, rounded to whole steps.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.steps > 0 or self.tokens > 0 or self.epochs > 0, "epochs", self.epochs,
                "above 0")


class BatchConfig(Settings, title="Batches of sequences"):
    """Batches of sequences."""

    max_length: int = option(128, "Maximum length of a sequence, with special tokens.", least=8)
    batch_size: int = option(32, "Sequences per step, over all processes.", least=1)
    layout: Literal["auto", "padded", "packed"] = option(
        "auto", "padded (one document per sequence, batches of similar length), packed (several "
                "documents per sequence, each with separate attention and positions) or auto "
                "(packed on a GPU, otherwise padded).")


class ObjectiveConfig(Settings, title="Objective and masking of a phase"):
    """Objective and masking of a phase."""

    objective: Literal["masked", "masked+nsp", "masked+sop", "causal"] = option(
        "masked", "masked (masked-language modelling), masked+nsp (with next-sentence prediction), "
                  "masked+sop (with sentence-order prediction) or causal (next-token prediction).")
    masking: Masking = option("words", "Units that are masked together: words, tokens, spans of "
                                       "words, or listed terms before other words.")
    mask_rate: float = option(0.15, "Share of tokens to mask; the initial share, if it changes.",
                              above=0, most=1)
    mask_rate_end: float = option(
        0.0, "Share of tokens to mask at the end of the phase; 0: the initial share.", most=1)
    mask_rate_steps: int = option(
        0, "Number of equal steps from the initial to the last share; 0: the share changes "
           "linearly.")
    mask_replace_prob: float = option(0.8, "Share of masked tokens that become the mask token.")
    random_replace_prob: float = option(0.1, "Share of masked tokens that become a random token.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.mask_rate_steps != 1, "mask_rate_steps", 1, "2 or more, or 0")
        masked, random = self.mask_replace_prob, self.random_replace_prob
        # Sums of decimal shares may miss 1 by a rounding.
        if masked + random > 1 + 1e-9:
            raise ValueError(f"{setting('mask_replace_prob')} and "
                             f"{setting('random_replace_prob')}: found {masked} and {random}, "
                             "expected shares that add up to 1 at most")

    @cached_property
    def pair_term(self) -> str:
        """Loss of sentence pairs: nsp, sop or, without pairs, an empty string."""
        return self.objective.partition("+")[2]


class FreezeConfig(Settings, title="Frozen weights of a phase"):
    """Frozen weights of a phase."""

    frozen_layers: int = option(
        0, "Number of lowest layers to freeze, with the embeddings; 0 for none.")

    def require_layers(self, layers: int) -> None:
        """Raise an error if a model has fewer layers than this setting."""
        if self.frozen_layers > layers:
            raise BmtoolsError(f"{setting('frozen_layers')}: found {self.frozen_layers}, but the "
                               f"model has {layers} layers")


class RegularizationConfig(Settings, title="Regularization towards the initial weights"):
    """Regularization towards the initial weights.

    Buonocore et al. 2023 (BioBIT), table 2, use a layer decay of 0.9 or 0.95 and a mixout of 0.9.
    """

    layer_decay: float = option(
        1.0, "Factor of the learning rate from each layer to the layer below it, down to the "
             "embeddings; 1: the same for all layers.", above=0, most=1)
    mixout: float = option(0.0, "Probability that an input of a matrix uses the initial weights "
                                "instead of the current ones, sampled at each step; 0: never.",
                                below=1)
    mixout_scope: Literal["layers", "linear"] = option(
        "layers", "Weights that mixout mixes: layers (matrices of the encoder's layers) or linear "
                  "(all linear maps, as in the code of Lee et al. 2020, except a decoder that is "
                  "tied to the embeddings). Weights without initial values, such as a new head, "
                  "are not mixed.")
    mixout_gradient: Literal["exact", "unscaled"] = option(
        "exact", "Gradient of mixed weights: exact, or unscaled (without the factor 1 / (1 - "
                 "mixout) of the mixture, as in the code of Lee et al. 2020).")
    l2_sp: float = option(
        0.0, "Strength of the L2 penalty on the distance to the initial weights: half of it times "
             "the squared distance is added to the loss; 0 for none.")


class PretrainingConfig(Settings,
                         title="Replay, adversarial training, new weights and skipped updates"):
    """Replay of an earlier corpus, adversarial training, new weights, and skipped updates.

    Replay: the notebook of Buonocore et al. 2023 (BioBIT) adds the gradients of both batches.
    Adversarial training: the code of Liu et al. 2020 (ALUM) has a weight of 10, a noise of 1e-5 and
    a step of 1e-3. Gu et al. 2021 (PubMedBERT), table 9, found most tasks slightly worse with it.
    """

    positions: Literal["sinusoid", "random"] = option(
        "sinusoid", "Initial learned positions of a new model: sinusoid (Vaswani et al. 2017), "
                    "which lets small models learn sooner, or random, as in BERT and RoBERTa.")
    skip_spikes: float = option(
        0.0, "Skip an update if its loss or gradient norm is this number of standard deviations "
             "above the mean of the last 128 steps (at least 64) of its phase; 0: never. Skipped "
             "steps are reported. OLMo 2 (2025, arXiv 2501.00656) uses 6.")
    replay_steps: int = option(0, "Steps between updates that also learn from a batch of the "
                                  "replayed text; 0 for none.")
    adversarial: float = option(
        0.0, "Weight of the divergence between predictions with and without perturbation; 0 for "
             "none. A step then takes nearly three times as long.")
    adversarial_noise: float = option(
        1e-3, "Standard deviation of the initial noise, in the units of embeddings. Noise that is "
              "too small for bf16 has no direction.", above=0)
    adversarial_step: float = option(
        1e-3, "Length of the ascent step for each token, and maximum element of a perturbation.",
        above=0)


class DistillationConfig(Settings, title="Losses of distillation"):
    """Losses of distillation (Lewis et al. 2020, Bio-LM, section 7.1).

    A loss of weight 0 is not computed.
    """

    mlm_weight: float = option(5.0, "Weight of the masked-LM loss.")
    kl_weight: float = option(2.0, "Weight of the divergence from the teacher's predictions.")
    cosine_weight: float = option(1.0, "Weight of the distance between last-layer states.")
    temperature: float = option(2.0, "Temperature of both softmax distributions.", above=0)
    kl_positions: Literal["masked", "all"] = option(
        "masked", "Tokens at which predictions are compared: masked, or all of them, as in "
                  "DistilBERT's commands (Sanh et al. 2020), which takes longer.")

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (self.mlm_weight, self.kl_weight, self.cosine_weight)
        require(any(weights), "mlm_weight, kl_weight and cosine_weight", weights,
                "at least one above 0")

    @property
    def trains_every_weight(self) -> bool:
        """Whether a loss uses the head, and so every weight of the student."""
        return self.mlm_weight + self.kl_weight > 0


class ReportingConfig(Settings, title="Reports and checkpoints of a run, and its time budget"):
    """Reports and checkpoints of a run, and its time budget."""

    logging_steps: int = option(50, "Steps between lines of metrics.", least=1)
    save_steps: int = option(500, "Steps between saved states to resume from; 0 for none.")
    save_total_limit: int = option(1, "States to keep; older ones are deleted.", least=1)
    keep_steps: int = option(
        0, "Steps between checkpoints kept permanently next to the output; 0 for none.")
    eval_steps: int = option(
        0, "Steps between evaluations on held-out text; 0: at the end of each phase.")
    budget: str = option("", "Wall time after which a session saves a state and ends, such as 90m "
                             "or 24h.", metavar="TIME")

    def __post_init__(self) -> None:
        super().__post_init__()
        is_valid = re.fullmatch(r"\d+(\.\d+)?[smhd]", self.budget) and self.budget_seconds()
        require(not self.budget or bool(is_valid), "budget", self.budget,
                "a number and s, m, h or d, such as 90m")

    def budget_seconds(self) -> float:
        """Return the budget in seconds; infinite without a budget."""
        if not self.budget:
            return float("inf")
        return float(self.budget[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[self.budget[-1]]


PHASE_KINDS: dict[str, type[Settings]] = {
    "length": PhaseLengthConfig, "batch": BatchConfig, "objective": ObjectiveConfig,
    "learning_rate": LearningRateConfig, "freeze": FreezeConfig}
"""Settings of a phase, by attribute."""
RUN_KINDS: tuple[type[Settings], ...] = (
    OptimizationConfig, ReportingConfig, RegularizationConfig, PretrainingConfig,
    DistillationConfig)
"""Settings of a whole run, which are the same in all its phases."""
PHASE_FIELDS: Mapping[str, object] = {
    **{name: kind for part in PHASE_KINDS.values() for name, kind in get_type_hints(part).items()},
    "mixture": dict[str, float]}
"""Type of each setting of a phase, by name."""
RUN_FIELDS: Mapping[str, type] = {
    name: kind for part in RUN_KINDS for name, kind in get_type_hints(part).items()}
"""Type of each setting of a run, by name."""
