"""`bmtools score-space`, by `bmtools.scoring.embedding_space`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import Command, reads_records, writes_plot
from bmtools.cli.results import finish, print_results, reports
from bmtools.cli.scoring_options import scoring_closing, takes_models
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.scoring.settings import EmbeddingSpaceConfig, InferenceConfig
from bmtools.status import counted


@click.command("score-space", cls=Command, examples=(
    "bmtools score-space corpus.jsonl --model base --model model --bands 2 "
    "--set words_per_band=6",
    "bmtools score-space corpus.jsonl --model model --bands 2 --set words_per_band=6 "
    "--set single_token_words=true"),
    essential="model bands occurrences layers plot output",
    topics="devices", next_command="table {output}")
@reads_records
@takes_models
@takes_settings(EmbeddingSpaceConfig, "config")
@takes_settings(InferenceConfig, "inference", without=("workers",))
@writes_plot("the words of each model")
@reports("the scores")
def command(step: CommandStep, records: RecordReader, reject: Reject, models: tuple[Path, ...],
            config: EmbeddingSpaceConfig, inference: InferenceConfig, plot: Path | None,
            output: str) -> None:
    """Score the spread of words in embedding space and the separation of rare words.

    Words are runs of letters in any case. The same number is sampled from each frequency band, and
    all models read the same occurrences of each word. Prints a JSON line per checkpoint:

    \b
    average_cosine       between occurrences of different words: 0 isotropic,
                         1 identical
    partition_isotropy   1 isotropic, 0 not at all
    self_similarity      mean cosine between occurrences of one word; adjusted:
                         minus average_cosine
    own_band_neighbours  share of a word's nearest words that are in its band,
                         to compare with chance_neighbours
    silhouette           of bands, -1 to 1

    with 95 % intervals over words, the change from the first checkpoint, the same by band, and a
    signature.
    """
    from bmtools.scoring.embedding_space import EmbeddingSpace, embedding_space

    spaces: list[EmbeddingSpace] = []
    lines = print_results(step, embedding_space(
        records, models, progress=partial(counted, activity="reading"), on_space=spaces.append,
        **asdict(config), **asdict(inference)), output)
    if plot is not None:
        from bmtools.study.reports.report import plot_lines
        from bmtools.study.reports.space_plot import space_charts

        plot_lines(lines, plot, space_charts([line["model"] for line in lines], spaces, config))
    finish(step, scoring_closing(lines, "average_cosine", "words"))
