"""Pretraining, from scratch or continued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bmtools.errors import BmtoolsError
from bmtools.records import Record
from bmtools.training.objectives import CausalObjective, MaskedObjective, Objective
from bmtools.training.run import Plan, execute
from bmtools.training.start import from_architecture, from_checkpoint
from bmtools.vocab.tokenizer import load_tokenizer


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
        start = from_checkpoint(model)
    else:
        assert architecture is not None and tokenizer is not None
        start = from_architecture(architecture, load_tokenizer(tokenizer), plan.loop.seed)
    if plan.rows.row_tokens > start.longest:
        raise BmtoolsError(f"--row-tokens: found {plan.rows.row_tokens}, but the model has "
                           f"{start.longest} positions")
    objective: Callable[[Any], Objective] = \
        CausalObjective if plan.rows.objective == "causal" else MaskedObjective
    yield from execute(plan, records, start, hashes, objective)
