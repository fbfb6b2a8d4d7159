"""`bmtools score-masking`, which uses `bmtools.scoring.masked_lm_loss`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import Command, reads_records, takes_masked_terms, usage_errors
from bmtools.cli.results import finish, print_results, reports
from bmtools.cli.scoring_options import scoring_closing, takes_groups, takes_models
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.io.sources import read_list
from bmtools.models.checkpoint_files import check_length
from bmtools.scoring.settings import InferenceConfig, MaskedLmLossConfig
from bmtools.statistics.settings import StatisticsConfig
from bmtools.status import counted


@click.command("score-masking", cls=Command, examples=(
    "bmtools score-masking notes.jsonl --model model",
    "bmtools score-masking notes.jsonl --model model --masking words,spans "
    "--mask-rate 0.15,0.4"),
    essential="model masking mask-rate corruption repeats max-length terms by output device",
    topics="masking devices", next_command="table {output}")
@reads_records
@takes_models
@reports("the scores")
@takes_settings(MaskedLmLossConfig, "config")
@takes_masked_terms
@takes_groups
@takes_settings(StatisticsConfig, "statistics")
@takes_settings(InferenceConfig, "inference")
def command(step: CommandStep, records: RecordReader, reject: Reject, models: tuple[Path, ...],
            output: str, config: MaskedLmLossConfig, terms: Path | None, by: tuple[str, ...],
            statistics: StatisticsConfig, inference: InferenceConfig) -> None:
    """Score checkpoints by how well they restore masked tokens.

    Prints a JSON line for each checkpoint and each combination of --masking, --mask-rate and
    --corruption: the perplexity over masked tokens, its interval over documents and its spread
    over draws, the accuracy, and the share that was masked. Checkpoints with the same vocabulary
    get the same masks. For each pair of them and each combination, a line has the difference.
    """
    with usage_errors():
        config.check_usage(terms is not None)
    for model in models:
        check_length(config.max_length, model)
    term_list = [term for _, term in read_list(str(terms))] if terms else []
    from bmtools.scoring.masked_lm_loss import masked_lm_loss

    lines = masked_lm_loss(
        records, models, terms=term_list, by=by, reject=reject,
        progress=partial(counted, activity="scoring", unit="passes"),
        **asdict(config), **asdict(statistics), **asdict(inference))
    print_results(step, lines, output)
    finish(step, scoring_closing(lines, "perplexity", "masked_tokens"))
