"""`bmtools distill`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bmtools.commands.options import Command, existing_directory, reads_records, writes_directory
from bmtools.commands.settings import takes_settings
from bmtools.commands.training import print_metrics, resumes
from bmtools.errors import Reject
from bmtools.io.manifest import hash_directory
from bmtools.io.streams import RecordReader
from bmtools.training.settings import DistillSettings, LoopSettings, RowSettings, RunSettings


@click.command("distill", cls=Command)
@reads_records
@writes_directory
@click.option("--teacher", type=existing_directory, required=True, metavar="CKPT",
              help="Checkpoint to learn from; it stays as it is.")
@click.option("--student", type=existing_directory, metavar="CKPT",
              help="Pretrained checkpoint to teach, with the teacher's vocabulary.")
@click.option("--architecture", metavar="NAME",
              help="Teach new weights instead: bert-tiny, bert-LAYERSxWIDTH, a config.json.")
@takes_settings(DistillSettings, "settings")
@takes_settings(RowSettings, "rows")
@takes_settings(LoopSettings, "loop", warmup_share=0.05)
@takes_settings(RunSettings, "run")
@resumes
def command(records: RecordReader, reject: Reject, output: Path, overwrite: bool,
            teacher: Path, student: Path | None, architecture: str | None,
            settings: DistillSettings, rows: RowSettings, loop: LoopSettings, run: RunSettings,
            resume: bool) -> None:
    """Teach a smaller masked language model what a larger one knows."""
    if (student is None) == (architecture is None):
        raise click.UsageError("expected one of --student and --architecture")
    if rows.objective != "masked":
        raise click.UsageError("--objective: distillation restores masked words only")
    from bmtools.training.distill import distill
    from bmtools.training.run import Plan, check_targets

    parents = {"teacher": hash_directory(teacher)}
    if student:
        parents["student"] = hash_directory(student)
    extra = {"teacher": str(teacher), "student": student and str(student),
             "architecture": architecture, **asdict(settings)}
    plan = Plan("distill", output, rows, loop, run, extra, parents, resume, overwrite)
    check_targets(plan)
    print_metrics(distill(plan, records, lambda: records.hashes, teacher, settings, student,
                          architecture), "distilling")
