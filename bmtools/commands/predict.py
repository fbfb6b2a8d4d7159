"""`bmtools predict`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Command, inference_directory, passes_records, usage_errors
from bmtools.cli.results import finish, to_output
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import write_stream
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.tasks.registry import TASKS, check_into, find_task
from bmtools.tasks.settings import PredictConfig


@click.command("predict", cls=Command, examples=(
    "bmtools predict notes.jsonl --model tagger -o found.jsonl",
    "bmtools import text notes.txt | bmtools predict --model tagger"), topics="records devices",
    next_command="score-tasks FILE {output}")
@passes_records("the records")
@click.option("--model", type=inference_directory, required=True, metavar="DIR",
              help="Fine-tuned model.")
@click.option("--task", type=Choice(list(TASKS)), default=None,
              show_default="from bmtools.json",
              help="Task of a model that was fine-tuned elsewhere.")
@takes_settings(PredictConfig, "config")
def command(step: CommandStep, records: RecordReader, reject: Reject, output: str,
            model: Path, task: str | None, config: PredictConfig) -> None:
    """Add a fine-tuned model's predictions to records.

    Predictions are an object under the key "predicted": entities, relations, answers, or label,
    score and probabilities. Annotations are kept unless --into names their key.
    """
    with usage_errors():
        check_into(config.into, find_task(model, task or ""))
    from bmtools.tasks.predict import Predictor

    found = Predictor(model, config, task or "").predict(records)
    written = write_stream(step, found, output, "predicting")
    finish(step, f"{count_of(written, 'records')} with predictions of {model}{to_output(output)}")
