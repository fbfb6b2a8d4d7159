"""Options that several commands share, and `--config` files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from click.core import augment_usage_errors

from bmtools.cli.help import DocumentedCommand, KeyOption, long_name, same_option, set_option
from bmtools.cli.main import TRACEBACK
from bmtools.cli.origins import check_variables, read_config
from bmtools.cli.outputs import OVERWRITE, writes_output
from bmtools.cli.parameters import (
    InputDirectory,
    InputFile,
    InputRecords,
    OutputDirectory,
    OutputFile,
)
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.distributed import is_main_process
from bmtools.errors import (
    BmtoolsError,
    RecordError,
    Reject,
    count_of,
    refuse,
    settings_spelled_as_flags,
)
from bmtools.installation import PLOT_SUFFIXES, require_matplotlib
from bmtools.io.folders import archive_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import STDOUT, encode_lines, open_output
from bmtools.io.record_size import MEGABYTES, limiting_records
from bmtools.models.checkpoint_files import (
    check_base,
    check_checkpoint,
    check_for_inference,
    check_masked_lm,
    check_scored,
    check_tokenizer,
)
from bmtools.records import JsonObject

Function = TypeVar("Function", bound=Callable[..., object])
Values = JsonObject
"""Values of a command's parameters, by name."""
Convert = Callable[[CommandStep, Values], None]
_CONVERSIONS, _STEP = "bmtools_conversions", "bmtools.step"


class Decorator(Protocol):
    """Decorator that adds options to a command's function and returns the function."""

    def __call__(self, function: Function, /) -> Function: ...


existing_directory = InputDirectory()
checkpoint_directory = InputDirectory(check_checkpoint)
base_directory = InputDirectory(check_base)
masked_lm_directory = InputDirectory(check_masked_lm)
inference_directory = InputDirectory(check_for_inference)
scored_directory = InputDirectory(check_scored)
tokenizer_directory = InputDirectory(check_tokenizer)
input_file = InputRecords()


class Command(DocumentedCommand):
    """A command that also reads options from `--config FILE.toml`, and checks its outputs."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if any(isinstance(param, KeyOption) for param in self.params):
            self.params.append(set_option())
        if writes_output(self):
            self.params.append(click.Option([f"--{OVERWRITE}"], is_flag=True,
                                            help="Replace existing output."))
        if any(param.name == "files" or getattr(param.type, "is_records", False)
               for param in self.params):
            self.params.append(click.Option(
                ["--max-record-megabytes"], type=click.IntRange(min=1), default=MEGABYTES,
                show_default=True, expose_value=False, callback=_limit_records,
                help="Reject input with a larger record, which could exhaust memory."))
        self.params.append(click.Option(
            ["--config"], type=InputFile(Path, allow_dash=False), is_eager=True,
            expose_value=False, callback=read_config,
            help="Read options from this TOML file; the command line overrides it."))
        self.params.append(click.Option(
            [TRACEBACK], is_flag=True, expose_value=False, help="Show the traceback of an error."))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command's function inside its step."""
        step: CommandStep = ctx.meta[_STEP]
        names = {long_name(param).replace("-", "_") for param in self.params if param.opts}
        assert self.callback is not None
        with augment_usage_errors(ctx), \
                settings_spelled_as_flags(names if "set" in names else True):
            step.check(ctx.params.get(OVERWRITE, False) or ctx.params.get("resume", False))
            with step.opened(), step.uploaded(), step.recorded():
                values = dict(ctx.params)
                with usage_errors(ctx):
                    for convert in self.callback.__dict__.get(_CONVERSIONS, ()):
                        convert(step, values)
                named = signature(self.callback, follow_wrapped=False).parameters
                if "step" in named:
                    values["step"] = step
                if OVERWRITE not in named:
                    values.pop(OVERWRITE, None)
                return ctx.invoke(self.callback, **values)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name environment variables after flags, not after the function's parameters."""
        for option in self.params:
            if isinstance(option, click.Option) and option.allow_from_autoenv:
                name = long_name(option).replace("-", "_").upper()
                option.envvar = f"{ctx.auto_envvar_prefix}_{name}" if ctx.auto_envvar_prefix \
                    else None
        check_variables(ctx)
        ctx.meta[_STEP] = CommandStep(ctx)
        return super().parse_args(ctx, self._with_own_names(ctx, args))

    def _with_own_names(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        """Replace options that have another name in other libraries, and print what they mean."""
        known = {name for option in self.get_params(ctx)
                 for name in (*option.opts, *option.secondary_opts)}
        names = {name.removeprefix("--") for name in known if name.startswith("--")}
        end, found = args.index("--") if "--" in args else len(args), list[str]()
        for word in args[:end]:
            name, equals, value = word.partition("=")
            ours = same_option(name, names) if name.startswith("--") and name not in known else ""
            if not ours or (equals and " " in ours):
                found.append(word)
                continue
            say(f"{name} is {ours} here")
            found += [f"{ours}={value}"] if equals else ours.split()
        return [*found, *args[end:]]


def _limit_records(ctx: click.Context, _param: click.Parameter, megabytes: int) -> None:
    ctx.with_resource(limiting_records(megabytes))


def together(*options: Decorator) -> Decorator:
    """Combine decorators, written from top to bottom, into one."""
    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def add_options(options: Sequence[Decorator], convert: Convert,
                function: Function) -> Function:
    """Add options to a command's function, and a function that converts their values.

    The command calls all conversions before its function: conversions of decorators from top to
    bottom, and conversions of nested options before the conversion that contains them.

    Args:
        options: decorators that add options, in the order of help.
        convert: changes the dictionary of all values by name in place; it also gets the step. Its
            ValueError becomes a usage error.
        function: function of a command.
    """
    function.__dict__.setdefault(_CONVERSIONS, []).insert(0, convert)
    return together(*options)(function)  # its own conversions run first


@contextmanager
def usage_errors(ctx: click.Context | None = None) -> Iterator[None]:
    """Turn errors of wrong settings into usage errors."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error), ctx or click.get_current_context()) from error


def _open_rejects(step: CommandStep, values: Values) -> None:
    path = values.pop("rejects")
    if path is None:
        values["reject"] = refuse
    elif is_main_process():
        values["reject"] = step.context.with_resource(_collector(path))
    else:
        values["reject"] = lambda error: None  # the main process reads the same records


takes_files = click.argument("files", nargs=-1, metavar="[FILES]...", type=input_file)
takes_sets = click.argument("files", nargs=-1, metavar="[FILES]...", type=InputRecords(
    lambda path: path.is_dir() or archive_of(str(path))))
"""Add FILES, which may also be folders and zip archives."""
allows_empty = click.option(
    "--allow-empty", is_flag=True,
    help="Accept input without records and write no records; by default this is an error.")
"""Add `--allow-empty`, for commands that write records."""


def writes_records(what: str = "") -> Decorator:
    """Add `-o/--output FILE`, stdout by default; `what` names the content."""
    return click.option("-o", "--output", type=OutputFile(), default=STDOUT, show_default="stdout",
                        metavar="FILE", help=f"Write {what and f'{what} '}here; .gz and .zst "
                                             "compress.")


takes_abbreviations = click.option(
    "--abbreviations", type=InputFile(Path, allow_dash=False),
    metavar="FILE", help="More abbreviations that do not end a sentence, one per line, such as "
                         "vit. Write \"dott. ...\" if more text always follows.")
"""Add `--abbreviations`, for commands that split sentences."""
takes_masked_terms = click.option(
    "--terms", type=InputFile(Path, allow_dash=False), metavar="FILE",
    help="Terms for --masking terms, one per line.")
takes_rejects = partial(add_options, [click.option(
    "--rejects", type=OutputFile(), metavar="FILE",
    help="Write bad records here, with the reason, and continue.")], _open_rejects)
"""Add `--rejects`; passes `reject`, which raises an error if the option is not given."""


def _open_records(step: CommandStep, values: Values) -> None:
    values["records"] = RecordReader(step.sources(values.pop("files")), values["reject"],
                                     values.pop("allow_empty", None))


reads_records = partial(add_options, [takes_files, takes_rejects], _open_records)
"""Add FILES and `--rejects`; passes `records` and `reject`."""


def passes_records(what: str = "") -> Decorator:
    """Add FILES, `--rejects`, `--allow-empty` and `--output`; `what` names the content."""
    return together(reads_records, allows_empty, writes_records(what))


def writes_file(flag: str, help: str) -> Decorator:
    """Add an option for another file to write."""
    return click.option(flag, type=OutputFile(), metavar="FILE", help=help)


def writes_plot(content: str) -> Decorator:
    """Add `--plot FILE`; raise an error before any work if matplotlib is missing."""
    return click.option("--plot", type=OutputFile(Path), metavar="FILE", callback=_check_plot,
                        help=f"Draw {content} to this .png, .svg or .pdf, or .html with "
                             "tables.")


def _check_plot(ctx: click.Context, _param: click.Parameter, plot: Path | None) -> Path | None:
    if plot is None:
        return None
    if plot.suffix.lower() not in PLOT_SUFFIXES:
        raise click.UsageError(f"--plot: found {plot}, expected a name in "
                               f"{', '.join(PLOT_SUFFIXES)}", ctx)
    require_matplotlib()
    return plot


writes_directory = click.option("-o", "--output", required=True, type=OutputDirectory(),
                                metavar="DIR", help="Directory to write.")
"""Add `-o/--output DIR`; a function with a parameter `overwrite` also gets that value."""


def named_paths(flag: str, values: Sequence[str], expected: str,
                find_name: Callable[[str], str] = str,
                is_there: Callable[[str], bool] = lambda path: Path(path).exists(),
                ) -> dict[str, str]:
    """Parse NAME=PATH; a path without a name gets one from `find_name`.

    Args:
        flag: name of the option in messages.
        values: values of the option.
        expected: description of a valid path, in messages.
        find_name: returns the name for a path without a name.
        is_there: returns whether a path exists.

    Raises:
        UsageError: a path does not exist, or a name occurs twice.
    """
    paths: dict[str, str] = {}
    for given in values:
        name, equals, path = given.partition("=")
        if not equals or is_there(given):
            name, path = find_name(given), given
        if not name or not is_there(path):
            raise click.UsageError(f"{flag}: found {given!r}, expected {expected}, or NAME=PATH "
                                   "of one")
        if name in paths:
            raise click.UsageError(f"{flag}: found the name {name!r} twice; give different "
                                   "names, NAME=PATH")
        paths[name] = path
    return paths


@contextmanager
def _collector(path: str) -> Iterator[Reject]:
    """Write bad records to a file, and report their number on stderr at the end."""
    count = 0
    failure: Exception | None = None
    with open_output(path) as stream:

        def collect(error: RecordError) -> None:
            nonlocal count
            count += 1
            stream.write(encode_lines([
                {"place": error.place, "reason": error.reason, "record": error.content}]))

        try:
            yield collect
        except (BmtoolsError, click.exceptions.Exit) as error:
            failure = error  # raised below, after the count of bad records, which may explain it
    say(f"{count_of(count, 'bad records')} in {path}")
    if failure is not None:
        raise failure
