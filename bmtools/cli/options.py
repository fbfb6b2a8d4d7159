"""Options that several commands share, and `--config` files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from bmtools.cli.help import DocumentedCommand, long_name
from bmtools.cli.main import TRACEBACK
from bmtools.cli.origins import keep_config, key_place
from bmtools.cli.outputs import (
    OVERWRITE,
    OutputDirectory,
    OutputFile,
    prepare_outputs,
    status_file,
    writes_output,
)
from bmtools.cli.progress import hide_status, showing_status
from bmtools.cli.step_records import recorded
from bmtools.distributed import is_main_process
from bmtools.errors import (
    BmtoolsError,
    CheckpointError,
    DataError,
    RecordError,
    Reject,
    count_of,
    refuse,
    suggestion,
)
from bmtools.io.energy.meter import metering
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import STDOUT, encode_lines, open_output
from bmtools.io.record_size import MEGABYTES, limiting_records
from bmtools.io.sources import STDIN
from bmtools.models.checkpoint_files import (
    check_checkpoint,
    check_directory,
    check_for_inference,
    check_masked_lm,
    check_scored,
    check_tokenizer,
    describe_directory,
)
from bmtools.models.transfer.base_files import check_base

Function = TypeVar("Function", bound=Callable[..., Any])
directory = click.Path(path_type=Path, file_okay=False)
writes_records = click.option(
    "-o", "--output", type=OutputFile(), default=STDOUT, show_default="stdout", metavar="FILE",
    help="Write here; .gz and .zst compress.")


_OVERWRITE_HELP = "Replace output that exists."
takes_overwrite = click.option("--overwrite", is_flag=True, help=_OVERWRITE_HELP)


class CheckedDirectory(click.Path):
    """A directory whose files are looked at before anything heavy loads.

    Args:
        check: raises a `BmtoolsError` where the directory is not what the command needs.
    """

    def __init__(self, check: Callable[[Path], None]) -> None:
        super().__init__(path_type=Path, file_okay=False)
        self.check = check

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Path:
        """Make sure that there is a directory; its files are checked once all usage is right."""
        try:
            check_directory(Path(value))
        except CheckpointError as error:
            self.fail(str(error), param, ctx)
        return Path(value)


class InputFile(click.Path):
    """A file to read, or `-` for stdin."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Any:
        """Check a file; a directory is wrong usage, and is called by what it holds."""
        if Path(value).is_dir():
            self.fail(f"found the directory {value!r}, expected files"
                      f"{describe_directory(Path(value))}", param, ctx)
        return super().convert(value, param, ctx)


class InputSet(InputFile):
    """A file to read, a folder or zip archive of such, a path into an archive, or `-`."""

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Any:
        """Accept what leads to files; which of them are read is up to the format."""
        from bmtools.io.folders import archive_of

        if Path(value).is_dir() or archive_of(value):
            return value
        return super().convert(value, param, ctx)


existing_directory = CheckedDirectory(check_directory)
checkpoint_directory = CheckedDirectory(check_checkpoint)
base_directory = CheckedDirectory(check_base)
masked_lm_directory = CheckedDirectory(check_masked_lm)
inference_directory = CheckedDirectory(check_for_inference)
scored_directory = CheckedDirectory(check_scored)
tokenizer_directory = CheckedDirectory(check_tokenizer)
input_file = InputFile()


class Command(DocumentedCommand):
    """A command that also takes its options from `--config FILE.toml`, and checks its outputs."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._takes_overwrite = any(param.name == OVERWRITE for param in self.params)
        if writes_output(self) and not self._takes_overwrite:
            self.params.append(click.Option(["--overwrite"], is_flag=True, help=_OVERWRITE_HELP))
        if any(param.name == "files" or isinstance(param.type, InputFile)
               for param in self.params):
            self.params.append(click.Option(
                ["--max-record-megabytes"], type=click.IntRange(min=1), default=MEGABYTES,
                show_default=True, expose_value=False, callback=_limit_records,
                help="Refuse input with a larger record, which could exhaust memory."))
        self.params.append(click.Option(
            ["--config"], type=click.Path(path_type=Path, exists=True, dir_okay=False),
            is_eager=True, expose_value=False, callback=_read_config,
            help="Take options from this TOML file; the command line wins."))
        self.params.append(click.Option(
            [TRACEBACK], is_flag=True, expose_value=False, help="Show where an error arose."))

    def invoke(self, ctx: click.Context) -> Any:
        """Check and keep the outputs, then run the command, meter it and show what it is doing."""
        with usage_errors():
            ctx.with_resource(metering())
        if writes_output(self):
            overwrite = ctx.params[OVERWRITE] if self._takes_overwrite \
                else ctx.params.pop(OVERWRITE)
            prepare_outputs(ctx, overwrite)
        for param in self.params:
            if isinstance(param.type, CheckedDirectory):
                found = ctx.params[param.name or ""]
                for path in found if isinstance(found, tuple) else filter(None, (found,)):
                    param.type.check(path)
        with showing_status(ctx.command_path.partition(" ")[2], status_file(ctx)), recorded(ctx):
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name variables of the environment by flags, whatever the parameter of the function."""
        for option in self.params:
            if isinstance(option, click.Option) and option.allow_from_autoenv:
                name = long_name(option).replace("-", "_").upper()
                option.envvar = f"{ctx.auto_envvar_prefix}_{name}" if ctx.auto_envvar_prefix \
                    else None
        return super().parse_args(ctx, args)


def _read_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    """Take defaults from a TOML file: its top-level keys, and the command's own table."""
    if path is None:
        return
    from bmtools.recipes.toml import parse_toml

    try:
        content = parse_toml(path.read_bytes(), str(path))
    except DataError as error:
        raise click.UsageError(str(error), ctx) from error
    text = path.read_text(encoding="utf-8")
    shared = {key: value for key, value in content.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    own = tables.get(ctx.command.name or "", {})
    spelled = {key.replace("-", "_"): key for key in {**shared, **own}}
    values = {name: {**shared, **own}[key] for name, key in spelled.items()}
    known = {long_name(param).replace("-", "_"): param.name
             for param in ctx.command.params if isinstance(param, click.Option)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise click.UsageError(
            f"{key_place(path, text, spelled[unknown[0]])}: found unknown key {unknown[0]!r}, "
            f"{suggestion(unknown[0], sorted(known))}", ctx)
    ctx.default_map = {known[key]: value for key, value in values.items()}
    keep_config(ctx, path, {known[name] or "": key for name, key in spelled.items()})


def _limit_records(ctx: click.Context, _param: click.Parameter, megabytes: int) -> None:
    ctx.with_resource(limiting_records(megabytes))


def add_options(options: Sequence[Callable[[Any], Any]],
                convert: Callable[[dict[str, Any]], None], function: Callable[..., Any]) -> Any:
    """Add options to a command's function, and convert their values before it is called.

    Args:
        options: decorators that add options, in the order of help.
        convert: gets all values of the command by name, and changes them in place; its ValueError
            is wrong usage.
        function: a command's.
    """
    @wraps(function)
    def wrapper(**values: Any) -> Any:
        with usage_errors():
            convert(values)
        return function(**values)

    wrapped: Any = wrapper
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a wrong setting into wrong usage."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error


def _open_rejects(values: dict[str, Any]) -> None:
    path = values.pop("rejects")
    if path is None:
        values["reject"] = refuse
    elif is_main_process():
        values["reject"] = click.get_current_context().with_resource(_collector(path))
    else:
        values["reject"] = lambda error: None  # the main process reads the same records


takes_files = click.argument("files", nargs=-1, metavar="[FILES]...", type=input_file)
takes_sets = click.argument("files", nargs=-1, metavar="[FILES]...", type=InputSet())
"""Add FILES, which may be folders and zip archives, too."""
allows_empty = click.option(
    "--allow-empty", is_flag=True,
    help="Accept input without a single record, and write none; otherwise it is an error.")
"""Add `--allow-empty`, for commands that write records."""
takes_abbreviations = click.option(
    "--abbreviations", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE", help="More abbreviations that end no sentence, one a line: vit. or, where "
                         "something always follows, dott. ...")
"""Add `--abbreviations`, for commands that split sentences."""
takes_rejects = partial(add_options, [click.option(
    "--rejects", type=OutputFile(), metavar="FILE",
    help="Collect bad records here, with their reason, and go on.")], _open_rejects)
"""Add `--rejects`; passes `reject`, which raises where the option is absent."""


def _open_records(values: dict[str, Any]) -> None:
    values["records"] = RecordReader(sources(values.pop("files")), values["reject"],
                                     values.pop("allow_empty", None))


reads_records = partial(add_options, [takes_files, takes_rejects], _open_records)
"""Add FILES and `--rejects`; passes `records` and `reject`."""


def writes_file(flag: str, help: str) -> Callable[[Function], Function]:
    """Add an option that names a further file to write."""
    return click.option(flag, type=OutputFile(), metavar="FILE", help=help)


def writes_plot(content: str) -> Callable[[Function], Function]:
    """Add `--plot FILE`; matplotlib must be there before any work is done."""
    return click.option("--plot", type=OutputFile(Path), metavar="FILE", callback=_check_plot,
                        help=f"Draw {content} to this .png, .svg or .pdf.")


def _check_plot(ctx: click.Context, _param: click.Parameter, plot: Path | None) -> Path | None:
    if plot is None:
        return None
    from bmtools.installation import PLOT_SUFFIXES, require_matplotlib

    if plot.suffix.lower() not in PLOT_SUFFIXES:
        raise click.UsageError(f"--plot: found {plot}, expected a name in "
                               f"{', '.join(PLOT_SUFFIXES)}", ctx)
    require_matplotlib()
    return plot


def writes_directory(function: Function) -> Function:
    """Add `-o/--output DIR` and `--overwrite`."""
    function = takes_overwrite(function)
    return click.option("-o", "--output", required=True, type=OutputDirectory(), metavar="DIR",
                        help="Directory to write.")(function)


def sources(files: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of inputs; stdin where there are none, with a note on a terminal."""
    names = files or (STDIN,)
    if STDIN in names and sys.stdin.isatty():
        hide_status()  # it would stand in what is typed
        click.echo("bmtools: reading from the terminal; end with Ctrl-D", err=True)
    return names


def named_paths(flag: str, values: Sequence[str], expected: str,
                find_name: Callable[[str], str] = str,
                is_there: Callable[[str], bool] = lambda path: Path(path).exists(),
                ) -> dict[str, str]:
    """Parse NAME=PATH; a path that is there as a whole has a name of its own.

    Args:
        flag: in messages.
        values: of the option.
        expected: what a path should lead to, in messages.
        find_name: returns the name of a path that is given alone.
        is_there: tells whether there is such a path.

    Raises:
        UsageError: there is no such path, or a name twice.
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
            raise click.UsageError(f"{flag}: found the name {name!r} twice; give them names of "
                                   "their own, NAME=PATH")
        paths[name] = path
    return paths


@contextmanager
def _collector(path: str) -> Iterator[Reject]:
    """Write bad records to a file, and count them on stderr at the end."""
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
            failure = error  # raised below: what was rejected may explain it
    click.echo(f"bmtools: {count_of(count, 'bad records')} in {path}", err=True)
    if failure is not None:
        raise failure
