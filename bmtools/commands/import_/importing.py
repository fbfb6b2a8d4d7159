"""The frame of `bmtools import`: what the commands of all formats share."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from bmtools.cli.closing import after_import
from bmtools.cli.help import Choice, Group
from bmtools.cli.options import (
    Command,
    add_options,
    allows_empty,
    input_file,
    sources,
    takes_abbreviations,
    takes_files,
    takes_rejects,
    takes_sets,
    writes_records,
)
from bmtools.cli.pass_options import Passes, takes_passes
from bmtools.cli.results import finish, write_lines, write_stream
from bmtools.corpus.duplicates import Duplicates, with_unique_ids
from bmtools.corpus.importing import RecordChanges
from bmtools.corpus.overlap import Overlap, SetSeen, keys_of
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader, refuse_empty
from bmtools.io.output import STDOUT
from bmtools.io.sources import STDIN, source_name
from bmtools.io.workers import ONE_WORKER
from bmtools.records import Record

Reader = Callable[..., Iterator[Record]]
Account = Callable[..., Iterator[Record]]
Plan = Callable[..., Iterable[tuple[str, Mapping[str, Any]]]]
takes_account = click.option(
    "--account", "with_account", is_flag=True,
    help="Prove that every character of the text is in a record or in a class that is left out, "
         "and count them; each file is read twice.")


_ESSENTIAL = "sentences lang duplicates output rejects resume jobs"
_READERS: dict[tuple[str, str], tuple[Reader, Account | None]] = {}


def _make_changes(values: dict[str, Any]) -> None:
    path, sentences = values.pop("abbreviations"), values.pop("sentences")
    if path and not sentences:
        raise click.UsageError("--abbreviations: expected --sentences beside it")
    from bmtools.text.abbreviations import read_abbreviations

    given = {key: values.pop(key) for key in ("lang", "source", "licence")}
    if given["lang"] and not re.fullmatch(r"[A-Za-z]{2,3}([-_]\w+)*", given["lang"]):
        raise click.UsageError(f"--lang: found {given['lang']!r}, expected a code of ISO 639, such "
                               "as it, en or pt-BR")
    values["changes"] = RecordChanges(
        {key: value for key, value in given.items() if value is not None}, sentences,
        read_abbreviations(path) if path else None)


_takes_changes = functools.partial(add_options, [
    click.option("--sentences", is_flag=True,
                 help="One record for every sentence, as ID-s1, ID-s2; needs a language."),
    takes_abbreviations,
    click.option("--lang", metavar="CODE", help="Set lang, as in ISO 639-1: it, en."),
    click.option("--source", metavar="TEXT", help="Set source."),
    click.option("--licence", metavar="TEXT", help="Set licence."),
    click.option("--duplicates", type=Choice(get_args(Duplicates)), default="refuse",
                 show_default=True, help="What to do with a record whose id came before."),
    click.option("--check-against", multiple=True, type=input_file, metavar="FILE",
                 help="Records of another part of the set, as train.jsonl: count what both share. "
                      "May be given again."),
    allows_empty, takes_rejects, writes_records], _make_changes)


@click.group("import", cls=Group, examples=(
    "bmtools import text notes.txt --lang it -o notes.jsonl",
    "bmtools import pubmed pubmed.xml.gz | bmtools build-vocab --allow-fewer -o words"))
def command() -> None:
    """Turn biomedical source formats into records.

    Name a format, then files; "-" or nothing means stdin, and gzip or zstd is undone. Records go
    to stdout as JSON Lines, omissions are counted on stderr. Sources without a single record are
    an error, unless --allow-empty is given.
    """


def imports(read: Reader, takes: Callable[..., Any] = takes_files) -> Callable[..., None]:
    """Make a command of a function that yields the records of annotated sets.

    It gets `files`, `counts` and `reject` beside its own options. The rest is the same for every
    format: keys set by hand, the check of every record, duplicate ids, sentences, output.

    Args:
        read: the function.
        takes: adds the argument FILES.
    """

    @takes
    @_takes_changes
    @functools.wraps(read)
    def run(files: tuple[str, ...], changes: RecordChanges, duplicates: Duplicates,
            check_against: tuple[str, ...], allow_empty: bool, reject: Reject, output: str,
            **options: Any) -> None:
        counts: Counter[str] = Counter()
        names = sources(files)
        records = read(files=names, counts=counts, reject=reject, **options)
        records = changes.made(records, reject)
        records = with_unique_ids(records, duplicates, counts, reject)
        if changes.sentences:
            from bmtools.text.sentences import sentence_records

            records = sentence_records(records, counts, reject, changes.abbreviations)
        records = _not_empty(records, names, allow_empty, counts)
        seen = SetSeen(_other_part(name, output) for name in check_against)
        written = write_stream(seen.passing(records), output, "importing")
        finish(*after_import(written, counts, output, seen.task, seen.parts, seen.overlaps()))

    return run


def imports_texts(read: Reader, takes: Callable[..., Any] = takes_files,
                  account: Account | None = None, plan: Plan | None = None) -> Callable[..., None]:
    """Make a command of a function that yields the records of texts, file by file.

    As `imports`, and files are shared among workers: the function is called for one at a time.

    Args:
        read: the function; at the top of its module, which workers import.
        takes: adds the argument FILES.
        account: proves that the records of a file hold its text; adds `--account`.
        plan: says which files are read, in which order and with which further options, where that
            depends on all of them; gets names, the number of jobs and options.
    """
    _READERS[read.__module__, read.__name__] = read, account

    @takes
    @(takes_account if account else lambda function: function)
    @_takes_changes
    @takes_passes
    @functools.wraps(read)
    def run(files: tuple[str, ...], changes: RecordChanges, duplicates: Duplicates,
            check_against: tuple[str, ...], allow_empty: bool, reject: Reject, output: str,
            passes: Passes, with_account: bool = False, **options: Any) -> None:
        from bmtools.corpus.importing import FileWorker, ImportedRecords, input_files

        names = sources(files)
        if STDIN in names:
            if with_account:
                raise click.UsageError("--account: found stdin, which cannot be read twice, "
                                       "expected files")
            passes = replace(passes, workers=ONE_WORKER)
        planned = plan(names, passes.workers.jobs, **options) if plan else (
            (name, {}) for name in names)
        parts = list(input_files(planned))
        find_reader = functools.partial(_find_reader, read.__module__, read.__name__, with_account)
        seen = SetSeen(_other_part(name, output) for name in check_against)
        imported = ImportedRecords(duplicates, changes, seen)
        settings = {"format": read.__name__, "duplicates": duplicates, **options,
                    **changes.given, "sentences": changes.sentences,
                    **({"files": parts[-1].after} if plan else {})}
        with passes.opened(output, {name: str(value) for name, value in settings.items()}) as run, \
                Path(os.devnull).open("wb") as nowhere:
            imported.resume(run)
            lines = run.lines(passes.of_files(parts),
                              functools.partial(FileWorker, find_reader, options, changes), reject,
                              nowhere, "importing", imported.amend)
            write_lines(_not_empty(lines, names, allow_empty, run.counts), output)
        if with_account:
            from bmtools.corpus.account import account_in_words

            click.echo(f"bmtools: {account_in_words(run.counts)}", err=True)
        finish(*after_import(run.records, run.counts, output, seen.task, seen.parts,
                             seen.overlaps()))

    return run


imports_folders = functools.partial(imports, takes=takes_sets)
"""Do the same for formats of many files, which also come as folders and zip archives."""


def _find_reader(module: str, name: str, with_account: bool) -> Reader:
    """Find the function of a format in any process, which then yields the records of a file."""
    importlib.import_module(module)
    read, account = _READERS[module, name]

    def read_file(file: str, counts: Counter[str], **options: Any) -> Iterator[Record]:
        records = read(files=(file,), counts=counts, **options)
        if account and with_account:
            own = {name: value for name, value in options.items() if name != "reject"}
            return account(records, file, counts, **own)
        return records

    return read_file


def _other_part(name: str, output: str) -> Overlap:
    return Overlap("this part" if output == STDOUT else output, source_name(name),
                   map(keys_of, RecordReader([name])))


def _not_empty(found: Iterable[Any], names: Sequence[str], allow_empty: bool,
               counts: Counter[str]) -> Iterator[Any]:
    """Pass on records or lines, refuse sources without any, and say what was left out of them."""
    is_empty = True
    for one in found:
        is_empty = is_empty and not one
        yield one
    if is_empty:
        left_out = "; ".join(f"{name}: {count}" for name, count in counts.items() if count)
        refuse_empty(names, allow_empty, f"records ({left_out})" if left_out else "records")


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
    decorate = functools.partial(
        command.command, name, cls=Command,
        examples=[f"bmtools import {name} {example}" for example in examples],
        groups={"Records": f"{options} sentences abbreviations duplicates check-against",
                "Keys of all records": "lang source licence"},
        meanings={"files": f"{content}, plain, .gz or .zst{come}; none or - means stdin.",
                  "output": "Write the records here; .gz and .zst compress."}, topics="records")

    def add(function: Any) -> click.Command:
        is_text = any(param.name == "jobs" for param in function.__click_params__)
        return decorate(essential=f"{options} {_ESSENTIAL}" if is_text else "")(function)

    return add
