"""`bmtools score-translation`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Command, takes_rejects, usage_errors
from bmtools.cli.parameters import InputFile, InputRecords
from bmtools.cli.results import finish, print_results, reports
from bmtools.cli.settings import takes_values
from bmtools.cli.step import CommandStep
from bmtools.errors import Reject, count_of
from bmtools.installation import require_extra
from bmtools.io.sources import STDIN
from bmtools.translation.settings import QualityConfig
from bmtools.values import format_estimate


@click.command("score-translation", cls=Command, examples=(
    "bmtools score-translation translated.jsonl italian.jsonl",
    "bmtools score-translation translated.jsonl italian.jsonl english.jsonl "
    "--glossary terms.tsv --baseline earlier.jsonl"),
    topics="records", next_command="table {output}")
@click.argument("hypotheses", type=InputRecords())
@click.argument("references", type=InputRecords(), default=STDIN)
@click.argument("sources", type=InputRecords(), required=False)
@takes_rejects
@click.option("--baseline", type=InputRecords(), metavar="FILE",
              help="Other translations of the same texts, to compare with.")
@click.option("--glossary", type=InputFile(Path, allow_dash=False),
              metavar="FILE", help="TSV or TMX file of terms and their translations; counts the "
                                   "terms kept. Needs SOURCES.")
@reports("the scores")
@takes_values(QualityConfig)
def command(step: CommandStep, hypotheses: str, references: str, sources: str | None,
            reject: Reject, output: str, **options: Any) -> None:
    """Score translations against references.

    HYPOTHESES, REFERENCES (stdin by default) and SOURCES are records with the same ids. Prints a
    JSON line: chrF, BLEU and TER by sacrebleu with its signatures and 95 % intervals, and the
    ratio of lengths. With SOURCES, the line also has the shares of numbers and terms kept, and the
    number of translations that each check of translate flags. With --baseline, its line comes
    first, and a line with the difference and p-values of the paired bootstrap comes last.
    """
    require_extra("sacrebleu", "score-translation", "translation")
    from bmtools.translation.score_translation import score_translation

    with usage_errors():
        if [hypotheses, references, sources, options["baseline"]].count(STDIN) > 1:
            raise click.UsageError("found stdin more than once; read only one file from stdin")
        lines = score_translation(hypotheses, references, sources, reject=reject, **options)
    print_results(step, lines, output)
    best = max((line for line in lines if "chrf" in line), key=lambda line: line["chrf"])
    score = format_estimate("chrf", best["chrf"], best["intervals"]["chrf"])
    finish(step, f"{best['model']} has chrF {score} over {count_of(best['segments'], 'segments')}")
