"""Settings of the look at a model's space of words; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require
from bmtools.models.settings import parse_layers

PROJECTIONS = ("pca", "tsne")
PRECISIONS = ("no", "bf16", "fp16")


@dataclass(frozen=True)
class EmbeddingSpaceConfig:
    """Which words are looked at, where, and how they are laid out.

    Args:
        bands: of frequency. The first holds as many of the most frequent words as --words says;
            the others' ranks grow by one factor, which by Zipf's law are equal steps on a log
            scale of counts.
        words: drawn from each band.
        occurrences: of each word at most, drawn from all of the text. No more than --least-count
            gives every word as many, so that no band's words are means over more than others'.
        least_count: times that a word must stand in the text (Ethayarajh 2019: 5).
        least_letters: that a word must have; it may hold nothing else.
        whole: draw only words that are one token to every model. Rare words are split more, and a
            mean over pieces lies closer to other such means, whatever the frequency.
        context: characters read on either side of a word, whole words only, within its record.
            Where this is more than some model takes, all models read less.
        layers: states that are taken, as a mean over them: last, all, or numbers such as 0,-1 (0:
            embeddings, -1: last layer).
        neighbours: nearest words of each that are asked for their band.
        resamples: of the words, by band, behind each 95 % interval; 0 for no intervals.
        projection: how --plot lays words out: pca, or tsne (which BIOptimus has; needs
            scikit-learn).
        seed: seed of samples, resamples and t-SNE.
    """

    bands: int = 5
    words: int = 200
    occurrences: int = 5
    least_count: int = 5
    least_letters: int = 3
    whole: bool = False
    context: int = 150
    layers: str = "last"
    neighbours: int = 10
    resamples: int = 1_000
    projection: str = "pca"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("bands", 2), ("words", 2), ("occurrences", 1), ("least_count", 1),
                            ("least_letters", 1), ("context", 0), ("neighbours", 1),
                            ("resamples", 0), ("seed", 0)):
            value = getattr(self, name)
            require(value >= least, f"--{name.replace('_', '-')}", value, f"{least} or more")
        others = self.bands * self.words - 1
        require(self.neighbours <= others, "--neighbours", self.neighbours,
                f"at most {others}, the other words of --bands times --words")
        require(self.projection in PROJECTIONS, "--projection", repr(self.projection),
                " or ".join(PROJECTIONS))
        parse_layers(self.layers)


@dataclass(frozen=True)
class StateReadingConfig:
    """How text meets a checkpoint; but for precision, none of it moves a vector beyond rounding.

    Args:
        batch_tokens: tokens per pass through a model, padding included.
        device: where checkpoints run: auto (a GPU if there is one), cpu, cuda or cuda:N.
        precision: what matrices are multiplied in: no (float32), bf16 or fp16.
    """

    batch_tokens: int = 4_096
    device: str = "auto"
    precision: str = "no"

    def __post_init__(self) -> None:
        require(self.batch_tokens >= 1, "--batch-tokens", self.batch_tokens, "1 or more")
        require(self.precision in PRECISIONS, "--precision", repr(self.precision),
                " or ".join(PRECISIONS))
