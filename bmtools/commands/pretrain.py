"""`bmtools pretrain`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import takes_rejects, usage_errors, writes_directory
from bmtools.cli.results import print_results
from bmtools.cli.step import CommandStep
from bmtools.cli.training_options import (
    TRAINING_FILES,
    TRAINING_GROUPS,
    TrainingCommand,
    check_and_launch,
    describe_leftover,
    interruptible,
    launches,
    print_metrics,
    resumes,
    takes_data,
    takes_model_init,
    takes_run_config,
)
from bmtools.errors import Reject
from bmtools.recipes.phases import RunConfig
from bmtools.training.plan import DataConfig, ModelInit, TrainingPlan, make_plan
from bmtools.training.run_directories import kept_directory


def write_run_cards(output: Path) -> None:
    """Write the cards of a run's checkpoint and of those that it kept."""
    from bmtools.study.cards.card import write_cards

    write_cards(output, kept_directory(output))


def run_training(step: CommandStep, plan: TrainingPlan, model: ModelInit, data: DataConfig,
                 reject: Reject, processes: int, shard: bool, dry_run: bool,
                 teacher: Path | None = None) -> None:
    """Check, launch and train, and print metrics, or the forecast of a dry run; see `make_plan`."""
    check_and_launch(step, plan, model, data, processes, shard, dry_run, teacher)
    with interruptible(lambda: describe_leftover(plan.output)):
        from bmtools.study.cards.card import with_cards
        from bmtools.training.distill import distill_lines
        from bmtools.training.forecast import forecast
        from bmtools.training.pretrain import pretrain_lines

        lines: Callable = partial(pretrain_lines, plan, model, data, reject) \
            if teacher is None else partial(distill_lines, plan, model, teacher, data, reject)
        if not dry_run:
            print_metrics(step, with_cards(lines(), plan.output, kept_directory(plan.output)))
            return
        [line] = print_results(step, lines(partial(forecast, processes=processes, sharded=shard)))
        for kind, start in (("notes", ""), ("warnings", "warning: ")):
            for text in line[kind]:
                click.echo(f"bmtools: {start}{text}", err=True)


@click.command("pretrain", cls=TrainingCommand, examples=(
    "bmtools pretrain corpus.jsonl --model model --epochs 3 -o adapted",
    "bmtools pretrain shards --architecture bert-tiny --tokenizer vocabulary "
    "--steps 100 --max-length 64 -o new"),
    essential="model architecture tokenizer output resume dry-run recipe set epochs max-length "
              "learning-rate", groups=TRAINING_GROUPS,
    topics="phases masking checkpoints devices",
    meanings={"files": TRAINING_FILES, "output": "Directory for the checkpoint."})
@launches
@takes_data
@takes_rejects
@writes_directory
@takes_run_config()
@takes_model_init
@resumes(write_run_cards)
def command(step: CommandStep, data: DataConfig, reject: Reject, output: Path, overwrite: bool,
            model: ModelInit, config: RunConfig, resume: bool, processes: int, shard: bool,
            dry_run: bool) -> None:
    """Train a masked language model from scratch or from a checkpoint, in phases.

    FILES are records, or shards made by "bmtools tokenize". Prints a JSON line per report, and one
    about the checkpoint.

    Ctrl-C, SIGTERM, SIGUSR1 and --budget end a session after the current step: it saves a state,
    prints a line with the key "stopped" and exits with 75 (with 0 under torchrun and accelerate
    launch). The same command with --resume then continues, and exits with 0 when the checkpoint is
    written. A second Ctrl-C leaves at once, without a new state, and exits with 130.

    --dry-run prints one JSON line instead: steps, tokens, memory, tokens a second, hours and
    energy, measured on this machine.
    """
    with usage_errors():
        plan = make_plan(output, config, model, data, resume, overwrite, step=step)
    run_training(step, plan, model, data, reject, processes, shard, dry_run)
