"""Settings of scores of embedding spaces; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bmtools.errors import check_choices, require, setting
from bmtools.models.settings import parse_layers

Projection = Literal["pca", "tsne"]
StatePrecision = Literal["float32", "bf16", "fp16"]


@dataclass(frozen=True)
class EmbeddingSpaceConfig:
    """Sample of words and contexts, and the measures over it.

    Args:
        bands: of frequency. The first has the most frequent words, as many as are drawn from each
            band; the others' ranks grow by one factor, which by Zipf's law are equal steps on a
            log scale of counts.
        words_per_band: drawn from each band.
        occurrences: of each word at most, drawn from all of the text. No more than the minimal
            count gives every word as many, so that no band's words are means over more than
            others'.
        min_count: occurrences in the text that a word needs (Ethayarajh 2019: 5).
        min_letters: letters that a word needs; it may contain nothing else.
        single_token_words: draw only words that are one token to every model. Rare words are
            split more, and a mean over tokens is closer to other such means, whatever the
            frequency.
        context_characters: read on either side of a word, whole words only, within its record.
            Where this is more than some model takes, all models read less.
        layers: hidden states to average: last, all, or numbers such as 0,-1 (0: embeddings, -1:
            last layer).
        neighbours: nearest words of each whose band is compared.
        resamples: of the words, by band, behind each 95 % interval; 0 for no intervals.
        projection: of words onto the plane of the plot: pca, or tsne (as in BIOptimus).
        seed: seed of samples, resamples and t-SNE.
    """

    bands: int = 5
    words_per_band: int = 200
    occurrences: int = 5
    min_count: int = 5
    min_letters: int = 3
    single_token_words: bool = False
    context_characters: int = 150
    layers: str = "last"
    neighbours: int = 10
    resamples: int = 1_000
    projection: Projection = "pca"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("bands", 2), ("words_per_band", 2), ("occurrences", 1),
                            ("min_count", 1), ("min_letters", 1), ("context_characters", 0),
                            ("neighbours", 1), ("resamples", 0), ("seed", 0)):
            value = getattr(self, name)
            require(value >= least, name, value, f"{least} or more")
        others = self.bands * self.words_per_band - 1
        require(self.neighbours <= others, "neighbours", self.neighbours,
                f"at most {others}, the other words of {setting('bands')} times "
                f"{setting('words_per_band')}")
        check_choices(self)
        parse_layers(self.layers)


@dataclass(frozen=True)
class StateReadingConfig:
    """Passes through a checkpoint; but for precision, none of it moves a vector beyond rounding.

    Args:
        batch_tokens: tokens per pass through a model, padding included.
        device: where checkpoints run: auto (a GPU if there is one), cpu, cuda or cuda:N.
        precision: of matrix products: float32, bf16 or fp16.
    """

    batch_tokens: int = 4_096
    device: str = "auto"
    precision: StatePrecision = "float32"

    def __post_init__(self) -> None:
        require(self.batch_tokens >= 1, "batch_tokens", self.batch_tokens, "1 or more")
        check_choices(self)
