"""Settings of weight transfer; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require

METHODS = ("random", "average", "contextual", "focus", "distil")
READING = ("contextual", "focus", "distil")
"""Methods that read text."""


@dataclass(frozen=True)
class TransferConfig:
    """How tokens that the base model lacks get their embeddings.

    Args:
        method: random (drawn anew), average (mean of the base's pieces), contextual (mean of the
            base's states at those pieces, in sentences of the corpus), focus (mixture of the
            embeddings of known tokens that stand in like company there) or distil (fitted, so
            that the base's states in sentences stay what they were with the pieces).
        layers: states that contextual takes and distil fits, as a mean over them: last, all, or
            numbers such as 0,-1 (0: embeddings, -1: last layer).
        rescale: bring embeddings made from contexts, all by one factor, to the mean length of the
            base's own. A departure from the paper: states are longer than embeddings, by ten times
            or more in small models, so a tied output layer starts out far worse than chance.
        max_sentences: most sentences sampled for a token.
        max_positions: extend positions to rows of so many tokens, special ones included; 0 leaves
            them as they are.
        batch_tokens: tokens run through the base model at a time.
        seed: seed of samples and of random embeddings.
    """

    method: str = "contextual"
    layers: str = "last"
    rescale: bool = False
    max_sentences: int = 20
    max_positions: int = 0
    batch_tokens: int = 4_096
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"--method: found {self.method!r}, expected {' or '.join(METHODS)}")
        parse_layers(self.layers)
        require(self.max_sentences >= 1, "--max-sentences", self.max_sentences, "1 or more")
        require(self.max_positions >= 0, "--max-positions", self.max_positions, "0 or more")
        require(self.batch_tokens >= 1, "--batch-tokens", self.batch_tokens, "1 or more")


@dataclass(frozen=True)
class FocusConfig:
    """Static vectors behind `--method focus`, trained on the corpus.

    Args:
        focus_window: tokens on either side that count as company.
        focus_width: numbers of a static vector.
        focus_least: times that a token must stand in the corpus to have one.
        focus_tokens: tokens of the corpus to count; the rest is left unread.
    """

    focus_window: int = 5
    focus_width: int = 128
    focus_least: int = 5
    focus_tokens: int = 20_000_000

    def __post_init__(self) -> None:
        require(self.focus_window >= 1, "--focus-window", self.focus_window, "1 or more")
        require(self.focus_width >= 2, "--focus-width", self.focus_width, "2 or more")
        require(self.focus_least >= 1, "--focus-least", self.focus_least, "1 or more")
        require(self.focus_tokens >= 1, "--focus-tokens", self.focus_tokens, "1 or more")


@dataclass(frozen=True)
class TokenDistillationConfig:
    """How `--method distil` fits embeddings.

    Args:
        distil_epochs: passes over the sampled sentences.
        distil_rate: learning rate at the beginning; it falls to 0, linearly.
    """

    distil_epochs: int = 5
    distil_rate: float = 2e-3

    def __post_init__(self) -> None:
        require(self.distil_epochs >= 1, "--distil-epochs", self.distil_epochs, "1 or more")
        require(self.distil_rate > 0, "--distil-rate", self.distil_rate, "above 0")


@dataclass(frozen=True)
class CompareConfig:
    """How methods are held against each other before one of them is trained.

    Args:
        compare: methods, separated by commas; one JSON line each is printed and no checkpoint
            written.
        held_share: share of the records kept apart to be asked about, where --held-out names no
            file.
        probe_steps: steps of a trial of pretraining from each start; 0 for none.
        probe_rate: learning rate of the trial.
        probe_batch: rows of a step.
        probe_max_length: longest row, special tokens included.
        sample_tokens: new tokens whose nearest old neighbours are told.
    """

    compare: str = ""
    held_share: float = 0.1
    probe_steps: int = 100
    probe_rate: float = 5e-4
    probe_batch: int = 32
    probe_max_length: int = 128
    sample_tokens: int = 5

    def __post_init__(self) -> None:
        for name in self.methods():
            require(name in METHODS, "--compare", repr(name),
                    f"names from {', '.join(METHODS)}, separated by commas")
        require(len(set(self.methods())) == len(self.methods()), "--compare", repr(self.compare),
                "each method once")
        require(0 < self.held_share < 1, "--held-share", self.held_share, "above 0, below 1")
        require(self.probe_steps >= 0, "--probe-steps", self.probe_steps, "0 or more")
        require(self.probe_rate > 0, "--probe-rate", self.probe_rate, "above 0")
        require(self.probe_batch >= 1, "--probe-batch", self.probe_batch, "1 or more")
        require(self.probe_max_length >= 8, "--probe-max-length", self.probe_max_length,
                "8 or more")
        require(self.sample_tokens >= 0, "--sample-tokens", self.sample_tokens, "0 or more")

    def methods(self) -> tuple[str, ...]:
        """Methods to compare, in the order given."""
        return tuple(name.strip() for name in self.compare.split(",") if name.strip())


def parse_layers(layers: str) -> tuple[int, ...] | None:
    """Read `--layers`; None stands for all of them.

    Raises:
        ValueError: it is none of the three.
    """
    if layers == "last":
        return (-1,)
    if layers == "all":
        return None
    try:
        return tuple(int(part) for part in layers.split(","))
    except ValueError:
        raise ValueError(f"--layers: found {layers!r}, expected last, all or numbers separated by "
                         "commas, such as 0,-1") from None
