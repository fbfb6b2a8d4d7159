"""Options, launching and printed metrics that the training commands share."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bmtools.cli.launcher import launch
from bmtools.cli.options import (
    Command,
    Decorator,
    Values,
    add_options,
    masked_lm_directory,
    takes_masked_terms,
    takes_rejects,
    together,
    tokenizer_directory,
    usage_errors,
)
from bmtools.cli.parameters import InputFile, InputPath, NamedInput, NameOrFile, OutputDirectory
from bmtools.cli.results import (
    Line,
    finish,
    print_results,
    prints_results,
    report_printer,
)
from bmtools.cli.settings import with_options
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.data.settings import ShardConfig
from bmtools.distributed import SHARD, is_launched, is_main_process, world_size
from bmtools.errors import Reject, count_of
from bmtools.io.directories import discard_run
from bmtools.io.provenance.manifest import is_finished
from bmtools.io.sources import STDIN, split_name
from bmtools.io.system import STOPPED, Ended, handling_signals, interruption
from bmtools.models.cards import CARDS
from bmtools.models.sizes import SIZES
from bmtools.recipes.phases import RunConfig
from bmtools.recipes.settings import PHASE_FIELDS, PHASE_KINDS, RUN_FIELDS, RUN_KINDS
from bmtools.recipes.toml import recipe_names
from bmtools.records import JsonObject
from bmtools.training.plan import (
    EVALUATE,
    MAIN,
    REPLAY,
    RETAIN,
    STATES,
    DataConfig,
    ModelInit,
    continued_defaults,
    kept_directory,
    make_init,
    make_plan,
    make_run_config,
    runs_directory,
)
from bmtools.values import format_figure

TRAINING_FILES = "Records, or directories of shards made by tokenize; no file or - means stdin."


OPTIONS = {"steps", "tokens", "epochs", "max_length", "batch_size", "layout", "objective",
           "masking", "mask_rate", "learning_rate", "micro_batch_size", "memory_gib",
           "device", "precision", "seed", "save_steps", "keep_steps", "eval_steps",
           "budget", "skip_spikes"}
"""Settings that have an option; the others are set by `--set`."""


class TrainingCommand(Command):
    """A command whose settings are options or keys of `--set`, with a dry run."""

    def set_keys(self) -> Sequence[str]:
        """Return the keys of `--set`."""
        return [one.name for kind in (*PHASE_KINDS.values(), *RUN_KINDS) for one in fields(kind)]

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a dry run has no outputs."""
        if not ctx.params["dry_run"] and not ctx.params["output"]:
            output = next(one for one in self.params if one.name == "output")
            raise click.MissingParameter(ctx=ctx, param=output)
        if ctx.params["dry_run"]:
            ctx.params |= {"output": None, "overwrite": False, "resume": False,
                           "rejects": ctx.params["rejects"] and os.devnull}
        return super().invoke(ctx)


def takes_run_config(without: Sequence[str] = (), **defaults: Any) -> Decorator:
    """Add `--recipe`, `--phases`, `--set` and an option for some settings; passes `config`.

    Options on the command line, in the environment or from `--config` override the phases file in
    all phases; `--set` overrides these options.

    Args:
        without: settings without an option here.
        defaults: values that replace the settings' defaults if no file sets them.
    """
    def convert(step: CommandStep, values: Values) -> None:
        taken = {name: values.pop(name) for name in OPTIONS if name in values}
        given = {name: value for name, value in taken.items()
                 if step.context.get_parameter_source(name) is not ParameterSource.DEFAULT}
        preferred = continued_defaults(values.get("model"), values["output"], values["resume"])
        values["config"] = make_run_config(values.pop("recipe"), values.pop("phases"), given,
                                           values.pop("changes"), **defaults, **preferred)

    kinds = (*PHASE_KINDS.values(), *RUN_KINDS)
    hidden = {one.name for kind in kinds for one in fields(kind)} - (OPTIONS - {*without})
    return partial(add_options, [
        click.option("--recipe", metavar="NAME",
                     shell_complete=lambda ctx, param, start: [
                         name for name in recipe_names() if name.startswith(start)],
                     help="Use a paper's phases; see 'bmtools recipe list'."),
        click.option("--phases", metavar="FILE", help="Use the phases in this TOML file.",
                     type=InputFile()),
        click.option("--set", "changes", multiple=True, metavar="[PHASE.]KEY=VALUE",
                     help="Change a setting; PHASE, a name or number, limits it to one phase. See "
                          "'bmtools help phases'."),
        *(partial(with_options, kind=kind, without=[*hidden], **defaults) for kind in kinds)],
        convert)


def _read_data(step: CommandStep, values: Values) -> None:
    train: dict[str, tuple[str, ...]] = {}
    for text in values.pop("corpora"):
        name, equals, path = text.partition("=")
        if not equals or not Path(path).exists():
            raise click.UsageError(f"--corpus: found {text!r}, expected NAME=PATH of a file of "
                                   "records or a directory of shards")
        if name in train:
            raise click.UsageError(f"--corpus: found {name!r} twice, expected names that differ")
        train[name] = (path,)
    files = values.pop("files")
    if files or not train:
        if MAIN in train:
            raise click.UsageError(f"--corpus: found the name {MAIN!r}, which FILES have, "
                                   "expected another one")
        train[MAIN] = step.sources(files)
    auxiliary = {name: values.pop(name) for name in (REPLAY, EVALUATE, RETAIN)}
    if wrong := [text for text in values["scored"] if not text.startswith(("pppl=", "mrr="))]:
        raise click.UsageError(f"--score: found {wrong[0]!r}, expected pppl=FILE or mrr=FILE")
    values["data"] = DataConfig(
        train, {name: (path,) for name, path in auxiliary.items() if path},
        values.pop("lang"), values.pop("segmenter"), values.pop("terms"))


takes_data = partial(add_options, [
    click.argument("files", nargs=-1, metavar="[FILES]...",
                   type=InputPath(allow_dash=True)),
    click.option("--corpus", "corpora", multiple=True, metavar="NAME=PATH", type=NamedInput(),
                 help="A named corpus of records or shards, for mixtures; repeat it for more."),
    click.option("--replay", metavar="PATH", type=InputPath(),
                 help="Corpus of earlier training, for --replay-steps."),
    click.option("--evaluate", metavar="PATH", type=InputPath(),
                 help="Held-out text, scored at each phase's end and every --eval-steps."),
    click.option("--retain", metavar="PATH", type=InputPath(),
                 help="General text, scored before and after to measure forgetting."),
    click.option("--score", "scored", multiple=True, metavar="pppl|mrr=FILE",
                 type=NamedInput(InputFile(allow_dash=False)),
                 help="Sentences or maskings to score, as in score-pppl and score-mrr: at the "
                      "start, at each phase's end and every --eval-steps; repeat it for more."),
    click.option("--lang", default="", metavar="CODE",
                 help="Language of records without one; used to find sentences for pairs."),
    click.option("--segmenter", default=ShardConfig.segmenter, show_default=True, metavar="NAME",
                 help="Word segmenter: tokenizer, japanese, chinese, thai ..."),
    takes_masked_terms], _read_data)
"""Add FILES and the other corpora; passes `data`."""


architecture = NameOrFile(SIZES.__contains__, lambda: SIZES)
"""Type of an architecture: the name of a size, or a config.json."""


def _read_model_init(_step: CommandStep, values: Values) -> None:
    named = values.pop("architecture") or ("" if values["model"]
                                           else values["config"].architecture)
    values["model"] = make_init(values["model"], named, values.pop("tokenizer"))


takes_model_init = partial(add_options, [
    click.option("--model", type=masked_lm_directory, metavar="CKPT",
                 help="Checkpoint to continue."),
    click.option("--architecture", metavar="NAME", type=architecture,
                 help="New weights instead: bert-base, roberta-large, modernbert-4x256, a "
                      "config.json ..."),
    click.option("--tokenizer", type=tokenizer_directory, metavar="DIR",
                 help="Tokenizer for new weights.")], _read_model_init)
"""Add `--model`, `--architecture` and `--tokenizer`; passes `model`.

Put it below `takes_run_config`, because its config may set the architecture.
"""


def _find_finished(step: CommandStep, values: Values) -> None:
    """End the command if `--resume` is given and the run is already finished."""
    output = values["output"]
    if values["resume"] and is_finished(output, runs_directory(output)):
        say(f"{output} is already finished, so the settings of this command are not compared; to "
            "replace it, use --overwrite instead of --resume")
        from bmtools.study.cards.card import write_cards

        discard_run(runs_directory(output))  # a kill may have left it, or prevented the cards
        write_cards(output, kept_directory(output))
        step.context.exit()


def _prepare_launch(_step: CommandStep, values: Values) -> None:
    if values["processes"] > 1 and not is_launched() and not values.get("dry_run"):
        values["rejects"] = None  # the main process writes it


takes_processes = partial(add_options, [click.option(
    "--processes", type=click.IntRange(min=1), default=1, show_default=True,
    help="Number of processes on this machine that share the work, one per GPU or part of a CPU.")],
    _prepare_launch)
"""Add `--processes`, above `takes_rejects`."""


takes_resume = partial(add_options, [click.option(
    "--resume", is_flag=True,
    help="Continue from the newest state of an unfinished run, if there is one.")], _find_finished)
"""Add `--resume`, which ends a command whose run is finished."""


def require_shared_files(processes: int, names: Iterable[str]) -> None:
    """Raise an error if several processes would read stdin.

    Raises:
        UsageError: one of the names stands for stdin.
    """
    if max(processes, world_size()) > 1 and STDIN in names:
        raise click.UsageError("several processes cannot share stdin; name the files instead")


def _prepare_processes(_step: CommandStep, values: Values) -> None:
    processes, shard = values["processes"], values["shard"]
    if values["dry_run"] and world_size() > 1:
        raise click.UsageError("--dry-run: found several processes, expected one; set the run's "
                               "number of processes with --processes")
    if values["device_kind"] and not values["dry_run"]:
        raise click.UsageError("--device-kind: found without --dry-run, expected both")
    if shard and processes == 1 and not is_launched():
        raise click.UsageError("--shard: found one process, expected --processes above 1")
    if values["dry_run"]:
        values["output"] = Path("model")  # not written
        return
    if shard:
        os.environ[SHARD] = "1"
    state = next(runs_directory(values["output"]).glob(STATES), None)
    if not is_main_process() or (values["resume"] and state):
        # Only the main process reads records, and it does not read them again from a saved state.
        values["rejects"] = None


def trains(*own: Decorator, without: Sequence[str] = (), **defaults: Any) -> Decorator:
    """Add the options of a command that trains with `run_training`.

    Args:
        own: options of this command only.
        without: as in `takes_run_config`.
        defaults: as in `takes_run_config`.
    """
    return together(
        takes_processes, partial(add_options, [
            click.option("--shard", is_flag=True, help="Shard weights and optimizer states over "
                                                       "the processes (FSDP2)."),
            click.option("--dry-run", is_flag=True,
                         help="Check the settings, time some steps of each phase and print the "
                              "plan, memory, tokens and hours as JSON; write no output."),
            click.option("--device-kind", type=click.Choice([*CARDS]), metavar="NAME",
                         help="Forecast the --dry-run for this card instead of the present one: "
                              "h100, a100-80gb, 4090, mi300x ...")],
                _prepare_processes),
        takes_data, takes_rejects, click.option(
            "-o", "--output", type=OutputDirectory(), metavar="DIR"),
        takes_run_config(without, **defaults), *own, prints_results, takes_resume)


def run_training(step: CommandStep, model: ModelInit, data: DataConfig, config: RunConfig,
                 output: Path, reject: Reject, resume: bool, processes: int, shard: bool,
                 dry_run: bool, device_kind: str, scored: Sequence[str],
                 teacher: Path | None = None) -> None:
    """Check, launch and train, and print metrics or the forecast of a dry run.

    A dry run has one process and no output to check.

    Raises:
        UsageError: several processes would have to share stdin.
        BmtoolsError: see `make_plan`, `TrainingPlan.check_targets` and `check_run`.
        click.exceptions.Exit: with the exit code of the processes.
    """
    with usage_errors():
        plan = make_plan(output, config, model, data, resume, step.context.params["overwrite"],
                         teacher, step)
    # Values of options that were not given are defaults; a recipe may have set other values.
    step.settings = {**plan.settings(), **{
        name: value for name, value in step.settings.items()
        if name not in PHASE_FIELDS and name not in RUN_FIELDS}}
    from bmtools.training.checks import check_run

    if not dry_run:
        require_shared_files(processes, [name for names in data.train.values() for name in names])
    if is_main_process() and not dry_run:
        plan.check_targets()
    check_run(plan, model, data, max(processes, world_size()), shard, teacher)
    if not dry_run:
        launch(step.display, processes)
    with interruptible(lambda: _describe_leftover(plan.output)):
        from bmtools import scoring
        from bmtools.study.cards.card import with_cards
        from bmtools.training.distill import distill_lines
        from bmtools.training.forecast import forecast
        from bmtools.training.pretrain import pretrain_lines

        plan = replace(plan, scorers=[
            partial(getattr(scoring, measure), path, device=plan.optimization.device)
            for measure, path in map(split_name, scored)])
        lines: Callable = partial(pretrain_lines, plan, model, data, reject) \
            if teacher is None else partial(distill_lines, plan, model, teacher, data, reject)
        if not dry_run:
            print_metrics(step, with_cards(lines(), plan.output, kept_directory(plan.output)))
            return
        [line] = print_results(step, lines(partial(forecast, processes=processes,
                                                   device_kind=device_kind)))
        for kind, start in (("notes", ""), ("warnings", "warning: ")):
            for text in line[kind]:
                say(f"{start}{text}")


@contextmanager
def interruptible(kept: Callable[[], str]) -> Iterator[None]:
    """Let signals interrupt a command during its imports and later, and report what is kept.

    kept: returns a description of the files that an interruption leaves.
        kept: describes what an interruption leaves.

    Raises:
        Ended: with this description.
    """
    logging.getLogger("bmtools").addHandler(_EchoHandler())
    try:
        # Handlers for the other ending signals are installed for all commands.
        with handling_signals([signal.SIGUSR1], interruption.receive):
            yield
    except (KeyboardInterrupt, Ended, Exception) as error:
        # Some libraries raise their own error if an import is interrupted.
        number = interruption.number or getattr(error, "number", 0)
        if isinstance(error, KeyboardInterrupt | Ended) or number:
            raise Ended(number or signal.SIGINT, kept()) from error
        raise


class _EchoHandler(logging.Handler):
    """Prints log messages of the rooms as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        say(record.getMessage())


def _describe_leftover(output: Path) -> str:
    """Describe what a session that ended immediately leaves of its run."""
    directory = runs_directory(output)
    if states := sorted(directory.glob(STATES)):
        step = int(states[-1].name.rpartition("-")[2])
        return f"the state saved at step {step:,} is in {directory}; use --resume to continue"
    if directory.exists():
        return f"no step was saved, {directory} keeps the encoded text; use --resume to reuse it"
    return "nothing was saved yet; run the same command to start again"


def metric_printer(step: CommandStep) -> Callable[[JsonObject], None]:
    """Return a function that prints a report on stdout, and a note on stderr, immediately."""
    print_report = report_printer(step)

    def print_metric(line: JsonObject) -> None:
        if "note" in line:
            say(str(line["note"]))
        else:
            print_report(line)

    return print_metric


def print_metrics(step: CommandStep, lines: Iterable[JsonObject]) -> None:
    """Print each report on stdout, notes on stderr, and at the end a closing line.

    Raises:
        click.exceptions.Exit: with STOPPED if the run was stopped and can be resumed. Under
            torchrun and Accelerate it is not raised, because they would treat this as a crash.
    """
    print_metric, last = metric_printer(step), JsonObject()
    for line in lines:
        print_metric(line)
        last = last if "note" in line else line
    if "checkpoint" in last:
        finish(step, training_closing(last))
    if "stopped" in last:
        say("stopped before the end; use --resume to continue")
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            raise click.exceptions.Exit(STOPPED)


def training_closing(line: Line) -> str:
    """Return the closing line of `pretrain` and `distill`."""
    facts = []
    for name, label in (("evaluate", "held-out loss"), ("last", "loss")):
        found: Line = line.get(name) or {}
        loss = found.get("evaluate", found).get("loss")
        if loss is not None:
            facts = [f"{label} {format_figure('loss', loss)}"]
            break
    return (f"wrote {line['checkpoint']}: {', '.join(facts)} after "
            f"{count_of(line['steps'], 'steps')} and {count_of(line['tokens_seen'], 'tokens')}")
