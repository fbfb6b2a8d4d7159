"""What a run starts from: a checkpoint, or new weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bmtools.models.architectures import build_config, build_model, build_outline
from bmtools.models.checkpoint import load_masked_lm, max_tokens
from bmtools.vocab.tokenizer import fingerprint


@dataclass(frozen=True)
class Start:
    """A model about to be trained.

    Args:
        tokenizer: of the model.
        vocabulary: its fingerprint.
        longest: most tokens of a row, special ones included.
        make: gives the model; a resumed run never asks.
    """

    tokenizer: Any
    vocabulary: str
    longest: int
    make: Callable[[], Any]


def from_checkpoint(directory: Path) -> Start:
    """Go on from a masked language model.

    Raises:
        CheckpointError: it cannot be used.
    """
    checkpoint = load_masked_lm(directory)
    return Start(checkpoint.tokenizer, checkpoint.vocabulary, max_tokens(checkpoint.model),
                 lambda: checkpoint.model)


def from_architecture(architecture: str, tokenizer: Any, seed: int,
                      longest_row: int = 0) -> Start:
    """Begin with new weights, drawn from the seed alone.

    Args:
        architecture: its name, or the path of a config.json.
        tokenizer: of the model.
        seed: of the weights.
        longest_row: tokens that positions are needed for, where a name leaves their number open.

    Raises:
        BmtoolsError: no such architecture.
    """
    config = build_config(architecture, tokenizer, longest_row)

    def make() -> Any:
        torch.manual_seed(seed)
        return build_model(config)

    return Start(tokenizer, fingerprint(tokenizer), max_tokens(build_outline(config)), make)
