"""`bmtools distill`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import click

from bmtools.commands.options import existing_directory, takes_rejects, writes_directory
from bmtools.commands.settings import takes_settings
from bmtools.commands.training import (
    TrainingCommand,
    check_replay,
    launches,
    print_metrics,
    reads_texts,
    resumes,
    takes_script,
)
from bmtools.errors import Reject
from bmtools.io.manifest import hash_directory
from bmtools.training.phases import Script, run_settings
from bmtools.training.regularisation import AdversarySettings
from bmtools.training.settings import DistillSettings


@click.command("distill", cls=TrainingCommand)
@launches
@reads_texts
@takes_rejects
@writes_directory
@click.option("--teacher", type=existing_directory, required=True, metavar="CKPT",
              help="Checkpoint to learn from; it stays as it is.")
@click.option("--student", type=existing_directory, metavar="CKPT",
              help="Pretrained checkpoint to teach, with the teacher's vocabulary.")
@click.option("--architecture", metavar="NAME",
              help="Teach new weights instead: bert-tiny, bert-LAYERSxWIDTH, a config.json.")
@takes_settings(DistillSettings, "settings")
@takes_script(warmup_share=0.05)
@resumes
def command(trained: Mapping[str, tuple[str, ...]], others: Mapping[str, tuple[str, ...]],
            lang: str, segmenter: str, terms: Path | None, reject: Reject, output: Path,
            overwrite: bool, teacher: Path, student: Path | None, architecture: str | None,
            settings: DistillSettings, script: Script, resume: bool) -> int:
    """Teach a smaller masked language model what a larger one knows.

    FILES are records, or shards that "bmtools tokenize" made. Prints a JSON line per report, and
    one about the checkpoint. Signals, --budget and --resume work as in "bmtools pretrain".
    """
    if (student is None) == (architecture is None):
        raise click.UsageError("expected one of --student and --architecture")
    if any(phase.task.objective != "masked" for phase in script.phases):
        raise click.UsageError("--objective: distillation restores masked words only")
    if run_settings(script, AdversarySettings).adversarial:
        raise click.UsageError("--adversarial: distillation knows no adversary")
    check_replay(script, others)
    from bmtools.training.corpora import Wanted
    from bmtools.training.distill import Pupil, distill
    from bmtools.training.plan import check_targets, lay_out

    parents = {"teacher": hash_directory(teacher)}
    if student:
        parents["student"] = hash_directory(student)
    extra = {"teacher": str(teacher), "student": student and str(student),
             "architecture": architecture, "terms": terms and str(terms), **asdict(settings)}
    plan = replace(lay_out("distill", output, script, extra, parents), resume=resume,
                   overwrite=overwrite)
    check_targets(plan)
    wanted = Wanted(trained, others, lang, segmenter, terms)
    lines = distill(plan, Pupil(student, architecture), teacher, wanted, settings, reject)
    return print_metrics(lines, "distilling")
