"""`bmtools score-masking`."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import click

from bmtools.cli.options import Command, existing_directory, reads_records, writes_records
from bmtools.cli.progress import tracked
from bmtools.cli.settings import takes_settings
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader, read_list, write_records
from bmtools.scoring.masked_lm_settings import MaskedLmLossConfig
from bmtools.scoring.settings import InferenceConfig, StatisticsConfig


@click.command("score-masking", cls=Command)
@reads_records
@click.option("--model", "models", type=existing_directory, multiple=True, required=True,
              metavar="CKPT", help="Checkpoint to score; repeat it to compare several.")
@writes_records
@takes_settings(MaskedLmLossConfig, "settings")
@click.option("--terms", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              metavar="FILE", help="Terms for --masking terms, one a line.")
@click.option("--by", multiple=True, metavar="KEY",
              help="Also score the records apart by this key; a dot reaches into objects.")
@takes_settings(StatisticsConfig, "statistics")
@takes_settings(InferenceConfig, "passes")
def command(records: RecordReader, reject: Reject, models: tuple[Path, ...], output: str,
            settings: MaskedLmLossConfig, terms: Path | None, by: tuple[str, ...],
            statistics: StatisticsConfig, passes: InferenceConfig) -> None:
    """Score checkpoints by what they restore under several ways of masking.

    Prints a JSON line for each checkpoint and each combination of --masking, --mask-rate and
    --corruption: the perplexity over hidden tokens, its interval and its spread over draws, the
    accuracy, what was hidden, and the loss of tokens that the model saw masked, replaced or as
    they are. Checkpoints that share a vocabulary meet the same masks.
    """
    _check_usage(settings, terms, passes)
    listed = [term for _, term in read_list(str(terms))] if terms else []
    from bmtools.scoring.checkpoint_predictor import load_predictor
    from bmtools.scoring.masked_lm_loss import MaskedLmLoss

    experiment = MaskedLmLoss([load_predictor(path, passes) for path in models], settings,
                              terms=listed, by=by, passes=passes, seed=statistics.seed)
    deque(tracked(experiment.run(records, reject), "scoring passes"), maxlen=0)
    write_records(experiment.lines(statistics), output)


def _check_usage(settings: MaskedLmLossConfig, terms: Path | None, passes: InferenceConfig) -> None:
    wanted = "terms" in settings.maskings()
    if wanted and terms is None:
        raise click.UsageError("--masking terms: found no terms, expected --terms FILE as well")
    if terms is not None and not wanted:
        raise click.UsageError("--terms: expected terms in --masking as well")
    if passes.precision == "int8":
        raise click.UsageError("--precision: found int8, expected float32 or bf16 or fp16 here")
