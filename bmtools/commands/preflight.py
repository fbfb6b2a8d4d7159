"""`bmtools preflight`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bmtools.cli.options import Command, usage_errors
from bmtools.cli.parameters import WorkDirectory
from bmtools.cli.results import Closing, Line, finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.training_options import (
    TRAINING_FILES,
    TRAINING_GROUPS,
    processes_option,
    shard_option,
    takes_data,
    takes_model_init,
    takes_run_config,
)
from bmtools.distributed import world_size
from bmtools.errors import Reject, count_of, refuse
from bmtools.recipes.phases import RunConfig
from bmtools.recipes.settings import PreflightConfig
from bmtools.training.checks import check_run
from bmtools.training.plan import DataConfig, ModelInit, make_plan
from bmtools.values import format_duration, format_figure

if TYPE_CHECKING:
    from bmtools.training.preflight import Forecast, PhaseForecast

_PRECISIONS = {"no": "float32", "tf32": "TF32", "bf16": "bfloat16", "fp16": "float16"}


@click.command("preflight", cls=Command, examples=(
    "bmtools preflight corpus.jsonl --model model --epochs 3 --probe-seconds 1",
    "bmtools preflight shards --recipe laptop --tokenizer vocabulary --probe-seconds 1"),
    essential="model architecture tokenizer recipe epochs max-length batch-size memory-gib "
              "mixed-precision probe-seconds", groups=TRAINING_GROUPS, topics="phases devices",
    meanings={"files": TRAINING_FILES})
@processes_option
@shard_option
@takes_data
@click.option("--rejects", metavar="FILE", help="Skip bad records; nothing is written.")
@click.option("-o", "--output", type=WorkDirectory(), metavar="DIR",
              help="Ignored: nothing is written.")
@click.option("--overwrite", is_flag=True, help="Ignored: nothing is written.")
@click.option("--resume", is_flag=True, help="Ignored: nothing is written.")
@takes_settings(PreflightConfig, "probe")
@takes_run_config()
@takes_model_init
@prints_results
def command(step: CommandStep, data: DataConfig, rejects: str | None, output: Path | None,
            overwrite: bool, resume: bool, model: ModelInit, config: RunConfig,
            probe: PreflightConfig, processes: int, shard: bool) -> None:
    """Forecast memory, speed and hours of pretraining on this machine.

    Takes the options of "bmtools pretrain", checks them in the same way, times some real steps of
    each phase and prints one JSON line: steps, tokens, memory, tokens a second, hours and energy.
    Records are tokenized anew to a temporary directory, so shards are quicker. Nothing is kept.
    """
    if world_size() > 1:
        raise click.UsageError("found several processes, expected one; --processes says how many "
                               "pretraining will have")
    if shard and processes == 1:
        raise click.UsageError("--shard: found it with one process, expected --processes above 1")
    with usage_errors():
        plan = make_plan(output or Path("model"), config, model, data)
    check_run(plan, model, data, processes, shard)
    from bmtools.training.preflight import forecast_run

    reject: Reject = (lambda _error: None) if rejects else refuse
    forecast = forecast_run(plan, model, data, reject, probe, processes, shard)
    [line] = print_results(step, [forecast.record()],
                           print_tables=lambda _lines: click.echo("\n".join(_summary(forecast))))
    for note in forecast.notes:
        click.echo(f"bmtools: {note}", err=True)
    for warning in forecast.warnings:
        click.echo(f"bmtools: warning: {warning}", err=True)
    finish(step, *closing(line, "" if forecast.hours is None
                            else format_duration(3600 * forecast.hours)))


def _summary(forecast: Forecast) -> Iterator[str]:
    """Describe a forecast in lines for people."""
    device = forecast.device
    halves = "multiplies" if device.bf16 else "does not multiply"
    yield (f"{device.name}, {device.kind}, {device.count} "
           f"{'cores' if device.kind == 'cpu' else 'in this machine'}, "
           f"{device.memory_bytes / 2**30:.1f} GiB, {halves} bfloat16 natively")
    native = "" if forecast.native else ", emulated"
    yield f"{forecast.parameters:,} weights in {_PRECISIONS[forecast.precision]}{native}"
    for phase in forecast.phases:
        yield f"{phase.name}: {', '.join(_facts(phase, forecast.parameters))}"
    if forecast.packing_check:
        yield f"packed documents do not attend to each other: {forecast.packing_check}"
    if forecast.hours is not None:
        energy = "" if forecast.kwh is None else f", at most {forecast.kwh:.3g} kWh"
        yield f"total: {format_duration(3600 * forecast.hours)}{energy}"


def _facts(phase: PhaseForecast, parameters: int) -> Iterator[str]:
    yield (f"{count_of(phase.steps, 'steps')} of "
           + count_of(phase.batch_size, f"{phase.layout} sequences"))
    yield count_of(phase.tokens, "tokens")
    yield f"at most {phase.max_length} tokens each, {phase.fill_rate:.1%} of positions filled"
    yield f"micro-batches of {phase.micro_batch_size} in {phase.memory_gib:,.1f} GiB"
    if phase.frozen_parameters:
        yield f"{phase.frozen_parameters / parameters:.0%} of the weights frozen"
    yield count_of(phase.tokens_per_second, "tokens a second")
    if phase.model_flop_utilisation is not None:
        yield f"{phase.model_flop_utilisation:.1%} of the GPU's peak"
    if phase.hours is not None:
        yield format_duration(3600 * phase.hours)


def closing(forecast: Line, duration: str) -> Closing:
    """Close `preflight`."""
    memory = max(phase["memory_gib"] for phase in forecast["phases"])
    what = f"the run would take {duration} and " if duration else "the run would take "
    return (f"{what}{format_figure('', memory)} GiB of memory a process; this was measured",
            "the same with bmtools pretrain and -o DIR")
