"""Settings of the four measures and of inference; importing this module is fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from os import PathLike
from typing import Literal, TypeVar, get_args

from bmtools.errors import LAST_SEED, require, require_names, setting
from bmtools.models.settings import parse_layers
from bmtools.recipes.settings import Masking
from bmtools.settings import Settings, option

Precision = Literal["float32", "bf16", "fp16"]
Variant = Literal["original", "within-word"]
Evaluation = Literal["biobit"]
Projection = Literal["pca", "tsne"]
Parsed = TypeVar("Parsed")
Models = str | PathLike[str] | Iterable[str | PathLike[str]]
"""Directories of one or several checkpoints."""
_RATES = "shares above 0, at most 1, separated by commas"
_PERCENTAGES = "percentages that add up to 100, such as 80/10/10, separated by commas"
_ROUNDING = 1e-6


class InferenceConfig(Settings, title="Inference"):
    """Inference: passes over masked copies; only the precision changes scores beyond rounding."""

    batch_tokens: int = option(
        0, "Tokens per pass through a model; 0 for 4,096 on a CPU and 65,536 on a GPU.")
    workers: int = option(
        0, "Batches that run at the same time on a CPU, each on one core; 0: one per core.")
    device: str = option("auto", "Device that checkpoints run on: auto (a GPU if present), "
                                 "cpu, cuda or cuda:N.", metavar="auto|cpu|cuda[:N]")
    precision: Precision = option(
        "float32", "Data type of the layers' matrix products; the head always uses float32.")


class PpplConfig(Settings, title="Pseudo-perplexity"):
    """Pseudo-perplexity: which tokens are masked together."""

    variant: Variant = option(
        "original", "Tokens masked to score a token: original (only the token; Salazar et al. "
                    "2020) or within-word (also the rest of its word, so that pieces do not reveal "
                    "each other; Kauf and Ivanova 2023).")
    like: Evaluation | None = option(
        None, "biobit scores like the published evaluation of Buonocore et al.: the mean over "
              "sentences, without sentences of more than 170 tokens.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.variant == "original" or not self.like, f"like {self.like}",
                setting("variant"), "the default, original")


class MrrConfig(Settings, title="Mean reciprocal rank"):
    """Mean reciprocal rank: which proposals count (Buonocore et al. 2023, equation 2)."""

    top_k: int = option(5, "Number of proposals that count; a word ranked lower scores 0.", least=1)
    multi_token: Literal["miss", "first", "joint", "skip"] = option(
        "miss", "Score of words with several tokens: miss (0, because one mask cannot produce "
                "them), first (only the first token), joint (all tokens, with one mask for each) "
                "or skip (left out of the mean).")
    ignore_case: bool = option(False, "Count a proposal that differs from the word only in case.")
    like: Evaluation | None = option(
        None, "biobit scores like the published evaluation of Buonocore et al.: the first five "
              "proposals, caseless, single tokens only, punctuation removed from words, reciprocal "
              "ranks rounded to two digits, and the lower rank if a word is proposed in two "
              "spellings.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require((self.top_k == 5 and self.multi_token == "miss") or not self.like,
                f"like {self.like}", f"{setting('top_k')} or {setting('multi_token')}",
                "the defaults of both")


@dataclass(frozen=True)
class Combination:
    """One strategy at one rate with one corruption.

    Args:
        masking: name of the strategy.
        mask_rate: share of a sequence's tokens to mask.
        corruption: percentages that become the mask token or a random token, or are kept.
    """

    masking: str
    mask_rate: float
    corruption: str

    @property
    def shares(self) -> tuple[float, float]:
        """Shares of tokens that become the mask token and a random token."""
        masked, random, same = (float(part) for part in self.corruption.split("/"))
        # Rounding must not leave a share if the percentage is 0.
        return masked / 100, random / 100 if same else 1 - masked / 100


class MaskedLmLossConfig(Settings, title="Masking of texts"):
    """Masking of texts: each strategy at each rate with each corruption."""

    masking: str = option("tokens,words", "Units to mask together, separated by commas: tokens, "
                                          "words, spans, terms.", metavar="UNIT,...")
    mask_rate: str = option(
        "0.15", "Shares of tokens to mask, separated by commas.", metavar="X,...")
    corruption: str = option(
        "80/10/10", "Percentages of masked tokens that become the mask token, become a random "
                    "token or are kept, separated by commas.", metavar="M/R/S,...")
    repeats: int = option(3, "Number of times that masks are sampled.", least=1)
    max_length: int = option(128, "Maximum sequence length in tokens, including special tokens; "
                                  "longer texts are cut at word boundaries.", least=8)
    segmenter: str = option(
        "tokenizer", "Method of finding words: tokenizer (for scripts with spaces), japanese, "
                     "chinese, thai, or one from another package.", metavar="NAME")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_names("masking", self.maskings(), get_args(Masking))
        self.combinations()

    def maskings(self) -> list[str]:
        """Return the strategies in the order given."""
        return _parse("masking", self.masking, str, "")

    def combinations(self) -> list[Combination]:
        """Return all combinations; the corruption changes fastest."""
        return [Combination(*one) for one in product(
            self.maskings(), _parse("mask_rate", self.mask_rate, _share, _RATES),
            _parse("corruption", self.corruption, _normalized, _PERCENTAGES))]

    def check_usage(self, has_terms: bool) -> None:
        """Raise an error if terms do not match these settings.

        Raises:
            ValueError: if masking by terms has no terms, or terms are given without it.
        """
        by_terms = "terms" in self.maskings()
        require(has_terms or not by_terms, "masking", "terms", f"also {setting('terms')}")
        require(by_terms or not has_terms, "masking", repr(self.masking),
                f"also terms, because {setting('terms')} is given")


class EmbeddingSpaceConfig(Settings,
                           title="Sample of words and contexts, and the measures over it"):
    """Sample of words and contexts, and the measures over it."""

    bands: int = option(
        5, "Number of frequency bands from which words are sampled. The first contains the most "
           "frequent words and is as large as each sample; ranks then grow by a constant factor, "
           "which by Zipf's law means equal steps on a log scale of counts.", least=2)
    words_per_band: int = option(200, "Number of words sampled from each band.", least=2)
    occurrences: int = option(
        5, "Maximum number of occurrences of a word, sampled from all of the text. If it is at "
           "most the minimum count, all words have the same number, so that no band's means are "
           "over more occurrences.", least=1)
    min_count: int = option(5, "Minimum number of occurrences of a word (Ethayarajh 2019: 5).",
                            least=1)
    min_letters: int = option(3, "Minimum number of letters; words contain only letters.", least=1)
    single_token_words: bool = option(
        False, "Sample only words that are one token for every model. Rare words are split more, "
               "and means over tokens are closer to each other, whatever the frequency.")
    context_characters: int = option(
        150, "Number of characters read before and after a word, only complete words, within its "
             "record. If this is too long for a model, all models read less.")
    layers: str = option("last", "Hidden states to average: last, all, or numbers such as 0,-1 (0: "
                                 "embeddings, -1: last layer).", metavar="last|all|N,...")
    neighbours: int = option(10, "Number of nearest words whose bands are compared.", least=1)
    resamples: int = option(1_000, "Bootstrap resamples of the words, by band, for each 95 % "
                                   "interval, if bands have ten words; 0 for no intervals.")
    projection: Projection = option(
        "pca", "Projection of words for the plot: pca, or tsne (as in BIOptimus).")
    seed: int = option(0, "Seed of samples, resamples and t-SNE.", most=LAST_SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        others = self.bands * self.words_per_band - 1
        require(self.neighbours <= others, "neighbours", self.neighbours,
                f"at most {others}, the other words of {setting('bands')} times "
                f"{setting('words_per_band')}")
        parse_layers(self.layers)


def _parse(name: str, text: str, parse: Callable[[str], Parsed], expected: str) -> list[Parsed]:
    """Parse a comma-separated list.

    Raises:
        ValueError: if a part cannot be parsed or occurs twice, or the list is empty.
    """
    try:
        found = [parse(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{setting(name)}: found {text!r}, expected {expected}") from None
    require(len(found) > 0, name, repr(text), "at least one")
    require(len(set(found)) == len(found), name, repr(text), "each once")
    return found


def _share(text: str) -> float:
    """Parse a share above 0 and at most 1.

    Raises:
        ValueError: if it is not such a number.
    """
    if not 0 < float(text) <= 1:
        raise ValueError(text)
    return float(text)


def _normalized(corruption: str) -> str:
    """Write percentages in one way, such as 80/10/10.

    Raises:
        ValueError: if they are not three numbers of 0 or more that add up to 100.
    """
    percentages = [float(part) for part in corruption.split("/")]
    if len(percentages) != 3 or not all(one >= 0 for one in percentages) \
            or abs(sum(percentages) - 100) > _ROUNDING:
        raise ValueError(corruption)
    return "/".join(f"{one:g}" for one in percentages)
