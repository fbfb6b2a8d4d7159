"""What a run starts from: a checkpoint, or new weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bmtools.errors import BmtoolsError
from bmtools.models.architectures import (
    build_config,
    build_model,
    build_on_meta,
    has_segment_embeddings,
)
from bmtools.models.checkpoint import load_masked_lm, max_tokens
from bmtools.recipes.phases import Phase
from bmtools.training.layers import frozen_names
from bmtools.vocab.tokenizer import fingerprint


@dataclass(frozen=True)
class InitialModel:
    """A model about to be trained.

    Args:
        tokenizer: of the model.
        vocabulary: its fingerprint.
        longest: most tokens of a row, special ones included.
        config: of the model.
        segments: whether it tells a first segment from a second.
        make: gives the model; a resumed run never asks.
    """

    tokenizer: Any
    vocabulary: str
    longest: int
    config: Any
    segments: bool
    make: Callable[[], Any]


def from_checkpoint(directory: Path) -> InitialModel:
    """Go on from a masked language model.

    Raises:
        CheckpointError: it cannot be used.
    """
    checkpoint = load_masked_lm(directory)
    model = checkpoint.model
    return InitialModel(checkpoint.tokenizer, checkpoint.vocabulary, max_tokens(model),
                        model.config,
                        has_segment_embeddings(model), lambda: model)


def from_architecture(architecture: str, tokenizer: Any, seed: int,
                      longest_row: int = 0) -> InitialModel:
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

    outline = build_on_meta(config)
    return InitialModel(tokenizer, fingerprint(tokenizer), max_tokens(outline), config,
                        has_segment_embeddings(outline), make)


def check_fits(start: InitialModel, phases: Sequence[Phase]) -> None:
    """Refuse phases that ask of a model what it cannot do; cheap.

    Raises:
        BmtoolsError: rows longer than its positions, pairs that it cannot tell apart, or layers
            or weights to freeze that it does not have.
    """
    outline = build_on_meta(start.config)
    for phase in phases:
        rows, task = phase.batch.max_length, phase.objective.objective
        if rows > start.longest:
            raise BmtoolsError(f"--max-length: found {rows}, but the model has {start.longest} "
                               "positions")
        if task == "masked+nsp" and not start.segments:
            raise BmtoolsError(f"--objective {task}: {type(outline).__name__} has no token types; "
                               "expected BERT or Megatron-BERT")
        frozen_names(outline, phase.freeze.frozen_layers, phase.freeze.patterns())
