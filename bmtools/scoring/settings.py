"""Settings of pseudo-perplexity, mean reciprocal rank, their inference and their statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from bmtools.errors import check_choices, require, setting

Precision = Literal["float32", "bf16", "fp16", "int8"]
Variant = Literal["original", "within-word", "whole-word"]
MultiToken = Literal["miss", "first", "joint", "skip"]
Evaluation = Literal["biobit"]
MaskUnit = Literal["word", "mention"]
Models = str | PathLike[str] | Iterable[str | PathLike[str]]
"""Directory of a checkpoint, or several."""
_TOKENS_ON_CPU = 4_096
_TOKENS_ON_GPU = 65_536
_BIOBIT_TOKENS = 170


@dataclass(frozen=True)
class InferenceConfig:
    """Forward passes over masked copies; only the precision changes scores beyond rounding.

    Args:
        batch_tokens: tokens per pass through a model; 0 for 4,096 on a CPU and 65,536 on a GPU.
        threads: batches in progress at a time on a CPU, each on one core; 0 for one a core.
        device: device that checkpoints run on: auto (a GPU if there is one), cpu, cuda or cuda:N.
        precision: data type of matrix products; int8 needs a CPU and ctranslate2, and its error
            is measured and reported.
    """

    batch_tokens: int = 0
    threads: int = 0
    device: str = "auto"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.batch_tokens >= 0, "batch_tokens", self.batch_tokens, "0 or more")
        require(self.threads >= 0, "threads", self.threads, "0 or more")

    def tokens_per_pass(self, device: str) -> int:
        """Return how many tokens a pass takes on a device, named as torch names it."""
        return self.batch_tokens or (_TOKENS_ON_CPU if device.startswith("cpu") else _TOKENS_ON_GPU)


@dataclass(frozen=True)
class PpplConfig:
    """Pseudo-perplexity: which tokens are masked together, and how many are scored.

    Args:
        variant: what is masked to score a token: original (the token alone; Salazar et al. 2020),
            within-word (also the rest of its word, so that pieces do not give each other away;
            Kauf and Ivanova 2023) or whole-word (all tokens of its word, in one copy).
        sample: share of the tokens (of the words, in variant whole-word) to score, drawn by id,
            text and seed; the sampling error is reported.
        context_tokens: score texts longer than the model takes in windows, in which each token
            sees at least this many tokens on either side, where the text has them; 0 refuses such
            texts.
        like: biobit scores as the evaluation that Buonocore et al. published: the mean over
            sentences, without those above 170 tokens.
    """

    variant: Variant = "original"
    sample: float = 1.0
    context_tokens: int = 0
    like: Evaluation | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        require(0 < self.sample <= 1, "sample", self.sample, "above 0, at most 1")
        require(self.context_tokens >= 0, "context_tokens", self.context_tokens, "0 or more")
        plain = self.variant == "original" and self.sample == 1 and self.context_tokens == 0
        _require_alone(self.like, plain, "variant", "sample", "context_tokens")

    @property
    def longest_sentence(self) -> int | None:
        """Most tokens of a sentence that counts, special tokens included; None for any."""
        return _BIOBIT_TOKENS if self.like else None


@dataclass(frozen=True)
class MrrConfig:
    """Mean reciprocal rank: which proposals count (Buonocore et al. 2023, equation 2).

    Args:
        top_k: proposals that count; a word ranked lower scores 0.
        multi_token: score of a word of several tokens: miss (0, as one mask cannot produce it),
            first (by its first token alone), joint (by all its tokens behind as many masks) or
            skip (left out of the mean).
        ignore_case: count a proposal that equals the word but for case.
        beam_size: prefixes that joint keeps at each step, left to right; a word that so many
            proposals surpass has no rank.
        like: biobit scores as the evaluation that Buonocore et al. published: the first five,
            caseless, single tokens only, punctuation removed from words, reciprocal ranks rounded
            to two digits, and the lower place where a word is proposed in two spellings.
    """

    top_k: int = 5
    multi_token: MultiToken = "miss"
    ignore_case: bool = False
    beam_size: int = 20
    like: Evaluation | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.top_k >= 1, "top_k", self.top_k, "1 or more")
        require(self.beam_size >= 1, "beam_size", self.beam_size, "1 or more")
        plain = self.top_k == 5 and self.multi_token == "miss"
        _require_alone(self.like, plain, "top_k", "multi_token")

    @property
    def caseless(self) -> bool:
        """Whether case does not matter."""
        return self.ignore_case or self.like is not None


@dataclass(frozen=True)
class StatisticsConfig:
    """Confidence intervals of scores and tests of their differences.

    Args:
        resamples: bootstrap resamples of sentences behind an interval, and exchanges of two
            checkpoints' results behind a p-value; 0 for neither.
        confidence: confidence level of intervals, such as 0.95.
        seed: seed of the draws.
    """

    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.resamples >= 0, "resamples", self.resamples, "0 or more")
        require(0 < self.confidence < 1, "confidence", self.confidence,
                "more than 0 and less than 1")
        require(self.seed >= 0, "seed", self.seed, "0 or more")


def model_paths(models: Models) -> list[Path]:
    """List the directories of one checkpoint or several."""
    return [Path(path) for path in ([models] if isinstance(models, str | PathLike) else models)]


def split_settings(settings: Mapping[str, Any], *kinds: Any) -> list[Any]:
    """Sort keyword settings into the dataclasses that have a field of their name.

    Returns:
        an instance of each dataclass; fields without a keyword keep their defaults.

    Raises:
        TypeError: a keyword that no dataclass has.
        ValueError: a value out of range.
    """
    known = [{field.name for field in fields(kind)} for kind in kinds]
    unknown = sorted(set(settings).difference(*known))
    if unknown:
        raise TypeError(f"found {', '.join(unknown)}, expected some of "
                        f"{', '.join(sorted(set().union(*known)))}")
    return [kind(**{name: settings[name] for name in names & set(settings)})
            for kind, names in zip(kinds, known, strict=True)]


def _require_alone(like: str | None, defaults: bool, *names: str) -> None:
    """Refuse settings that a published evaluation fixes."""
    *first, last = map(setting, names)
    require(like is None or defaults, f"like {like}", f"{', '.join(first)} or {last} beside it",
            "neither of them" if len(names) == 2 else "none of them")
