"""`bmtools dedup`."""

from __future__ import annotations

from dataclasses import asdict

import click

from bmtools.cli.options import Command, input_file, passes_records, writes_file
from bmtools.cli.pass_options import Passes, takes_passes
from bmtools.cli.results import finish, to_output
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import open_if_named, write_lines
from bmtools.corpus.duplicates.settings import DedupConfig
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader


@click.command("dedup", cls=Command, examples=(
    "bmtools dedup corpus.jsonl --dropped duplicates.jsonl -o distinct.jsonl",
    "bmtools dedup corpus.jsonl --against english.jsonl -o distinct.jsonl"),
    essential="duplicates threshold ngram-words against dropped output workers resume",
    topics="records", next_command="build-vocab {output} --allow-fewer -o vocabulary")
@passes_records()
@writes_file("--dropped", "Collect duplicates here; meta.dropped has the id that stays in their "
                          "place and the similarity.")
@click.option("--against", multiple=True, metavar="FILE", type=input_file,
              help="Leave out duplicates of the records of this file; may be repeated.")
@takes_settings(DedupConfig, "config")
@takes_passes
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str,
            dropped: str | None, against: tuple[str, ...], config: DedupConfig,
            passes: Passes) -> None:
    """Leave out duplicates and near duplicates of records, by their texts.

    Near duplicates share runs of words: their Jaccard index is estimated from MinHash signatures
    and is at least the threshold. Duplicates of duplicates are one group, of which the first record
    stays; with --no-chains, only what is similar to that record is left out. Lines that stay are
    copied as they are. Input is read twice; a pipe is kept in a temporary file meanwhile. With
    --part, too, all of it is compared.
    """
    from bmtools.corpus.duplicates.dedup import deduplicate

    with passes.opened(output, {**asdict(config), "against": list(against)}) as run, \
            deduplicate(records, run, config, against) as found, \
            open_if_named(dropped) as stream:
        write_lines(step, found.write(run, stream), output)
    kept, exact, near = (run.counts.get(name, 0) for name in (
        "kept", "exact-duplicate", "near-duplicate"))
    least = f" (least similarity to the record that stays: {found.similarity.min():.2f})" \
        if near else ""
    finish(step, f"{kept:,} of {count_of(kept + exact + near, 'records')}{to_output(output)}; left "
           f"out {exact:,} exact and {count_of(near, 'near duplicates')}{least}")
