"""Settings of the four measures, their inference and their statistics; light to import."""

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
"""Directory of a checkpoint, or several."""
_RATES = "shares above 0, at most 1, separated by commas"
_PERCENTAGES = "percentages that add up to 100, as in 80/10/10, separated by commas"
_ROUNDING = 1e-6


class InferenceConfig(Settings, title="Inference"):
    """Inference: passes over masked copies; only the precision changes scores beyond rounding."""

    batch_tokens: int = option(
        0, "Tokens per pass through a model; 0 for 4,096 on a CPU and 65,536 on a GPU.")
    workers: int = option(
        0, "Batches in progress at a time on a CPU, each on one core; 0 for one a core.")
    device: str = option("auto", "Device that checkpoints run on: auto (a GPU if there is one), "
                                 "cpu, cuda or cuda:N.", metavar="auto|cpu|cuda[:N]")
    precision: Precision = option(
        "float32", "Data type of the layers' matrix products; the head is always in float32.")


class PpplConfig(Settings, title="Pseudo-perplexity"):
    """Pseudo-perplexity: which tokens are masked together."""

    variant: Variant = option(
        "original", "What is masked to score a token: original (the token alone; Salazar et al. "
                    "2020) or within-word (also the rest of its word, so that pieces do not give "
                    "each other away; Kauf and Ivanova 2023).")
    like: Evaluation | None = option(
        None, "biobit scores as the evaluation that Buonocore et al. published: the mean over "
              "sentences, without those above 170 tokens.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.variant == "original" or not self.like, f"like {self.like}",
                setting("variant"), "no variant with it")


class MrrConfig(Settings, title="Mean reciprocal rank"):
    """Mean reciprocal rank: which proposals count (Buonocore et al. 2023, equation 2)."""

    top_k: int = option(5, "Proposals that count; a word ranked lower scores 0.", least=1)
    multi_token: Literal["miss", "first", "joint", "skip"] = option(
        "miss", "Score of a word of several tokens: miss (0, as one mask cannot produce it), first "
                "(by its first token alone), joint (by all its tokens behind as many masks) or "
                "skip (left out of the mean).")
    ignore_case: bool = option(False, "Count a proposal that equals the word but for case.")
    like: Evaluation | None = option(
        None, "biobit scores as the evaluation that Buonocore et al. published: the first five, "
              "caseless, single tokens only, punctuation removed from words, reciprocal ranks "
              "rounded to two digits, and the lower place where a word is proposed in two "
              "spellings.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require((self.top_k == 5 and self.multi_token == "miss") or not self.like,
                f"like {self.like}", f"{setting('top_k')} or {setting('multi_token')}",
                "neither of them with it")


@dataclass(frozen=True)
class Combination:
    """One strategy at one rate with one corruption.

    Args:
        masking: name of the strategy.
        mask_rate: share of a sequence's tokens to mask.
        corruption: percentages that become the mask token, a random token, or stay themselves.
    """

    masking: str
    mask_rate: float
    corruption: str

    @property
    def shares(self) -> tuple[float, float]:
        """Shares that become the mask token and a random token."""
        masked, random, same = (float(part) for part in self.corruption.split("/"))
        # Rounding must not leave a share for a percentage of 0.
        return masked / 100, random / 100 if same else 1 - masked / 100


class MaskedLmLossConfig(Settings, title="Masking of texts"):
    """Masking of texts: each strategy at each rate with each corruption."""

    masking: str = option("tokens,words", "Units that are masked together, separated by commas: "
                                          "tokens, words, spans, terms.", metavar="UNIT,...")
    mask_rate: str = option(
        "0.15", "Shares of tokens to mask, separated by commas.", metavar="X,...")
    corruption: str = option(
        "80/10/10", "Percentages of masked tokens that become the mask token, become a random one "
                    "and stay themselves, separated by commas.", metavar="M/R/S,...")
    repeats: int = option(3, "Draws of masks.", least=1)
    max_length: int = option(128, "Longest sequence in tokens, special tokens included; longer "
                                  "texts are cut where words begin.", least=8)
    segmenter: str = option(
        "tokenizer", "Finds words: tokenizer (right where spaces are written), japanese, chinese, "
                     "thai, or one that a package brings.", metavar="NAME")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_names("masking", self.maskings(), get_args(Masking))
        self.combinations()

    def maskings(self) -> list[str]:
        """Strategies, in the order given."""
        return _parse("masking", self.masking, str, "")

    def combinations(self) -> list[Combination]:
        """All combinations; the corruption changes fastest."""
        return [Combination(*one) for one in product(
            self.maskings(), _parse("mask_rate", self.mask_rate, _share, _RATES),
            _parse("corruption", self.corruption, _normalized, _PERCENTAGES))]

    def check_usage(self, has_terms: bool) -> None:
        """Refuse terms that do not go with these settings.

        Raises:
            ValueError: masking by terms without terms, or terms without it.
        """
        by_terms = "terms" in self.maskings()
        require(has_terms or not by_terms, "masking", "terms", f"{setting('terms')} as well")
        require(by_terms or not has_terms, "masking", repr(self.masking),
                f"terms as well, as {setting('terms')} is given")


class EmbeddingSpaceConfig(Settings,
                           title="Sample of words and contexts, and the measures over it"):
    """Sample of words and contexts, and the measures over it."""

    bands: int = option(
        5, "Bands of frequency that words are drawn from. The first has the most frequent words, "
           "as many as are drawn from each band; the others' ranks grow by one factor, which by "
           "Zipf's law are equal steps on a log scale of counts.", least=2)
    words_per_band: int = option(200, "Words drawn from each band.", least=2)
    occurrences: int = option(
        5, "Most occurrences of a word, drawn from all of the text. No more than the minimal count "
           "gives every word as many, so that no band's words are means over more than others'.",
           least=1)
    min_count: int = option(5, "Occurrences in the text that a word needs (Ethayarajh 2019: 5).",
                            least=1)
    min_letters: int = option(3, "Letters that a word needs; it may contain nothing else.", least=1)
    single_token_words: bool = option(
        False, "Draw only words that are one token to every model. Rare words are split more, and "
               "a mean over tokens is closer to other such means, whatever the frequency.")
    context_characters: int = option(
        150, "Characters read on either side of a word, whole words only, within its record. Where "
             "this is more than some model takes, all models read less.")
    layers: str = option("last", "Hidden states to average: last, all, or numbers such as 0,-1 (0: "
                                 "embeddings, -1: last layer).", metavar="last|all|N,...")
    neighbours: int = option(10, "Nearest words of each whose band is compared.", least=1)
    resamples: int = option(1_000, "Bootstrap resamples of the words, by band, behind each 95 % "
                                   "interval, where a band has ten or more; 0 for no intervals.")
    projection: Projection = option(
        "pca", "Projection of words onto the plane of the plot: pca, or tsne (as in BIOptimus).")
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
        ValueError: a part that cannot be parsed, none, or one twice.
    """
    try:
        found = [parse(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{setting(name)}: found {text!r}, expected {expected}") from None
    require(len(found) > 0, name, repr(text), "one at least")
    require(len(set(found)) == len(found), name, repr(text), "each once")
    return found


def _share(text: str) -> float:
    """Parse a share above 0, at most 1.

    Raises:
        ValueError: another number, or none.
    """
    if not 0 < float(text) <= 1:
        raise ValueError(text)
    return float(text)


def _normalized(corruption: str) -> str:
    """Spell percentages in one way, as in 80/10/10.

    Raises:
        ValueError: not three numbers, 0 or more, that add up to 100.
    """
    percentages = [float(part) for part in corruption.split("/")]
    if len(percentages) != 3 or not all(one >= 0 for one in percentages) \
            or abs(sum(percentages) - 100) > _ROUNDING:
        raise ValueError(corruption)
    return "/".join(f"{one:g}" for one in percentages)
