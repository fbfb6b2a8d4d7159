"""The frame of `bmtools import`: what the commands of all formats share."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from bmtools.cli.closing import after_import
from bmtools.cli.help import Choice, Group
from bmtools.cli.options import (
    Command,
    allows_empty,
    input_file,
    sources,
    takes_abbreviations,
    takes_files,
    takes_rejects,
    takes_sets,
    writes_records,
)
from bmtools.cli.results import finish, write_stream
from bmtools.corpus.duplicates import Duplicates, with_unique_ids
from bmtools.corpus.overlap import Overlap, SetSeen, keys_of
from bmtools.errors import RecordError, Reject
from bmtools.io.jsonl import STDIN, RecordReader, refuse_empty, source_name
from bmtools.io.output import STDOUT
from bmtools.records import Record, check

Reader = Callable[..., Iterator[Record]]
Account = Callable[..., Iterator[Record]]
takes_account = click.option(
    "--account", "with_account", is_flag=True,
    help="Prove that every character of the text is in a record or in a class that is left out, "
         "and count them; each file is read twice.")


@click.group("import", cls=Group, examples=(
    "bmtools import text notes.txt --lang it -o notes.jsonl",
    "bmtools import pubmed pubmed.xml.gz | bmtools build-vocab --allow-fewer -o words"))
def command() -> None:
    """Turn biomedical source formats into records.

    Name a format, then files; "-" or nothing means stdin, and gzip or zstd is undone. Records go
    to stdout as JSON Lines, omissions are counted on stderr. Sources without a single record are
    an error, unless --allow-empty is given.
    """


def imports(read: Reader, takes: Callable[..., Any] = takes_files,
            account: Account | None = None) -> Callable[..., None]:
    """Make a command of a function that yields records.

    It gets `files`, `counts` and `reject` beside its own options. The rest is the same for every
    format: keys set by hand, the check of every record, duplicate ids, sentences, output.

    Args:
        read: the function.
        takes: adds the argument FILES.
        account: proves that the records of a source hold its text; adds `--account`.
    """

    @takes
    @(takes_account if account else lambda function: function)
    @click.option("--sentences", is_flag=True,
                  help="One record for every sentence, as ID-s1, ID-s2; needs a language.")
    @takes_abbreviations
    @click.option("--lang", metavar="CODE", help="Set lang, as in ISO 639-1: it, en.")
    @click.option("--source", metavar="TEXT", help="Set source.")
    @click.option("--licence", metavar="TEXT", help="Set licence.")
    @click.option("--duplicates", type=Choice(get_args(Duplicates)),
                  default="refuse", show_default=True,
                  help="What to do with a record whose id came before.")
    @click.option("--check-against", multiple=True, type=input_file, metavar="FILE",
                  help="Records of another part of the set, as train.jsonl: count what both share. "
                       "May be given again.")
    @allows_empty
    @takes_rejects
    @writes_records
    @functools.wraps(read)
    def run(files: tuple[str, ...], sentences: bool, abbreviations: Path | None,
            lang: str | None, source: str | None, licence: str | None, duplicates: Duplicates,
            check_against: tuple[str, ...], allow_empty: bool, reject: Reject, output: str,
            with_account: bool = False, **options: Any) -> None:
        if abbreviations and not sentences:
            raise click.UsageError("--abbreviations: expected --sentences beside it")
        counts: Counter[str] = Counter()
        keys = {"lang": lang, "source": source, "licence": licence}
        given = {key: value for key, value in keys.items() if value is not None}
        names = sources(files)
        counted_read = functools.partial(read, counts=counts, reject=reject, **options)
        records = _accounted(counted_read, account, names, counts, options) \
            if account and with_account else counted_read(files=names)
        records = _checked((record.replace(**given) for record in records), reject)
        records = with_unique_ids(records, duplicates, counts, reject)
        if sentences:
            from bmtools.corpus.sentences import sentence_records
            from bmtools.search.abbreviations import read_abbreviations

            more = read_abbreviations(abbreviations) if abbreviations else None
            records = sentence_records(records, counts, reject, more)
        records = _not_empty(records, names, allow_empty, counts)
        seen = SetSeen(_other_part(name, output) for name in check_against)
        written = write_stream(seen.passing(records), output, "importing")
        if with_account:
            from bmtools.corpus.account import account_in_words

            click.echo(f"bmtools: {account_in_words(counts)}", err=True)
        finish(*after_import(written, counts, output, seen.task, seen.parts, seen.overlaps()))

    return run


imports_folders = functools.partial(imports, takes=takes_sets)
"""Do the same for formats of many files, which also come as folders and zip archives."""


def _accounted(read: Reader, account: Account, names: Sequence[str], counts: Counter[str],
               options: Mapping[str, Any]) -> Iterator[Record]:
    """Read source by source, as an account is of one, and each is read twice."""
    if STDIN in names:
        raise click.UsageError("--account: found stdin, which cannot be read twice, expected files")
    for name in names:
        yield from account(read(files=(name,)), name, counts, **options)


def _other_part(name: str, output: str) -> Overlap:
    return Overlap("this part" if output == STDOUT else output, source_name(name),
                   map(keys_of, RecordReader([name])))


def _totals(counts: Counter[str]) -> list[str]:
    return [f"{name}: {count}" for name, count in counts.items() if count]


def _not_empty(records: Iterator[Record], names: Sequence[str], allow_empty: bool,
               counts: Counter[str]) -> Iterator[Record]:
    """Refuse sources without a record at their end, and say what was left out of them."""
    is_empty = True
    for record in records:
        is_empty = False
        yield record
    if is_empty:
        left_out = "; ".join(_totals(counts))
        refuse_empty(names, allow_empty, f"records ({left_out})" if left_out else "records")


def _checked(records: Iterator[Record], reject: Reject) -> Iterator[Record]:
    for record in records:
        try:
            check(record)
        except RecordError as error:
            reject(error)
            continue
        yield record


def source_format(name: str, content: str, options: str,
                  *examples: str, folders: bool = False,
                  archives: bool = False) -> Callable[..., click.Command]:
    """Make the decorator of a format's function.

    Args:
        name: of the format.
        content: of its files, for help.
        options: its own, in the order of help.
        examples: arguments that run.
        folders: whether the files also come in folders and zip archives.
        archives: whether they come in these and in tar archives.
    """
    come = ", in folders, zip or tar archives" if archives else \
        ", in folders or zip archives" if folders else ""
    return command.command(
        name, cls=Command, examples=[f"bmtools import {name} {example}" for example in examples],
        groups={"Records": f"{options} sentences abbreviations duplicates check-against",
                "Keys of all records": "lang source licence"},
        meanings={"files": f"{content}, plain, .gz or .zst{come}; none or - means stdin.",
                  "output": "Write the records here; .gz and .zst compress."}, topics="records")
