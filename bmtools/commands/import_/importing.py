"""The frame of `bmtools import`: code that the commands of all formats share.

A format names its reader, whose arguments are the format's own options. The rest is the same for
every format: keys set by the user, the check of every record, duplicate ids, sentences, output.
"""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from bmtools.cli.help import Choice, KeyOption, long_name
from bmtools.cli.options import (
    Command,
    Values,
    add_options,
    allows_empty,
    takes_abbreviations,
    takes_files,
    takes_rejects,
    takes_sets,
    usage_errors,
    writes_records,
)
from bmtools.cli.pass_options import Passes, takes_passes
from bmtools.cli.results import finish, records_written
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.cli.writing import FEWEST_DOCUMENTS, noting_documents, write_lines, write_stream
from bmtools.corpus.check_data import entity_faults
from bmtools.corpus.formats.tally import LOST, MATCHED, MOVED
from bmtools.corpus.importing import (
    Duplicates,
    FileWorker,
    ImportedRecords,
    RecordChanges,
    input_files,
    with_unique_ids,
)
from bmtools.errors import BmtoolsWarning, DataError, Reject
from bmtools.io.jsonl import refuse_empty
from bmtools.io.sources import STDIN, source_name
from bmtools.io.workers import ONE_WORKER
from bmtools.records import Record

Content = TypeVar("Content")
_ESSENTIAL = "sentences lang duplicates output rejects resume workers"
_PART = re.compile("(?:train(?:ing)?|dev(?:el|elopment)?|test)(?![a-z])", re.IGNORECASE)
_takes_account = click.option(
    "--account", "with_account", is_flag=True,
    help="Check that every character of the text is in a record or in a class that is left out, "
         "and count them. Each file is read twice.")


def _make_changes(_step: CommandStep, values: Values) -> None:
    path, sentences = values.pop("abbreviations"), values.pop("sentences")
    if path and not sentences:
        raise click.UsageError("--abbreviations requires --sentences; add it")
    from bmtools.text.abbreviations import read_abbreviations

    given = {key: values.pop(key) for key in ("lang", "source", "licence")}
    if given["lang"] and not re.fullmatch(r"[A-Za-z]{2,3}([-_][^\W_]+)*", given["lang"]):
        raise click.UsageError(f"--lang: found {given['lang']!r}, expected an ISO 639 code such as "
                               "it, en or pt-BR")
    values["changes"] = RecordChanges(
        {key: value for key, value in given.items() if value is not None}, sentences,
        read_abbreviations(path) if path else None)


_takes_changes = partial(add_options, [
    click.option("--sentences", is_flag=True,
                 help="One record for every sentence, with ids ID-s1, ID-s2; requires a language."),
    takes_abbreviations,
    click.option("--lang", metavar="CODE", help="Set lang to an ISO 639-1 code: it, en."),
    click.option("--source", metavar="TEXT", help="Set source."),
    click.option("--licence", metavar="TEXT", help="Set licence."),
    click.option("--duplicates", type=Choice(get_args(Duplicates)), default="refuse",
                 show_default=True, help="Handling of records with a repeated id."),
    allows_empty, takes_rejects, writes_records("the records")], _make_changes)


def reads(formats: dict[str, click.Command], reader: str, content: str, *examples: str,
          is_text: bool = False, folders: bool = False, archives: bool = False,
          shares_folders: bool = False, account: str = "",
          **settings: object) -> Callable[[Callable[[], None]], click.Command]:
    """Return a decorator for a function whose name and docstring describe a format.

    The function's options are arguments of the reader.

    Args:
        formats: dictionary to which the command is added, by name.
        reader: `module:function` in `bmtools.corpus`.
        content: content of the files, for help.
        examples: arguments of commands that run.
        is_text: whether workers read the files separately.
        folders: whether files may also be in folders and zip archives.
        archives: whether files may be in folders, zip archives and tar archives.
        shares_folders: whether workers share the files of a folder, which the reader receives as
            `folder`.
        account: function that checks that records contain the text of a file; empty for no check.
        settings: other arguments of the reader.
    """
    come = ", in folders, zip or tar archives" if archives else \
        ", in folders or zip archives" if folders else ""

    def read_set(step: CommandStep, files: tuple[str, ...], changes: RecordChanges,
                 duplicates: Duplicates, allow_empty: bool, reject: Reject, output: str,
                 **options: object) -> None:
        names, counts = step.sources(files), Counter[str]()
        with usage_errors():
            records = _load(reader)(names, counts=counts, reject=reject, **settings, **options)
        records = with_unique_ids(changes.made(records, reject), duplicates, counts, reject)
        records = changes.split(_naming_parts(records), counts, reject)

        records = _not_empty(records, names, allow_empty, counts)
        documents: set[str] = set()
        faults: Counter[str] = Counter()
        written = write_stream(step, noting_documents(_noting_faults(records, faults), documents),
                               output, "importing")
        if faults:
            found = ", ".join(f"{fault}: {count:,}" for fault, count in sorted(faults.items()))
            warnings.warn(f"taggers cannot learn all entities ({found}); bmtools check-data names "
                          "a fix for each", BmtoolsWarning, stacklevel=1)
        finish(step, records_written(written, counts, output),
               leads_on=len(documents) >= FEWEST_DOCUMENTS)

    def read_texts(step: CommandStep, files: tuple[str, ...], changes: RecordChanges,
                   duplicates: Duplicates, allow_empty: bool, reject: Reject, output: str,
                   passes: Passes, with_account: bool = False, **options: object) -> None:
        names = step.sources(files)
        if STDIN in names:
            if with_account:
                raise click.UsageError("--account: found stdin, which cannot be read twice; give "
                                       "files")
            passes = replace(passes, workers=ONE_WORKER)
        parts = list(input_files(names, shares_folders))
        imported = ImportedRecords(duplicates, changes)
        identity = {"format": step.context.command.name, "duplicates": duplicates,
                    **options, **changes.given, "sentences": changes.sentences,
                    **({"files": parts[-1].after} if shares_folders else {})}
        worker = partial(FileWorker, partial(_load(reader), **settings, **options), changes,
                         partial(_load(account), **options) if with_account else None)
        with passes.opened(output, {name: str(value) for name, value in identity.items()}) as run, \
                Path(os.devnull).open("wb") as nowhere:
            imported.resume(run)
            lines = run.lines(passes.of_files(parts), worker, reject, nowhere, "importing",
                              imported.amend)
            write_lines(step, _not_empty(lines, names, allow_empty, run.counts), output)
        if with_account:
            from bmtools.corpus.account import account_in_words

            say(account_in_words(run.counts))
        finish(step, records_written(run.records, run.counts, output))

    def make(function: Callable[[], None]) -> click.Command:
        name = function.__name__.replace("_", "-")
        own = " ".join(long_name(param) for param in reversed(
            getattr(function, "__click_params__", ())) if not isinstance(param, KeyOption))
        run: Callable[..., None] = wraps(function)(read_texts if is_text else read_set)
        run = _takes_changes(takes_passes(run) if is_text else run)
        run = _takes_account(run) if account else run
        run = (takes_sets if folders or archives else takes_files)(run)
        own += " account" * bool(account)
        formats[name] = click.command(
            name, cls=Command, essential=f"{own} {_ESSENTIAL}" if is_text else "",
            examples=[f"bmtools import {name} {example}" for example in examples],
            meanings={"files": f"{content}, plain, .gz or .zst{come}; no file or - means stdin."},
            topics="records",
            next_command="build-vocab {output} --allow-fewer -o vocabulary" if is_text
            else "split {output} -o parts" * (name != "curated"))(run)  # maskings only score
        return formats[name]

    return make


def _noting_faults(records: Iterable[Record], faults: Counter[str]) -> Iterator[Record]:
    """Count the entities that tags cannot represent while records pass."""
    for record in records:
        if "entities" in record:
            faults.update(entity_faults(record))
        yield record


def _naming_parts(records: Iterable[Record]) -> Iterator[Record]:
    """Pass on records; warn if they are from several folders of parts, such as train and test."""
    parts = Counter[str]()
    for record in records:
        yield record
        folders = Path(record.place).parts[:-1]
        last = max((number for number, one in enumerate(folders, 1) if _PART.match(one)), default=0)
        if last:
            parts[str(Path(*folders[:last]))] += 1
    if len(parts) > 1:
        found = ", ".join(f"{shlex.quote(part)} ({count:,})" for part, count in parts.items())
        warnings.warn(BmtoolsWarning(f"found records of several parts of a set: {found}; import "
                                     "each part by its path"), stacklevel=2)


def _load(path: str) -> Any:
    module, function = path.split(":")
    return getattr(import_module(f"bmtools.corpus.{module}"), function)


def _not_empty(found: Iterable[Content], names: Sequence[str], allow_empty: bool,
               counts: Counter[str]) -> Iterator[Content]:
    """Pass on records or lines; reject sources without any, or with most annotations lost."""
    is_empty = True
    for one in found:
        is_empty = is_empty and not one
        yield one
    if is_empty:
        left_out = "; ".join(f"{name}: {count}" for name, count in counts.items() if count)
        refuse_empty(names, allow_empty, f"records ({left_out})" if left_out else "records")
    elif (lost := counts[LOST]) > (found_in_text := counts[MATCHED] + counts[MOVED]):
        raise DataError(
            f"{', '.join(map(source_name, names))}: found {lost:,} of {lost + found_in_text:,} "
            "annotations that cannot be read or are not in their text, expected less than half; "
            "check that texts and annotations belong together, and inspect them with --rejects")
