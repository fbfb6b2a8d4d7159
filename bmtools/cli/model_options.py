"""Where pretraining starts, as `pretrain` and `preflight` are told."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Function, existing_directory
from bmtools.io.manifest import hash_directory
from bmtools.recipes.phases import RunConfig
from bmtools.training.plan import TrainingPlan, make_plan


@dataclass(frozen=True)
class Origin:
    """A checkpoint to continue, or an architecture and its tokenizer."""

    model: Path | None
    architecture: str | None
    tokenizer: Path | None

    def plan(self, output: Path, config: RunConfig, terms: Path | None) -> TrainingPlan:
        """Lay out the run that starts from here."""
        model, tokenizer = self.model, self.tokenizer
        return make_plan(
            "pretrain", output, config,
            {"model": model and str(model), "architecture": self.architecture,
             "tokenizer": tokenizer and str(tokenizer), "terms": terms and str(terms)},
            {"model": hash_directory(model)} if model else {})


def takes_model_init(function: Function) -> Function:
    """Add `--model`, `--architecture` and `--tokenizer`; the function gets `origin`.

    Put it below `takes_script`, whose config may name the architecture.
    """

    @click.option("--model", type=existing_directory, metavar="CKPT",
                  help="Checkpoint to continue.")
    @click.option("--architecture", metavar="NAME",
                  help="Start afresh: bert-base, roberta-large, modernbert-4x256, a config.json "
                       "...")
    @click.option("--tokenizer", type=existing_directory, metavar="DIR",
                  help="Tokenizer for a fresh start.")
    @functools.wraps(function)
    def wrapper(*args: Any, model: Path | None, architecture: str | None, tokenizer: Path | None,
                config: RunConfig, **options: Any) -> Any:
        if model and architecture:
            raise click.UsageError("expected one of --model and --architecture")
        architecture = None if model else architecture or config.architecture
        if not (model or architecture):
            raise click.UsageError("expected one of --model and --architecture")
        if (model is None) != (tokenizer is not None):
            raise click.UsageError("--architecture and --tokenizer go together")
        return function(*args, origin=Origin(model, architecture, tokenizer), config=config,
                        **options)

    return wrapper  # type: ignore[return-value]
