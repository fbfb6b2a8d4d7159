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
@writes_file("--dropped", "Write duplicates here; meta.dropped contains the id of the record kept "
                          "and the similarity.")
@click.option("--against", multiple=True, metavar="FILE", type=input_file,
              help="Leave out duplicates of the records in this file; may be repeated.")
@takes_settings(DedupConfig, "config")
@takes_passes
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str,
            dropped: str | None, against: tuple[str, ...], config: DedupConfig,
            passes: Passes) -> None:
    """Remove exact and near duplicates of records, compared by text.

    Near duplicates share runs of words: their Jaccard index is estimated from MinHash signatures
    and is at least the threshold. Duplicates of duplicates form one group, and its first record
    is kept. With --no-chains, only records similar to a kept record are left out. Kept lines are
    copied unchanged. Input is read twice; a pipe is first copied to a temporary file. With --part,
    the complete input is still compared.
    """
    from bmtools.corpus.duplicates.dedup import deduplicate

    with passes.opened(output, {**asdict(config), "against": list(against)}) as run, \
            deduplicate(records, run, config, against) as found, \
            open_if_named(dropped) as stream:
        write_lines(step, found.write(run, stream), output)
    kept, exact, near = (run.counts.get(name, 0) for name in (
        "kept", "exact-duplicate", "near-duplicate"))
    least = f" (minimum similarity to the record kept: {found.similarity.min():.2f})" \
        if near else ""
    finish(step, f"{kept:,} of {count_of(kept + exact + near, 'records')}{to_output(output)}; left "
           f"out {exact:,} exact and {count_of(near, 'near duplicates')}{least}")
