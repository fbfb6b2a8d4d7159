"""What the training commands share: their options, their processes and the lines they print."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from bmtools.cli.launcher import STOPPED, SUPERVISED, launch
from bmtools.cli.options import Command, sources
from bmtools.cli.progress import tracked_metrics
from bmtools.cli.settings import with_options
from bmtools.data.settings import ShardConfig
from bmtools.distributed import is_launched, is_main_process, world_size
from bmtools.io.jsonl import STDIN, write_records
from bmtools.io.manifest import NAME
from bmtools.recipes.phases import (
    PHASE_FIELDS,
    PHASE_KINDS,
    RUN_FIELDS,
    RUN_KINDS,
    RunConfig,
    run_settings,
    single_phase,
)
from bmtools.recipes.settings import DistillationConfig, PreflightConfig, ReplayConfig
from bmtools.recipes.toml_files import load_recipe, override, read_run_config
from bmtools.training.plan import EVALUATE, REPLAY, RETAIN, SHARD
from bmtools.training.run_directories import STATES, runs_directory

Function = TypeVar("Function", bound=Callable[..., Any])
_MAIN = "text"
"""Name of the corpus that FILES make up."""


def takes_run_config(**defaults: Any) -> Callable[[Function], Function]:
    """Add `--recipe`, `--phases`, `--set` and an option for every setting; gives `config`.

    What is given on the command line, in the environment or by `--config` wins over the phases
    file in all phases; `--set` wins over that.

    Args:
        defaults: values that this command prefers to the settings' own where no file gives them.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(*args: Any, recipe: str | None, phases: str | None, changes: tuple[str, ...],
                    **options: Any) -> Any:
            context = click.get_current_context()
            names = [name for name in options if name in PHASE_FIELDS or name in RUN_FIELDS]
            given = {name: options[name] for name in names
                     if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
            for name in names:
                del options[name]
            if recipe and phases:
                raise click.UsageError("expected one of --recipe and --phases", context)
            try:
                config = _script(recipe, phases, defaults)
                config = override(config, given, changes)
            except ValueError as error:
                raise click.UsageError(str(error), context) from error
            return function(*args, config=config, **options)

        wrapped: Any = wrapper
        for kind in (*reversed(RUN_KINDS), *reversed(PHASE_KINDS.values())):
            own = {name: value for name, value in defaults.items()
                   if name in {field.name for field in dataclasses.fields(kind)}}
            wrapped = with_options(wrapped, kind, **own)
        for option in (
                click.option("--set", "changes", multiple=True, metavar="[PHASE.]KEY=VALUE",
                             help="Change a setting, of one phase by its name or number."),
                click.option("--phases", metavar="FILE", help="Take phases from this TOML file.",
                             type=click.Path(exists=True, dir_okay=False, allow_dash=True)),
                click.option("--recipe", metavar="NAME",
                             help="Take phases from a paper; see 'bmtools recipe list'.")):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def _script(recipe: str | None, phases: str | None, defaults: Mapping[str, Any]) -> RunConfig:
    if recipe:
        return load_recipe(recipe)
    if phases:
        return read_run_config(phases)
    parts = {part: kind(**{name: value for name, value in defaults.items()
                           if name in {field.name for field in dataclasses.fields(kind)}})
             for part, kind in PHASE_KINDS.items()}
    run = {name: value for name, value in defaults.items() if name in RUN_FIELDS}
    return override(single_phase(**parts), run)


def takes_datasets(function: Function) -> Function:
    """Add FILES, `--corpus`, `--replay`, `--evaluate`, `--retain`, `--lang` and `--terms`.

    The function gets `trained`, `others`, `lang`, `segmenter` and `terms`. Each text is a tuple of
    names: files of records, or directories of shards.
    """

    @click.argument("files", nargs=-1, metavar="[FILES]...",
                    type=click.Path(exists=True, allow_dash=True))
    @click.option("--corpus", "corpora", multiple=True, metavar="NAME=PATH",
                  help="A text with a name, for mixtures: records or shards; repeat for more.")
    @click.option("--replay", metavar="PATH", type=click.Path(exists=True),
                  help="Text the model learned before, for --replay-steps.")
    @click.option("--evaluate", metavar="PATH", type=click.Path(exists=True),
                  help="Held-out text, scored at each phase's end and every --eval-steps.")
    @click.option("--retain", metavar="PATH", type=click.Path(exists=True),
                  help="General text, scored before and after: what the run cost.")
    @click.option("--lang", default="", metavar="CODE",
                  help="Language of records without one, to find sentences for pairs.")
    @click.option("--segmenter", default=ShardConfig.segmenter, show_default=True,
                  metavar="NAME", help="What finds words: tokenizer, japanese, chinese, thai ...")
    @click.option("--terms", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                  metavar="FILE", help="Terms for --masking terms, one a line.")
    @functools.wraps(function)
    def wrapper(*args: Any, files: tuple[str, ...], corpora: tuple[str, ...], replay: str | None,
                evaluate: str | None, retain: str | None, **options: Any) -> Any:
        trained: dict[str, tuple[str, ...]] = {}
        for name, path in map(_named, corpora):
            if name in trained:
                raise click.UsageError(f"--corpus: found {name!r} twice, expected names that "
                                       "differ")
            trained[name] = (path,)
        if files or not trained:
            if _MAIN in trained:
                raise click.UsageError(f"--corpus: found the name {_MAIN!r}, which FILES have, "
                                       "expected another one")
            trained[_MAIN] = sources(files)
        others = {name: (path,) for name, path in
                  ((REPLAY, replay), (EVALUATE, evaluate), (RETAIN, retain)) if path}
        return function(*args, trained=trained, others=others, **options)

    return wrapper  # type: ignore[return-value]


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not Path(path).exists():
        raise click.UsageError(f"--corpus: found {text!r}, expected NAME=PATH of a file of records "
                               "or a directory of shards")
    if not re.fullmatch(r"[\w-]+", name) or name in (REPLAY, EVALUATE, RETAIN):
        raise click.UsageError(f"--corpus: found the name {name!r}, expected letters, digits, - "
                               f"and _, and none of {REPLAY}, {EVALUATE} and {RETAIN}")
    return name, path


def check_replay(config: RunConfig, others: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a text to replay without saying how often, and the other way round."""
    if bool(run_settings(config, ReplayConfig).replay_steps) != (REPLAY in others):
        raise click.UsageError("--replay and --replay-steps go together")


def resumes(function: Function) -> Function:
    """Add `--resume`: a finished run is left alone, an unfinished one goes on."""

    @click.option("--resume", is_flag=True,
                  help="Go on from the newest state of an unfinished run, if there is one.")
    @functools.wraps(function)
    def wrapper(*args: Any, resume: bool, output: Path, trained: Mapping[str, tuple[str, ...]],
                **options: Any) -> Any:
        if resume and (output / NAME).is_file():
            click.echo(f"bmtools: {output} is finished already", err=True)
            shutil.rmtree(runs_directory(output), ignore_errors=True)  # a kill may have left it
            return None
        if any(STDIN in names for names in trained.values()) and world_size() > 1:
            raise click.UsageError("several processes cannot share stdin; name the files instead")
        return function(*args, resume=resume, output=output, trained=trained, **options)

    return wrapper  # type: ignore[return-value]


def takes_processes(function: Function) -> Function:
    """Add `--processes` and `--shard`."""
    function = click.option(
        "--shard", is_flag=True,
        help="Spread weights and the optimizer's memory over the processes (FSDP2).")(function)
    return click.option(
        "--processes", type=click.IntRange(min=1), default=1, show_default=True,
        help="Processes of this machine that share the work, one for each GPU or part of a "
             "CPU.")(function)


def launches(function: Function) -> Function:
    """Add `--processes` and `--shard`: the command runs several times at once. Put it first."""

    @takes_processes
    @functools.wraps(function)
    def wrapper(*args: Any, processes: int, shard: bool, **options: Any) -> Any:
        if shard and processes == 1 and not is_launched():
            raise click.UsageError("--shard: found it with one process, expected --processes "
                                   "above 1")
        launch(processes)
        if shard:
            os.environ[SHARD] = "1"
        if not _reads_records(**options):
            options["rejects"] = None
        code = function(*args, **options)
        if code:
            raise click.exceptions.Exit(code)

    return wrapper  # type: ignore[return-value]


def _reads_records(resume: bool, output: Path, **_: Any) -> bool:
    """Whether this process may meet bad records; a file that another one made of them stays.

    The first process reads, and not again once there is a state.
    """
    begun = resume and next(runs_directory(output).glob(STATES), None) is not None
    return is_main_process() and not begun


def print_metrics(lines: Iterable[dict[str, Any]], doing: str) -> int:
    """Print a JSON line per report on stdout, as it comes, and what is for people on stderr.

    Returns:
        the exit code: STOPPED where the run was told to stop and can go on, unless another
        launcher than our own would take that for a crash.
    """
    stopped = False

    def numbers() -> Iterator[dict[str, Any]]:
        nonlocal stopped
        for line in lines:
            if "note" in line:
                click.echo(f"bmtools: {line['note']}", err=True)
                continue
            stopped = "stopped" in line
            yield line

    if sys.stdout.isatty():
        write_records(numbers(), flush=True)
    else:
        write_records(tracked_metrics(numbers(), doing), flush=True)
    if not stopped:
        return 0
    click.echo("bmtools: stopped before the end; --resume goes on", err=True)
    return STOPPED if world_size() == 1 or os.environ.get(SUPERVISED) == "1" else 0


# Titles of options that no settings stand behind, in the order of help.
_GROUPS = {
    "Text": ("corpus", "replay", "evaluate", "retain", "lang", "segmenter", "terms", "rejects"),
    "Models and directories": ("teacher", "student", "model", "architecture", "tokenizer",
                               "output", "overwrite", "resume"),
    "Processes": ("processes", "shard"),
    "Settings from files": ("recipe", "phases", "set", "config"),
    "Messages": ("traceback", "help"),
}


class TrainingCommand(Command):
    """A command with many options, listed in the groups that their settings come in."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group under its title; what every run needs comes first."""
        titles = {name: title for title, names in _GROUPS.items() for name in names}
        titles |= {field.name.replace("_", "-"): _title_of(kind)
                   for kind in (*PHASE_KINDS.values(), DistillationConfig, PreflightConfig,
                                *RUN_KINDS)
                   for field in dataclasses.fields(kind)}
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in titles.values()}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record:
                longest = max(parameter.opts, key=len).lstrip("-")
                groups[titles[longest]].append(record)
        for title, rows in groups.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _title_of(kind: type) -> str:
    """Take the first line of a docstring, sources in brackets left out."""
    line = (kind.__doc__ or "").strip().splitlines()[0]
    return re.sub(r" \([A-Z].*\)", "", line).rstrip(".")
