"""`bmtools finetune`: one subcommand per task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bmtools.cli.help import Group
from bmtools.cli.launcher import launch
from bmtools.cli.options import (
    Command,
    checkpoint_directory,
    input_file,
    takes_rejects,
    usage_errors,
    writes_directory,
)
from bmtools.cli.parameters import InputRecords
from bmtools.cli.results import Line, finish, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.commands.training_options import (
    interruptible,
    metric_printer,
    require_shared_files,
    takes_processes,
    takes_resume,
)
from bmtools.distributed import is_main_process
from bmtools.errors import Reject, count_of
from bmtools.io.sources import STDIN
from bmtools.recipes.settings import (
    FreezeConfig,
    LearningRateConfig,
    OptimizationConfig,
    RegularizationConfig,
)
from bmtools.tasks.registry import TASKS
from bmtools.tasks.settings import (
    FINETUNE_DEFAULTS,
    FinetuneConfig,
    FinetunePlan,
    uses_folds,
)
from bmtools.training.plan import runs_directory
from bmtools.values import format_figure, heading

# Options whose help for pretraining would be misleading here.
_MEANINGS = {
    "output": "Directory for the best model, or the best model of each fold.",
    "warmup-ratio": "Share of a run's steps with linear warm-up from 0.",
    "decay-ratio": "Share of a run's steps with decay in a wsd schedule.",
    "dropout": "Dropout probability of the whole model during training.",
    "micro-batch-size": "Inputs per forward pass; gradients are accumulated. 0: the whole batch.",
    "seed": "Seed of the first run, for input order, new weights and dropout.",
}


def _has_folds(path: Path) -> bool:
    return any(one.is_dir() for one in path.glob("fold-*"))


class TaskGroup(Group):
    """A group with a subcommand for every task in the registry."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TASKS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Make the command of a task; the task's own settings come before the shared ones."""
        if name not in TASKS:
            return None
        _, config_class, _, sentence = TASKS[name]

        @click.option("--model", type=checkpoint_directory, required=True, metavar="CKPT",
                      help="Checkpoint to start from; it is not changed.")
        @click.option("--train", type=InputRecords(_has_folds), required=True, metavar="FILE|FOLDS",
                      help="Records to learn from; - means stdin, for one of the sets. Or a "
                           "directory of folds, as split --folds writes it.")
        @click.option("--dev", type=input_file, metavar="FILE",
                      help="Records used to select the epoch and the seed; required without folds.")
        @click.option("--test", type=input_file, metavar="FILE",
                      help="Records to score each seed on; not used to select a model.")
        @takes_processes
        @takes_rejects
        @writes_directory
        @takes_settings(config_class, "config")
        @takes_settings(FinetuneConfig, "finetuning")
        @takes_settings(LearningRateConfig, "schedule",
                        learning_rate=FINETUNE_DEFAULTS["learning_rate"])
        @takes_settings(RegularizationConfig, "regularization")
        @takes_settings(FreezeConfig, "freezing")
        @takes_settings(OptimizationConfig, "optimization", without=["memory_gib"],
                        dropout=FINETUNE_DEFAULTS["dropout"])
        @prints_results
        @takes_resume
        def run(step: CommandStep, train: str, dev: str | None, test: str | None, reject: Reject,
                output: Path, overwrite: bool, resume: bool, processes: int,
                **options: Any) -> None:
            files = {"train": train, **({"dev": dev} if dev else {}),
                     **({"test": test} if test else {})}
            if [*files.values()].count(STDIN) > 1:
                raise click.UsageError("read only one of --train, --dev and --test from stdin")
            with usage_errors():
                plan = FinetunePlan(name, output=output, overwrite=overwrite, resume=resume,
                                    step=step, **options)
                uses_folds(files, plan.finetuning)
            require_shared_files(processes, files.values())
            launch(step.display, processes)
            with interruptible(lambda: "finished seeds and the last evaluation, if there are any, "
                               f"are in {runs_directory(output)}; continue with --resume"):
                from bmtools.study.cards.card import write_cards
                from bmtools.tasks.finetune import run_finetuning

                print_metric = metric_printer(step)
                summary = run_finetuning(plan, {
                    name: step.sources((file,))[0] for name, file in files.items()}, print_metric,
                    reject)
                if not is_main_process():
                    return
                write_cards(output)
                print_metric(summary)
                finish(step, closing(summary), leads_on="folds" not in summary)

        return click.command(
            name, cls=Command, help=sentence, examples=[
                f"bmtools finetune {name} --model model --train train.jsonl --dev dev.jsonl {rest}"
                for rest in ("-o best", "--test test.jsonl --seeds 1 -o best")],
            essential="model train dev test output overwrite seeds epochs batch-size "
                      "learning-rate max-length",
            meanings=_MEANINGS, topics="devices",
            next_command="predict FILE --model {output}")(run)


@click.group("finetune", cls=TaskGroup, examples=(
    "bmtools finetune ner --model model --train train.jsonl --dev dev.jsonl -o best",
    "bmtools finetune classification --model model --train train.jsonl --dev dev.jsonl "
    "--seeds 1 --metric-for-best-model macro_f1 -o classifier"))
def command() -> None:
    """Train a checkpoint on an annotated task, with several seeds.

    Each seed stops when it no longer improves on the development set; the best one is written.
    stdout gets a JSON line for each set, epoch and seed, and a summary. After an interruption, the
    same command with --resume continues: finished seeds are kept, and the running one continues
    from its last evaluation.
    """


def closing(line: Line) -> str:
    """Return the closing line of `finetune`."""
    name = next(name for split in ("test_", "dev_") for name in line if name.startswith(split))
    seeds, folds = line["seeds"], line.get("folds", 0)
    of = count_of(folds, "folds") if folds else count_of(seeds, "seeds")
    spread = f"mean and deviation of {of}" if seeds > 1 or folds else "one seed"
    lost = [f"{count_of(line['diverged'], 'seeds')} diverged"] if "diverged" in line else []
    return (f"wrote {line['checkpoint']}: {heading(name)} {format_figure(name, line[name])} "
            f"({'; '.join([spread, *lost])})")
