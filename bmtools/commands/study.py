"""`bmtools study`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from bmtools.cli.main import bmtools
from bmtools.cli.options import Command
from bmtools.cli.parameters import NamedPath, NameOrFile, WorkDirectory
from bmtools.cli.pass_options import ShardParam
from bmtools.cli.results import finish, prints_results, report_printer
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.errors import count_of, suggestion
from bmtools.installation import require_matplotlib
from bmtools.io.parts import Shard
from bmtools.io.sources import STDIN
from bmtools.io.system import STOPPED
from bmtools.study.studies.plan import Usage, load_study, make_plan, study_names
from bmtools.study.studies.run import Runner, StoppedError


def _parse_defined(_ctx: click.Context, _param: click.Parameter, pairs: Sequence[str]
                   ) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.BadParameter(f"found {pair!r}, expected NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


@click.command("study", cls=Command, examples=(
    "bmtools study study.toml --list",
    "bmtools study study.toml --define seed=0,1 --workers 2 -o out"), topics="studies")
@click.argument("study", metavar="FILE|NAME",
                type=NameOrFile(lambda name: name in study_names(), study_names))
@click.argument("steps", nargs=-1, metavar="[STEP]...")
@click.option("-o", "--output", "folder", type=WorkDirectory(), metavar="DIR",
              help="Directory of all outputs. Default: the name of the study.")
@click.option("--define", "defined", multiple=True, metavar="NAME=VALUE", callback=_parse_defined,
              help="Replace a value of the file, or the entries of an axis: seed=0,1.")
@click.option("--list", "lists", is_flag=True,
              help="Print all command lines and whether they are done, without running them.")
@click.option("--show", "shows", is_flag=True,
              help="Print the file unchanged, to save and change it.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True,
              help="Commands that run at the same time.")
@click.option("--part", type=ShardParam(), metavar="I/N",
              help="Run only every Nth job of each step, starting with the Ith: 2/8.")
@prints_results
def command(step: CommandStep, study: str, steps: tuple[str, ...], folder: Path | None,
            defined: dict[str, str], lists: bool, shows: bool, workers: int, part: Shard | None
            ) -> None:
    """Run a study of models, sets, seeds and settings from one file.

    FILE is a TOML file, NAME a study in bmtools. Each step is a command line that is repeated over
    axes, such as models and seeds. A finished command runs again only if its options or inputs have
    changed. STEPs limit the run to these steps and the steps that they need. Exits with 75 if the
    study was stopped; run the same command to continue it.
    """
    if shows:
        sys.stdout.write(load_study(study)[1].read_text("utf-8"))
        return
    folder = folder or Path(Path(study).stem)
    jobs = make_plan(study, folder, defined, parse, steps)
    runner = Runner(folder)
    own = [job for job in jobs if not part or job.number % part.parts == part.number - 1]
    if lists:
        for job in own:
            state = "done" if runner.is_done(job) else "to do"
            sys.stdout.write(f"{runner.line(job)}  # {state}\n")
        return
    if any(job.words[1] == "report" and not runner.is_done(job) for job in own):
        require_matplotlib()
    step.hide_status()
    show, ran = report_printer(step), 0
    try:
        for line in runner.run(own, workers):
            show(line)
            ran += 1
    except StoppedError as error:
        say(str(error))
        step.context.exit(STOPPED)
    finish(step, f"{folder}: ran {count_of(ran, 'jobs')}, {len(own) - ran} were done before")


def parse(words: Sequence[str]) -> Usage:
    """Read a command line of bmtools without running it; its inputs need not exist.

    Raises:
        ValueError: the command line is wrong.
    """
    context = click.Context(bmtools, info_name="bmtools")
    rest = list(words)
    while isinstance(group := context.command, click.Group):
        name = rest.pop(0) if rest else ""
        found = group.get_command(context, name)
        if found is None:
            raise ValueError(f"found no command {name!r} of {context.command_path}, "
                             f"{suggestion(name, group.list_commands(context))}")
        context = click.Context(found, context, name)
    try:
        values, _, _ = context.command.make_parser(context).parse_args(rest)
        paths = list(_paths(context, values))
    except click.UsageError as error:
        raise ValueError(f"{context.command_path}: {error.format_message()}") from error
    return Usage([path for path, kind in paths if not kind.is_output],
                 [path for path, kind in paths if kind.is_output],
                 frozenset(name for param in context.command.params for name in param.opts))


def _paths(context: click.Context, values: dict[str, object]
           ) -> Iterator[tuple[str, NamedPath]]:
    """Check the values of parameters, and yield the paths among them."""
    for param in context.command.params:
        value = values.get(param.name or "")
        if param.required and value in (None, ()):
            raise click.MissingParameter(ctx=context, param=param)
        if not isinstance(param.type, NamedPath):
            if value is not None:
                param.type_cast_value(context, value)
            continue
        for one in value if isinstance(value, list | tuple) else (value,):
            for path in param.type.paths(one) if one else ():
                if path != STDIN and param.type.is_hashed:
                    yield path, param.type
