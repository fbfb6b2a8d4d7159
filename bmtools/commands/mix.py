"""`bmtools mix`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.options import Command, named_paths, takes_rejects, usage_errors, writes_records
from bmtools.cli.parameters import NamedInput
from bmtools.cli.pass_options import require_files
from bmtools.cli.results import finish, to_output
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import write_lines
from bmtools.corpus.sampling.settings import MixConfig
from bmtools.errors import Reject, count_of
from bmtools.io.sources import STDIN, source_stem
from bmtools.io.workers import Workers
from bmtools.status import counted
from bmtools.values import format_figure


@click.command("mix", cls=Command, examples=(
    "bmtools mix --corpus old=corpus.jsonl --corpus new=notes.jsonl --weights old=0.3,new=0.7",
    "bmtools mix --corpus corpus.jsonl --corpus notes.jsonl -o all.jsonl"), topics="records")
@click.option("--corpus", "files", multiple=True, required=True, metavar="[NAME=]PATH",
              type=NamedInput(),
              help="A file of records, optionally with another name; repeat it.")
@takes_rejects
@takes_settings(MixConfig, "config")
@takes_settings(Workers, "workers")
@writes_records("the records")
def command(step: CommandStep, files: tuple[str, ...], reject: Reject, config: MixConfig,
            workers: Workers, output: str) -> None:
    """Mix corpora into one by weights, and shuffle it.

    Records are chosen as in sample, and their order is also a hash of id and seed, so it does not
    depend on the order of the files. Text is counted in bytes of UTF-8, including titles. Each
    corpus is read twice, and the mixture is stored in temporary files before it is written.
    """
    paths = named_paths("--corpus", files, "a file of records", source_stem, _is_source)
    with usage_errors():
        require_files(workers, paths.values())
        config.parts(dict.fromkeys(paths, 1))
    from bmtools.corpus.sampling.mix import opened_mixture

    with opened_mixture(paths, config, reject, workers) as mixture:
        write_lines(step, counted(mixture.lines(), "writing"), output)
        whole = sum(part["megabytes"] for part in mixture.parts)
        facts = [f"{part['corpus']}: {count_of(part['records'], 'records')}, "
                 f"{format_figure('share', part['megabytes'] / whole)} of the text, "
                 f"{format_figure('', part['epochs'])} passes" for part in mixture.parts]
        finish(step, "; ".join(facts) + to_output(output))


def _is_source(path: str) -> bool:
    return path == STDIN or (Path(path).exists() and not Path(path).is_dir())
