"""What the training commands share: their options, their processes and the lines they print."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from bmtools.commands.options import Command, sources
from bmtools.commands.progress import tracked
from bmtools.commands.settings import with_options
from bmtools.corpus.settings import ShardSettings
from bmtools.io.manifest import NAME
from bmtools.io.streams import STDIN, write_records
from bmtools.training.phases import (
    PHASE_FIELDS,
    PHASE_KINDS,
    RUN_FIELDS,
    RUN_KINDS,
    Script,
    single_phase,
)
from bmtools.training.script import load_recipe, override, read_script

Function = TypeVar("Function", bound=Callable[..., Any])
_MAIN = "text"
"""Name of the corpus that FILES make up."""


def takes_script(**defaults: Any) -> Callable[[Function], Function]:
    """Add `--recipe`, `--phases`, `--set` and an option for every setting; gives `script`.

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
                script = _script(recipe, phases, defaults)
                script = override(script, given, changes)
            except ValueError as error:
                raise click.UsageError(str(error), context) from error
            return function(*args, script=script, **options)

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


def _script(recipe: str | None, phases: str | None, defaults: Mapping[str, Any]) -> Script:
    if recipe:
        return load_recipe(recipe)
    if phases:
        return read_script(phases)
    parts = {part: kind(**{name: value for name, value in defaults.items()
                           if name in {field.name for field in dataclasses.fields(kind)}})
             for part, kind in PHASE_KINDS.items()}
    run = {name: value for name, value in defaults.items() if name in RUN_FIELDS}
    return override(single_phase(**parts), run)


def reads_texts(function: Function) -> Function:
    """Add FILES, `--corpus`, `--replay`, `--evaluate`, `--retain`, `--lang` and `--terms`.

    The function also gets `segmenter`, `lang` and `terms`.

    Each text is a tuple of names: files of records, or one directory of shards.
    """

    @click.argument("files", nargs=-1, metavar="[FILES]...",
                    type=click.Path(exists=True, allow_dash=True))
    @click.option("--corpus", "corpora", multiple=True, metavar="NAME=PATH",
                  help="A text with a name, for mixtures: records or shards; repeat for more.")
    @click.option("--replay", metavar="PATH", type=click.Path(exists=True),
                  help="Text the model learned before, for --replay-every.")
    @click.option("--evaluate", metavar="PATH", type=click.Path(exists=True),
                  help="Held-out text, scored at each phase's end and every --evaluate-every.")
    @click.option("--retain", metavar="PATH", type=click.Path(exists=True),
                  help="General text, scored before and after: what the run cost.")
    @click.option("--lang", default="", metavar="CODE",
                  help="Language of records without one, to find sentences for pairs.")
    @click.option("--segmenter", default=ShardSettings.segmenter, show_default=True,
                  metavar="NAME", help="What finds words: tokenizer, japanese, chinese, thai ...")
    @click.option("--terms", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                  metavar="FILE", help="Terms for --masking terms, one a line.")
    @functools.wraps(function)
    def wrapper(*args: Any, files: tuple[str, ...], corpora: tuple[str, ...], replay: str | None,
                evaluate: str | None, retain: str | None, **options: Any) -> Any:
        trained = {name: (path,) for name, path in map(_named, corpora)}
        if len(trained) < len(corpora):
            raise click.UsageError("--corpus: found a name twice, expected names that differ")
        if files or not trained:
            trained[_MAIN] = sources(files)
        others = {name: (path,) for name, path in
                  (("replay", replay), ("evaluate", evaluate), ("retain", retain)) if path}
        return function(*args, trained=trained, others=others, **options)

    return wrapper  # type: ignore[return-value]


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name or not Path(path).exists():
        raise click.UsageError(f"--corpus: found {text!r}, expected NAME=PATH of a file of records "
                               "or a directory of shards")
    return name, path


def resumes(function: Function) -> Function:
    """Add `--resume`: a finished run is left alone, an unfinished one goes on."""

    @click.option("--resume", is_flag=True,
                  help="Go on from the newest state of an unfinished run, if there is one.")
    @functools.wraps(function)
    def wrapper(*args: Any, resume: bool, output: Path, trained: Mapping[str, tuple[str, ...]],
                **options: Any) -> Any:
        if resume and (output / NAME).is_file():
            click.echo(f"bmtools: {output} is finished already", err=True)
            return None
        if any(STDIN in names for names in trained.values()) and _processes() > 1:
            raise click.UsageError("several processes cannot share stdin; name the files instead")
        return function(*args, resume=resume, output=output, trained=trained, **options)

    return wrapper  # type: ignore[return-value]


def launches(function: Function) -> Function:
    """Add `--processes`: the command starts itself anew through Accelerate's launcher."""

    @click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True,
                  help="Processes to share the work: one a GPU, or halves of a CPU.")
    @functools.wraps(function)
    def wrapper(*args: Any, processes: int, **options: Any) -> Any:
        if processes == 1 or "WORLD_SIZE" in os.environ:
            return function(*args, **options)
        os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // processes, 1)))
        sys.stdout.flush()
        os.execv(sys.executable, launch_command(processes, sys.argv[1:]))

    return wrapper  # type: ignore[return-value]


def launch_command(processes: int, arguments: list[str]) -> list[str]:
    """Spell how Accelerate's launcher starts this program."""
    import torch

    where = ["--multi_gpu"] if torch.cuda.is_available() else ["--cpu"]
    return [sys.executable, "-m", "accelerate.commands.launch", *where, "--num_machines", "1",
            "--mixed_precision", "no", "--dynamo_backend", "no", "--num_processes",
            str(processes), "--main_process_port", "0", "-m", "bmtools", *arguments]


def print_metrics(lines: Iterable[dict[str, Any]], doing: str) -> None:
    """Print a JSON line per report on stdout, as it comes, and progress on stderr."""
    if sys.stdout.isatty():
        write_records(lines, flush=True)
    else:
        write_records(tracked(lines, doing), flush=True)


def _processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


class TrainingCommand(Command):
    """A command with many options, listed in the groups that their settings come in."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        titles = {field.name: (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")
                  for kind in (*PHASE_KINDS.values(), *RUN_KINDS)
                  for field in dataclasses.fields(kind)}
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record:
                groups.setdefault(titles.get(parameter.name or "", "Options"), []).append(record)
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)
