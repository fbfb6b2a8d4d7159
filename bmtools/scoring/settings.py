"""Settings of scores; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require

PRECISIONS = ("no", "bf16", "fp16", "int8")
MULTI_TOKEN = ("miss", "first", "joint", "skip")
VARIANTS = ("original", "within-word", "whole-word")
LIKE = ("", "biobit")
_TOKENS_ON_CPU = 4_096
_TOKENS_ON_GPU = 65_536


@dataclass(frozen=True)
class InferenceConfig:
    """How masked copies meet a checkpoint; none of it moves a score beyond rounding, but for the
    precision.

    Args:
        batch_tokens: tokens per pass through a model; 0 for 4,096 on a CPU and 65,536 on a GPU.
        threads: batches at work at a time on a CPU, each on one core; 0 for one a core.
        device: where checkpoints run: auto (a GPU if there is one), cpu, cuda or cuda:N.
        precision: what matrices are multiplied in: no (float32), bf16, fp16, or int8 (on a CPU,
            through ctranslate2; the error is told).
    """

    batch_tokens: int = 0
    threads: int = 0
    device: str = "auto"
    precision: str = "no"

    def __post_init__(self) -> None:
        require(self.batch_tokens >= 0, "--batch-tokens", self.batch_tokens, "0 or more")
        require(self.threads >= 0, "--threads", self.threads, "0 or more")
        require(self.precision in PRECISIONS, "--precision", self.precision,
                " or ".join(PRECISIONS))

    def tokens_at_once(self, device: str) -> int:
        """Say how many tokens a pass has on a device, as torch calls it."""
        return self.batch_tokens or (_TOKENS_ON_CPU if device.startswith("cpu") else _TOKENS_ON_GPU)


@dataclass(frozen=True)
class PpplConfig:
    """What a pseudo-perplexity is made of.

    Args:
        variant: what is hidden where a token is asked for: original (the token; Salazar et al.
            2020), within-word (also what follows it in its word, so that pieces do not give each
            other away; Kauf and Ivanova 2023) or whole-word (all of its word, at once).
        sample: share of the tokens (of the words, in variant whole-word) that are asked for,
            drawn by id, text and seed; the error that this brings is told.
        context: score texts longer than the model takes in windows, in which each token sees at
            least so many on either side, where the text has them; 0 refuses such texts.
        like: biobit scores as the evaluation that Buonocore et al. published: the mean over
            sentences, without those above 170 tokens.
    """

    variant: str = "original"
    sample: float = 1.0
    context: int = 0
    like: str = ""

    def __post_init__(self) -> None:
        require(self.variant in VARIANTS, "--variant", self.variant, " or ".join(VARIANTS))
        require(0 < self.sample <= 1, "--sample", self.sample, "above 0, at most 1")
        require(self.context >= 0, "--context", self.context, "0 or more")
        require(self.like in LIKE, "--like", self.like, "biobit")
        plain = self.variant == "original" and self.sample == 1 and self.context == 0
        require(not self.like or plain, "--like biobit",
                "--variant, --sample or --context beside it", "none of them")

    @property
    def most_tokens(self) -> int | None:
        """Longest sentence that counts, special tokens included; None for any."""
        return 170 if self.like else None


@dataclass(frozen=True)
class MrrConfig:
    """What counts as found (Buonocore et al. 2023, equation 2).

    Args:
        top: proposals looked at; a word ranked lower counts 0.
        multi_token: what a target in several tokens is: a miss (counts 0, for one mask cannot
            bring it back), judged by its first token alone, jointly by all of them behind as many
            masks, or one to skip (left out of the mean).
        ignore_case: whether a proposal counts that is the target but for case.
        beam: word beginnings that joint follows, left to right; a target that so many proposals
            surpass has no rank.
        like: biobit scores as the evaluation that Buonocore et al. published: the first five,
            caseless, single tokens only, punctuation taken out of targets, reciprocal ranks
            rounded to two digits, and the lower place where a word is proposed in two spellings.
    """

    top: int = 5
    multi_token: str = "miss"
    ignore_case: bool = False
    beam: int = 20
    like: str = ""

    def __post_init__(self) -> None:
        require(self.top >= 1, "--top", self.top, "1 or more")
        require(self.multi_token in MULTI_TOKEN, "--multi-token", self.multi_token,
                " or ".join(MULTI_TOKEN))
        require(self.beam >= 1, "--beam", self.beam, "1 or more")
        require(self.like in LIKE, "--like", self.like, "biobit")
        plain = self.top == 5 and self.multi_token == "miss"
        require(not self.like or plain, "--like biobit", "--top or --multi-token beside it",
                "neither of them")

    @property
    def caseless(self) -> bool:
        """Whether case does not matter."""
        return self.ignore_case or bool(self.like)


@dataclass(frozen=True)
class StatisticsConfig:
    """How sure scores and their differences are said to be.

    Args:
        resamples: draws of sentences behind an interval, and exchanges of two checkpoints' results
            behind a p-value; 0 for neither.
        confidence: how often intervals shall hold the true value, such as 0.95.
        seed: seed of the draws.
    """

    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.resamples >= 0, "--resamples", self.resamples, "0 or more")
        require(0 < self.confidence < 1, "--confidence", self.confidence,
                "more than 0 and less than 1")
        require(self.seed >= 0, "--seed", self.seed, "0 or more")
