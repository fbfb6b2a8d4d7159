"""`bmtools init-weights`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from bmtools.cli.closing import after_comparing_inits, after_init_weights
from bmtools.cli.options import (
    Command,
    masked_lm_directory,
    reads_records,
    takes_overwrite,
    tokenizer_directory,
)
from bmtools.cli.outputs import OutputDirectory
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.tables import print_table
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.models.settings import (
    CompareConfig,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.status import counted

_COLUMNS = ("start.loss", "start.new_loss", "start.old_loss", "probe.loss", "probe.new_loss",
            "probe.old_loss", "seconds")
_NEAREST = 3


@click.command("init-weights", cls=Command, examples=(
    "bmtools init-weights corpus.jsonl --base base --tokenizer vocabulary -o start",
    "bmtools init-weights corpus.jsonl --base base --tokenizer vocabulary "
    "--compare average,contextual --probe-steps 10"),
    essential="base tokenizer output overwrite method compare layers max-sentences rescale "
              "held-out",
    groups={"Models": "base tokenizer output overwrite",
            "Embeddings of new tokens": "method average-of layers rescale max-sentences "
                                        "max-positions lang batch-tokens seed",
            "Comparison of methods": "compare held-out held-out-ratio probe-steps "
                                     "probe-learning-rate probe-batch-size probe-max-length "
                                     "sample-tokens"},
    meanings={"output": "Directory for the checkpoint; required without --compare."})
@reads_records
@click.option("-o", "--output", type=OutputDirectory(), metavar="DIR",
              help="Directory to write; required without --compare.")
@takes_overwrite
@click.option("--base", type=masked_lm_directory, required=True, metavar="CKPT",
              help="Checkpoint whose weights are kept.")
@click.option("--tokenizer", type=tokenizer_directory, required=True, metavar="DIR",
              help="The new vocabulary.")
@click.option("--lang", default="en", show_default=True,
              help="Language of records without one; sentences are split by it.")
@takes_settings(TransferConfig, "settings")
@takes_settings(FocusConfig, "focus")
@takes_settings(TokenDistillationConfig, "distil")
@takes_settings(CompareConfig, "compare")
@click.option("--held-out", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="Records on which --compare evaluates; without it, a share of the input.")
@prints_results
def command(records: RecordReader, reject: Reject, output: Path | None, overwrite: bool,
            base: Path, tokenizer: Path, lang: str, settings: TransferConfig,
            focus: FocusConfig, distil: TokenDistillationConfig, compare: CompareConfig,
            held_out: str | None) -> None:
    """Give a checkpoint a new vocabulary and its tokens a head start.

    Methods random and average read no records. Records with the key "targets", as "bmtools
    find-contexts" writes them, are sentences already, with the words of them to use.

    --compare tries methods and writes no checkpoint: it prints a JSON line for each with the loss
    on held-out text before and after a short pretraining run, and with the nearest old tokens of
    some new ones.
    """
    if compare.methods():
        if output is not None:
            raise click.UsageError("found both --compare, which writes no checkpoint, and -o; "
                                   "compare first, then write with --method")
        from bmtools.training.init_comparison import compare_inits

        lines = compare_inits(
            base, tokenizer, counted(records, "reading"), compare,
            held_out=RecordReader([held_out], reject) if held_out else None, lang=lang,
            transfer=settings, focus=focus, distil=distil, reject=reject)
        finish(*after_comparing_inits(print_results(lines, print_tables=_print_tables)))
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    from bmtools.models.init_weights import init_weights

    transferred = init_weights(
        base, tokenizer, records, output, lang=lang, overwrite=overwrite, reject=reject,
        progress=partial(counted, activity="sampling contexts"),
        **asdict(settings), **asdict(focus), **asdict(distil))
    [line] = print_results([
        {"checkpoint": str(output), "method": settings.method, **transferred.report}])
    finish(*after_init_weights(line))


def _print_tables(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print losses and neighbours."""
    from bmtools.scoring.table import gather_rows, get_nested

    columns = tuple(name for name in _COLUMNS if any(get_nested(line, name) is not None
                                                     for line in lines))
    print_table(("method", *columns), gather_rows(lines, "method", columns),
                "Nats per masked token of held-out text")
    methods = [line["method"] for line in lines]
    nearest = ((tokens[0]["token"], *(" ".join(one["neighbours"][:_NEAREST]) for one in tokens))
               for tokens in zip(*(line["neighbours"] for line in lines), strict=True))
    print_table(("new token", *methods), nearest, "Nearest old tokens",
                text_columns=1 + len(methods))
