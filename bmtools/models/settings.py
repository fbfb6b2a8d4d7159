"""Settings of weight transfer; a light module without torch."""

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
    max_length: int = option(128, "Maximum length in tokens, with special tokens.", least=3)
    turns: int = option(
        5, "Turns of each model, after an uncounted one; the best and the median are reported.",
        least=1)
    workers: int = option(0, "Workers that share a batch on the CPU; 0: one for each core.")


class TransferConfig(Settings,
                     title="Initialization of embeddings of tokens that are new to the base model"):
    """Initialization of embeddings of tokens that are new to the base model."""

    method: Method = option(
        "contextual", "random, average (mean of the base's pieces), contextual (mean of the base's "
                      "states at the pieces in sentences of the corpus; without any, average) or "
                      "focus (mixture of known tokens with similar contexts in the corpus).")
    average_of: Literal["embeddings", "states"] = option(
        "embeddings", "Values that are averaged over a token's pieces if no sentence is read: "
                      "embeddings, or states of the pieces without context (Pavlova and Makhlouf "
                      "2023 can be read both ways).")
    layers: str = option(
        "last", "Layers whose states are averaged: last, all, or numbers such as 0,-1 "
                "(0: embeddings, -1: last layer).", metavar="last|all|N,...")
    rescale: bool = option(
        False, "Scale embeddings made of states, all by one factor, to the mean norm of the base's "
               "embeddings; states are often ten times as long. This departs from the paper.")
    max_sentences: int = option(20, "Maximum number of sentences sampled for a token.", least=1)
    grow: str = option("", "Size of a larger model to make from the base: LAYERSxWIDTH, such as "
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
    focus_min_count: int = option(5, "Occurrences in the corpus that a token needs for a vector.",
                                  least=1)
    focus_max_tokens: int = option(
        20_000_000, "Tokens of the corpus to read; the rest is ignored.", least=1)


def parse_layers(layers: str) -> tuple[int, ...] | None:
    """Parse the setting `layers`; None for all layers.

    Raises:
        ValueError: the value is not last, all or numbers.
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
