"""The frame of `bmtools import`: what the commands of all formats share.

The function of a format gets the format's own options and returns its reader. The rest is the same
for every format: keys set by hand, the check of every record, duplicate ids, sentences, output.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import NamedTuple, TypeVar, get_args

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import (
    Command,
    Values,
    add_options,
    allows_empty,
    takes_abbreviations,
    takes_files,
    takes_rejects,
    takes_sets,
    writes_records,
)
from bmtools.cli.pass_options import Passes, takes_passes
from bmtools.cli.results import Closing, Line, finish, records_written, with_file
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import write_lines, write_stream
from bmtools.corpus.importing import (
    Account,
    Duplicates,
    FileWorker,
    ImportedRecords,
    Reader,
    RecordChanges,
    SetSeen,
    input_files,
    with_unique_ids,
)
from bmtools.corpus.overlap import describe_shared, part_of
from bmtools.errors import Reject
from bmtools.io.jsonl import refuse_empty
from bmtools.io.sources import STDIN
from bmtools.io.workers import ONE_WORKER

Content = TypeVar("Content")
_ESSENTIAL = "sentences lang duplicates output rejects resume workers"
_takes_account = click.option(
    "--account", "with_account", is_flag=True,
    help="Prove that every character of the text is in a record or in a class that is left out, "
         "and count them; each file is read twice.")


class Source(NamedTuple):
    """How the files of a text format are read; workers get the first two, pickled.

    Args:
        read: yields the records of a file.
        account: proves that the records of a file hold its text.
        shares_folders: whether workers share the files of a folder, which `read` gets as `folder`.
    """

    read: Reader
    account: Account | None = None
    shares_folders: bool = False


def _make_changes(_step: CommandStep, values: Values) -> None:
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


_takes_changes = partial(add_options, [
    click.option("--sentences", is_flag=True,
                 help="One record for every sentence, as ID-s1, ID-s2; needs a language."),
    takes_abbreviations,
    click.option("--lang", metavar="CODE", help="Set lang, as in ISO 639-1: it, en."),
    click.option("--source", metavar="TEXT", help="Set source."),
    click.option("--licence", metavar="TEXT", help="Set licence."),
    click.option("--duplicates", type=Choice(get_args(Duplicates)), default="refuse",
                 show_default=True, help="What to do with a record whose id came before."),
    allows_empty, takes_rejects, writes_records], _make_changes)


def imports(make_reader: Callable[..., Reader], folders: bool = False) -> Callable[..., None]:
    """Make a command of a function that returns the reader of annotated sets.

    Args:
        make_reader: the function; gets the options of the format.
        folders: whether files also come in folders and zip archives.
    """

    @(takes_sets if folders else takes_files)
    @_takes_changes
    @wraps(make_reader)
    def run(step: CommandStep, files: tuple[str, ...], changes: RecordChanges,
            duplicates: Duplicates, allow_empty: bool,
            reject: Reject, output: str, **options: object) -> None:
        names, counts = step.sources(files), Counter[str]()
        records = make_reader(**options)(names, counts=counts, reject=reject)
        records = with_unique_ids(changes.made(records, reject), duplicates, counts, reject)
        records = changes.split(records, counts, reject)
        seen = SetSeen()
        written = write_stream(step, seen.passing(_not_empty(records, names, allow_empty, counts)),
                               output, "importing")
        _close(step, written, counts, output, seen)

    return run


def imports_texts(make_source: Callable[..., Source], folders: bool = False,
                  has_account: bool = False) -> Callable[..., None]:
    """Make a command of a function that returns how texts are read, file by file.

    As `imports`, and files are shared among workers.

    Args:
        make_source: the function; gets the options of the format.
        folders: whether files also come in folders and zip archives.
        has_account: whether the command has `--account`; then the function gets `with_account`.
    """

    @(takes_sets if folders else takes_files)
    @(_takes_account if has_account else lambda function: function)
    @_takes_changes
    @takes_passes
    @wraps(make_source)
    def run(step: CommandStep, files: tuple[str, ...], changes: RecordChanges,
            duplicates: Duplicates, allow_empty: bool,
            reject: Reject, output: str, passes: Passes, with_account: bool = False,
            **options: object) -> None:
        names = step.sources(files)
        if STDIN in names:
            if with_account:
                raise click.UsageError("--account: found stdin, which cannot be read twice, "
                                       "expected files")
            passes = replace(passes, workers=ONE_WORKER)
        source = make_source(**options, **({"with_account": with_account} if has_account else {}))
        parts = list(input_files(names, source.shares_folders))
        seen = SetSeen()
        imported = ImportedRecords(duplicates, changes, seen)
        settings = {"format": step.context.command.name, "duplicates": duplicates,
                    **options, **changes.given, "sentences": changes.sentences,
                    **({"files": parts[-1].after} if source.shares_folders else {})}
        make_worker = partial(FileWorker, source.read, changes,
                              source.account if with_account else None)
        with passes.opened(output, {name: str(value) for name, value in settings.items()}) as run, \
                Path(os.devnull).open("wb") as nowhere:
            imported.resume(run)
            lines = run.lines(passes.of_files(parts), make_worker, reject, nowhere, "importing",
                              imported.amend)
            write_lines(step, _not_empty(lines, names, allow_empty, run.counts), output)
        if with_account:
            from bmtools.corpus.account import account_in_words

            click.echo(f"bmtools: {account_in_words(run.counts)}", err=True)
        _close(step, run.records, run.counts, output, seen)

    return run


def _close(step: CommandStep, written: int, counts: Counter[str], output: str,
           seen: SetSeen) -> None:
    finish(step, *closing(written, counts, output, seen.task, seen.parts, seen.overlaps()))


def _not_empty(found: Iterable[Content], names: Sequence[str], allow_empty: bool,
               counts: Counter[str]) -> Iterator[Content]:
    """Pass on records or lines, refuse sources without any, and say what was left out of them."""
    is_empty = True
    for one in found:
        is_empty = is_empty and not one
        yield one
    if is_empty:
        left_out = "; ".join(f"{name}: {count}" for name, count in counts.items() if count)
        refuse_empty(names, allow_empty, f"records ({left_out})" if left_out else "records")


def source_format(content: str, options: str, *examples: str, folders: bool = False,
                  archives: bool = False,
                  name: str = "") -> Callable[[Callable[..., None]], click.Command]:
    """Make the decorator of a format's function, whose module has the name of the format.

    Args:
        content: of its files, for help.
        options: its own, in the order of help.
        examples: arguments that run.
        folders: whether help says that files also come in folders and zip archives.
        archives: whether help says that they come in these and in tar archives.
        name: of the format; otherwise that of the function's module.
    """
    come = ", in folders, zip or tar archives" if archives else \
        ", in folders or zip archives" if folders else ""

    def make(function: Callable[..., None]) -> click.Command:
        called = name or function.__module__.rpartition(".")[2].replace("_", "-")
        is_text = any(param.name == "workers"
                      for param in getattr(function, "__click_params__", ()))
        return click.command(
            called, cls=Command, essential=f"{options} {_ESSENTIAL}" if is_text else "",
            examples=[f"bmtools import {called} {example}" for example in examples],
            groups={"Records": f"{options} sentences abbreviations duplicates",
                    "Keys of all records": "lang source licence"},
            meanings={"files": f"{content}, plain, .gz or .zst{come}; none or - means stdin.",
                      "output": "Write the records here; .gz and .zst compress."},
            topics="records")(function)

    return make


def closing(records: int, counts: Mapping[str, int], output: str, task: str = "",
                 parts: Mapping[str, tuple[int, str]] | None = None,
                 overlaps: Sequence[Line] = ()) -> Closing:
    """Close `import`.

    Args:
        records: how many were written.
        counts: what was repaired or left out.
        output: file of the records.
        task: whose examples they are; empty for plain text.
        parts: parts of a set that are in one now, with their records and paths.
        overlaps: what parts share.
    """
    facts = [records_written(records, counts, output)]
    if parts:
        sizes = " and ".join(f"{count:,} of {name}" for name, (count, _) in parts.items())
        _, path = next(iter(parts.values()))
        facts.append(f"mixed, {sizes}: name one alone, as {shlex.quote(path)}")
    facts += [shared for line in overlaps if (shared := describe_shared([line]))]
    return "; ".join(facts), "" if parts else with_file(_next_after(task, output), output)


def _next_after(task: str, output: str) -> str:
    """Choose what comes after `import` by what was imported, and by the name of its file."""
    if task in ("", "mrr"):
        return "score-mrr {} --model CKPT" if task else "build-vocab {} -o vocabulary"
    part, _ = part_of(Path(output).name)
    files = {"train": "--train {} --dev FILE", "dev": "--train FILE --dev {}",
             "test": "--train FILE --dev FILE --test {}"}
    return f"finetune {task} --model CKPT {files[part]} -o model" if part else "split {} -o parts"
