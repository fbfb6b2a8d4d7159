"""`bmtools tokenize`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import Command, reads_records, tokenizer_directory, writes_directory
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.data.settings import ShardConfig
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.status import counted


@click.command("tokenize", cls=Command, examples=(
    "bmtools tokenize corpus.jsonl --tokenizer vocabulary -o shards",
    "bmtools tokenize corpus.jsonl --tokenizer model --sentences --lang it -o pairs"),
    meanings={"output": "Directory for the shards."},
    next_command="pretrain {output} --architecture bert-base --tokenizer {tokenizer} -o model")
@reads_records
@writes_directory
@click.option("--tokenizer", type=tokenizer_directory, required=True, metavar="DIR",
              help="Tokenizer, or checkpoint with a tokenizer.")
@takes_settings(ShardConfig, "settings")
@click.option("--workers", type=click.IntRange(min=0), default=0, show_default=True,
              help="Number of processes that encode; 0 means one per core.")
@click.option("--resume", is_flag=True, help="Continue an unfinished run, if there is one.")
@prints_results
def command(step: CommandStep, records: RecordReader, reject: Reject, output: Path, overwrite: bool,
            tokenizer: Path, settings: ShardConfig, workers: int, resume: bool) -> None:
    """Tokenize records once, into memory-mapped shards for pretrain and distill."""
    from bmtools.data.tokenize import check_shard_target, tokenize
    from bmtools.vocab.loading import load_tokenizer

    check_shard_target(output, resume, overwrite)
    manifest = tokenize(records, load_tokenizer(tokenizer), output, settings,
                        processes=workers, resume=resume, overwrite=overwrite,
                        watch=partial(counted, activity="encoding", unit="megabytes"),
                        step=step)
    [line] = print_results(step, [{"output": str(output), **manifest["results"],
                             "vocabulary": manifest["vocabulary"]}])
    finish(step, f"wrote {output}: {count_of(line['tokens'], 'tokens')} of "
           f"{count_of(line['documents'], 'documents')}")
