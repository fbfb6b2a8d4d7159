"""Settings of weight transfer; importing this costs nothing."""

from __future__ import annotations

from typing import Literal, get_args

from bmtools.errors import (
    LAST_SEED,
    setting,
)
from bmtools.models.sizes import parse_size
from bmtools.settings import Settings, option

Method = Literal["random", "average", "contextual", "focus"]
METHODS: tuple[Method, ...] = get_args(Method)
READING_METHODS: tuple[Method, ...] = ("contextual", "focus")
"""Methods that read text."""
Casing = Literal["cased", "uncased"]


class SpeedConfig(Settings, title="Timing of models that take turns"):
    """Timing of models that take turns."""

    batch_size: int = option(8, "Texts in a batch.", least=1)
    max_length: int = option(128, "Longest text in tokens, special ones included.", least=3)
    turns: int = option(
        5, "Of each model, after one that is not counted; the best and the median are reported.",
        least=1)
    workers: int = option(0, "That share the work of a batch on the CPU; 0 takes all cores.")


class TransferConfig(Settings,
                     title="Initialization of embeddings of tokens that the base model lacks"):
    """Initialization of embeddings of tokens that the base model lacks."""

    method: Method = option(
        "contextual", "random, average (mean of the base's pieces), contextual (mean of the base's "
                      "states at those pieces in sentences of the corpus; else the mean of the "
                      "pieces) or focus (mixture of known tokens with similar contexts there).")
    average_of: Literal["embeddings", "states"] = option(
        "embeddings", "Values at a token's pieces that are averaged where no sentence is read: "
                      "embeddings, or states of these pieces alone (Pavlova and Makhlouf 2023 can "
                      "be read both ways).")
    layers: str = option(
        "last", "States that are taken, as a mean over them: last, all, or numbers such as 0,-1 "
                "(0: embeddings, -1: last layer).", metavar="last|all|N,...")
    rescale: bool = option(
        False, "Bring embeddings made of states, all by one factor, to the mean norm of the base's "
               "own; states are often ten times as long. A departure from the paper.")
    max_sentences: int = option(20, "Sentences sampled for a token, at most.", least=1)
    grow: str = option("", "Size of a larger model to make of the base: LAYERSxWIDTH, such as "
                           "12x768, or a named architecture of its family. Layers are repeated and "
                           "weights tiled.", metavar="LAYERSxWIDTH|NAME")
    batch_tokens: int = option(4_096, "Tokens run through the base model at a time.", least=1)
    device: str = option("auto", "Device that the base model reads on: auto (a GPU if there is "
                                 "one), cpu, cuda or cuda:N.", metavar="auto|cpu|cuda[:N]")
    seed: int = option(0, "Seed of samples and of random embeddings.", most=LAST_SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_layers(self.layers)
        if self.grow:
            parse_size(self.grow)


class FocusConfig(Settings, title="Static vectors of method focus, trained on the corpus"):
    """Static vectors of method focus, trained on the corpus."""

    focus_window: int = option(5, "Tokens on either side that count as context.", least=1)
    focus_dim: int = option(128, "Dimensions of a static vector.", least=2)
    focus_min_count: int = option(5, "Occurrences in the corpus that a token needs to get one.",
                                  least=1)
    focus_max_tokens: int = option(
        20_000_000, "Tokens of the corpus to count; the rest is not read.", least=1)


def parse_layers(layers: str) -> tuple[int, ...] | None:
    """Parse the setting `layers`; None for all of them.

    Raises:
        ValueError: neither last, nor all, nor numbers.
    """
    if layers == "last":
        return (-1,)
    if layers == "all":
        return None
    try:
        return tuple(int(part) for part in layers.split(","))
    except ValueError:
        raise ValueError(f"{setting('layers')}: found {layers!r}, expected last, all or numbers "
                         "separated by commas, such as 0,-1") from None
