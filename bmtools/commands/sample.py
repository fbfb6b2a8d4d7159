"""`bmtools sample`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from bmtools.cli.options import (
    Command,
    takes_files,
    takes_rejects,
    writes_file,
    writes_records,
)
from bmtools.cli.parameters import OutputDirectory
from bmtools.cli.pass_options import takes_workers
from bmtools.cli.results import Line, finish, print_results, to_output
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import open_if_named, write_lines
from bmtools.corpus.sampling.settings import SampleConfig
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import STDOUT
from bmtools.io.workers import Workers
from bmtools.values import format_figure

if TYPE_CHECKING:
    from bmtools.corpus.sampling.sample import Sample


@click.command("sample", cls=Command, examples=(
    "bmtools sample corpus.jsonl --share 0.1 -o tenth.jsonl",
    "bmtools sample corpus.jsonl --size 1kB,2kB,3kB --ladder ladder"), topics="records")
@takes_files
@takes_rejects
@writes_records("one sample")
@click.option("--ladder", type=OutputDirectory(), metavar="DIR",
              help="Directory to write, with one file for each of several sizes.")
@writes_file("--rest", "Write the other records here, for example to train on them.")
@takes_settings(SampleConfig, "config")
@takes_workers
def command(step: CommandStep, files: tuple[str, ...], reject: Reject, output: str,
            ladder: Path | None, rest: str | None, overwrite: bool,
            config: SampleConfig, workers: Workers) -> None:
    """Choose records at random by size, words, number or share.

    The order of choice is a hash of each record's id and the seed. So a sample contains every
    smaller sample, whatever the order of the files. Records keep the order of the input. A sample
    is the largest that does not exceed the requested size. Input is read twice; a pipe is first
    copied to a temporary file.
    """
    rungs = config.rungs()
    if ladder is None and len(rungs) > 1:
        raise click.UsageError(f"found {len(rungs)} samples, expected --ladder DIR for their files")
    if ladder is not None and output != STDOUT:
        raise click.UsageError("found --output and --ladder, expected one of them")
    if ladder is not None and rest is not None:
        raise click.UsageError("found --ladder and --rest, expected --rest with a single sample")
    from bmtools.corpus.sampling.sample import opened_sample, write_ladder

    records = RecordReader(step.sources(files), reject)
    if ladder is not None:
        [line] = print_results(step, [write_ladder(records, ladder, config, workers=workers,
                                                   overwrite=overwrite, step=step)])
        finish(step, closing(line["samples"], line["output"]))
        return
    with opened_sample(records, config, workers) as chosen, open_if_named(rest) as others:
        write_lines(step, _without_rest(chosen, others), output)
        finish(step, closing(chosen.rungs, output))


def _without_rest(chosen: Sample, others: IO[bytes] | None) -> Iterator[bytes]:
    """Yield the sample's lines, and write the other lines to a second file."""
    from bmtools.corpus.sampling.sample import REST

    for level, line in chosen.lines(others is not None):
        if level < REST:
            yield line
        elif others is not None:
            others.write(line)


def closing(rungs: Sequence[Line], output: str) -> str:
    """Return the closing line of `sample`."""
    facts = [f"{rung['sample']}: {count_of(rung['records'], 'records')}, "
             f"{format_figure('', rung['megabytes'])} MB of text" for rung in rungs]
    return "; ".join(facts) + to_output(output)
