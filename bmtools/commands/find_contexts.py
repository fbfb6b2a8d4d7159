"""`bmtools find-contexts`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import Command, passes_records, writes_file
from bmtools.cli.parameters import InputFile, InputPath
from bmtools.cli.results import finish, to_output
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import write_stream
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import write_records
from bmtools.status import counted
from bmtools.text.settings import ContextConfig

_existing = InputPath(Path)


@click.command("find-contexts", cls=Command, examples=(
    "bmtools find-contexts corpus.jsonl --words terms.txt -o contexts.jsonl",
    "bmtools find-contexts corpus.jsonl --tokenizer vocabulary --base base -o contexts.jsonl"),
    next_command="init-weights {output} --base CKPT --tokenizer {tokenizer} -o initialised")
@passes_records("the sentences")
@click.option("--words", metavar="FILE",
              type=InputFile(),
              help="Words to search for, one per line; a word may have several parts (TNF-alpha).")
@click.option("--tokenizer", type=_existing, metavar="DIR",
              help="Tokenizer or checkpoint whose rule folds case and accents; without --words, "
                   "search for the words in its vocabulary.")
@click.option("--base", type=_existing, metavar="DIR",
              help="Tokenizer or checkpoint whose words are skipped.")
@click.option("--uncased", is_flag=True, help="Ignore case, if no --tokenizer is given.")
@takes_settings(ContextConfig, "config")
@click.option("--workers", type=click.IntRange(min=0), default=0, show_default=True,
              help="Number of processes that search; 0 means one per core.")
@writes_file("--report", "Write for each word its number of occurrences and of sampled "
             "sentences.")
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str,
            words: str | None, tokenizer: Path | None, base: Path | None, uncased: bool,
            config: ContextConfig, workers: int, report: str | None) -> None:
    """Sample sentences that contain new words, for init-weights.

    Each sentence is written once, with its sampled words and their first positions in it.
    """
    if not words and not tokenizer:
        raise click.UsageError("found no --words and no --tokenizer, expected one of them; it "
                               "determines the words to search for")
    if base and (words or not tokenizer):
        raise click.UsageError("--base: expected --tokenizer with it, and no --words")
    if uncased and tokenizer:
        raise click.UsageError("--uncased: --tokenizer already determines how case is folded; "
                               "remove one of them")
    from bmtools.text.find_contexts import find_contexts

    sample = find_contexts(records, words, config, tokenizer=tokenizer, base=base, uncased=uncased,
                           processes=workers,
                           progress=partial(counted, activity="searching", unit="megabytes"))
    sentences = write_stream(step, sample.sentences(), output, "writing", "sentences")
    if report:
        write_records(sample.report(), report)
    summary = sample.summary()
    missing = summary["words"] - summary["found"]
    finish(step, f"{summary['found']} of {count_of(summary['words'], 'words')} found, {missing} "
           f"not found; {count_of(summary['occurrences'], 'occurrences')}, "
           f"{count_of(sentences, 'sentences')} sampled{to_output(output)}")
