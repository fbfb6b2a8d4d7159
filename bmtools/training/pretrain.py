"""Pretraining, from scratch or continued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from bmtools.errors import BmtoolsError
from bmtools.models.architectures import build_config, build_model, build_outline
from bmtools.models.checkpoint import load_masked_lm, max_tokens
from bmtools.records import Record
from bmtools.training.objectives import CausalObjective, MaskedObjective, Objective
from bmtools.training.run import Plan, execute
from bmtools.vocab.tokenizer import fingerprint, load_tokenizer


def pretrain(plan: Plan, records: Iterable[Record], hashes: Callable[[], Mapping[str, str]],
             model: Path | None = None, architecture: str | None = None,
             tokenizer: Path | None = None) -> Iterator[dict[str, Any]]:
    """Train a masked language model and yield its metrics.

    Args:
        plan: the run as asked for.
        records: the text.
        hashes: gives the hash of each input once records are read.
        model: checkpoint to continue, or None.
        architecture: name of the architecture to start afresh, with `tokenizer`.
        tokenizer: tokenizer directory for a fresh start.

    Raises:
        CheckpointError: `model` or `tokenizer` cannot be used.
        BmtoolsError: rows longer than the model's positions.
    """
    if model is not None:
        checkpoint = load_masked_lm(model)
        words, vocabulary = checkpoint.tokenizer, checkpoint.vocabulary
        longest = max_tokens(checkpoint.model)

        def start() -> Any:
            return checkpoint.model
    else:
        assert architecture is not None and tokenizer is not None
        words = load_tokenizer(tokenizer)
        vocabulary = fingerprint(words)
        config = build_config(architecture, words)
        longest = max_tokens(build_outline(config))

        def start() -> Any:
            torch.manual_seed(plan.loop.seed)
            return build_model(config)

    if plan.rows.row_tokens > longest:
        raise BmtoolsError(f"--row-tokens: found {plan.rows.row_tokens}, but the model has "
                           f"{longest} positions")
    objective: Callable[[Any], Objective] = \
        CausalObjective if plan.rows.objective == "causal" else MaskedObjective
    yield from execute(plan, records, words, vocabulary, hashes, start, objective)
