"""A training run from records to a checkpoint: reported, killable and resumable."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bmtools.corpus.rows import Rows, cut_rows
from bmtools.errors import BmtoolsError
from bmtools.io.aside import new_directory, refuse_existing
from bmtools.io.manifest import Manifest
from bmtools.io.streams import encode_line
from bmtools.models.checkpoint import fill_checkpoint, load_masked_lm
from bmtools.records import Record
from bmtools.training.batches import RowBatches
from bmtools.training.loop import Step, Trainer, start_processes
from bmtools.training.objectives import Objective
from bmtools.training.settings import LoopSettings, RowSettings, RunSettings
from bmtools.training.start import Start
from bmtools.training.state import (
    Progress,
    latest_states,
    read_progress,
    restore,
    runs_directory,
    save_state,
)
from bmtools.vocab.encoding import encode

METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class Plan:
    """A run as asked for.

    Args:
        command: name of the command, for the manifest.
        output: checkpoint to write.
        rows: how text becomes batches.
        loop: how to optimise.
        run: how long, and what to report and keep.
        extra: further settings that make the run what it is, by name.
        parents: hash of each checkpoint it starts from, by role.
        resume: go on from the newest state, if there is one.
        overwrite: replace the checkpoint or the unfinished run that is there.
    """

    command: str
    output: Path
    rows: RowSettings
    loop: LoopSettings
    run: RunSettings
    extra: Mapping[str, Any]
    parents: Mapping[str, str]
    resume: bool = False
    overwrite: bool = False

    def settings(self) -> dict[str, Any]:
        """Every resolved setting."""
        return {**asdict(self.rows), **asdict(self.loop), **asdict(self.run), **self.extra}

    def identity(self, rows: Rows, vocabulary: str, hashes: Mapping[str, str]) -> dict[str, Any]:
        """What makes two sittings the same run; how often they report or save does not."""
        settings = {name: value for name, value in self.settings().items()
                    if name not in ("report_every", "save_every", "micro_batch")}
        # Names of files may change between sittings, their content may not.
        return {**settings, "vocabulary": vocabulary, "tokens": rows.tokens,
                "inputs": sorted(hashes.values()), "parents": dict(self.parents)}


def check_targets(plan: Plan) -> None:
    """Refuse, before anything heavy, to write over a checkpoint or an unfinished run."""
    refuse_existing(plan.output, plan.overwrite)
    run = runs_directory(plan.output)
    if run.exists() and not plan.resume and not plan.overwrite:
        raise BmtoolsError(f"{run} holds an unfinished run; --resume goes on with it, "
                           "--overwrite starts again")


def execute(plan: Plan, records: Iterable[Record], start: Start,
            hashes: Callable[[], Mapping[str, str]],
            make_objective: Callable[[Any], Objective]) -> Iterator[dict[str, Any]]:
    """Train and write the checkpoint; yield a line of metrics per report, then the manifest.

    Only the first of several processes yields.

    Args:
        plan: the run as asked for.
        records: the text; titles are read too.
        start: the model and its vocabulary.
        hashes: gives the hash of each input once records are read.
        make_objective: gives the loss around a model.
    """
    started = time.monotonic()
    accelerator = start_processes(plan.loop)
    rows = read_rows(records, start.tokenizer, plan.rows.row_tokens)
    batches = RowBatches(rows, plan.rows, start.tokenizer, plan.loop.seed)
    steps = plan.run.count_steps(batches.per_epoch)
    identity = plan.identity(rows, start.vocabulary, hashes())
    directory = runs_directory(plan.output)
    state = next(iter(latest_states(directory)), None) if plan.resume else None
    progress = read_progress(state, identity) if state else Progress(identity)
    model = load_masked_lm(state).model if state else start.make()
    trainer = Trainer(make_objective(model), steps, plan.loop, accelerator)
    if state:
        restore(state, trainer.objective, trainer.optimizer)
    elif accelerator.is_main_process and directory.exists():
        shutil.rmtree(directory)

    def manifest() -> Manifest:
        return Manifest(
            plan.command, {**plan.settings(), "steps": steps}, start.vocabulary, plan.loop.seed,
            hashes(), plan.parents, progress.tokens_seen, progress.wall_seconds,
            {"rows": len(rows), "corpus_tokens": rows.tokens,
             "last": progress.metrics[-1] if progress.metrics else {}})

    spent = progress.wall_seconds
    for step in trainer.run(batches, progress.step):
        progress.wall_seconds = spent + time.monotonic() - started
        line = _account(progress, step, plan.run.report_every, steps)
        if line and accelerator.is_main_process:
            yield line
        due = plan.run.save_every and step.number % plan.run.save_every == 0
        if due and step.number < steps and accelerator.is_main_process:
            save_state(directory, progress, trainer.objective, trainer.optimizer,
                       start.tokenizer, manifest())
    if accelerator.is_main_process:
        with new_directory(plan.output, plan.overwrite) as partial:
            written = fill_checkpoint(partial, trainer.objective.model, start.tokenizer,
                                      manifest())
            (partial / METRICS).write_bytes(b"".join(map(encode_line, progress.metrics)))
        shutil.rmtree(directory, ignore_errors=True)
        yield {"checkpoint": str(plan.output), **written["results"],
               "tokens_seen": written["tokens_seen"], "wall_seconds": written["wall_seconds"]}
    accelerator.wait_for_everyone()
    accelerator.end_training()


def read_rows(records: Iterable[Record], tokenizer: Any, row_tokens: int) -> Rows:
    """Tokenise titles and texts into rows that leave room for the two special tokens."""
    texts = (f"{record['title']}\n{record['text']}" if record.get("title") else record["text"]
             for record in records)
    encoded = ((text.ids, text.starts) for text in encode(tokenizer, texts))
    return cut_rows(encoded, row_tokens - 2)


def _account(progress: Progress, step: Step, report_every: int,
             steps: int) -> dict[str, Any] | None:
    """Add a step to the sums, and close them into a line of metrics where one is due."""
    progress.step = step.number
    progress.tokens_seen += step.counts["tokens"]
    for name, value in {**step.losses, **step.counts, "steps": 1}.items():
        progress.pending[name] = progress.pending.get(name, 0) + value
    if step.number % report_every and step.number != steps:
        return None
    sums, progress.pending = progress.pending, {}
    line: dict[str, Any] = {"step": step.number, "of": steps}
    line |= {name: round(sums[name] / sums["steps"], 6) for name in step.losses}
    line["learning_rate"] = step.learning_rate
    if "maskable" in sums:
        line["mask_rate"] = round(sums["masked"] / sums["maskable"], 4)
    line["tokens_seen"] = progress.tokens_seen
    line["tokens_per_second"] = round(progress.tokens_seen / max(progress.wall_seconds, 1e-9))
    progress.metrics.append(line)
    return line
