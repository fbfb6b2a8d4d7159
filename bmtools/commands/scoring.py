"""What the scoring commands share: their options and the way scores are written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bmtools.commands.options import existing_directory, writes_records
from bmtools.commands.progress import tracked
from bmtools.commands.settings import takes_settings
from bmtools.errors import BmtoolsError, Reject
from bmtools.io.streams import encode_line, open_output, read_records, write_records
from bmtools.scoring.settings import PassSettings

if TYPE_CHECKING:
    from bmtools.scoring.predictors import Predictor

Function = TypeVar("Function", bound=Callable[..., Any])


def scores_checkpoints(function: Function) -> Function:
    """Add `--model`, `--baseline`, `--details`, `-o` and how models run.

    The function gets `load`, which loads the predictors, and `report`, which writes scores.
    """

    @click.option("--model", "models", type=existing_directory, multiple=True, required=True,
                  metavar="CKPT", help="Checkpoint to score; repeat it to compare several.")
    @click.option("--baseline", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
                  help="Also score the token frequencies of these records.")
    @click.option("--details", metavar="FILE", help="Write the parts of each score here.")
    @writes_records
    @takes_settings(PassSettings, "passes")
    @functools.wraps(function)
    def wrapper(*args: Any, models: tuple[Path, ...], baseline: str | None,
                details: str | None, output: str, passes: PassSettings, reject: Reject,
                **options: Any) -> Any:
        if details == output:
            raise click.UsageError("--details and --output are the same; name another file for "
                                   "one of them")

        def load() -> list[Predictor]:
            return _load(models, baseline, passes, reject)

        report = functools.partial(_report, details=details, output=output)
        return function(*args, load=load, report=report, reject=reject, **options)

    return wrapper  # type: ignore[return-value]


def _load(models: Sequence[Path], baseline: str | None, passes: PassSettings,
          reject: Reject) -> list[Predictor]:
    from bmtools.scoring.baseline import count_frequencies
    from bmtools.scoring.predictors import load_predictor

    predictors: list[Predictor] = [load_predictor(path, passes) for path in models]
    if baseline is not None:
        predictors += count_frequencies(read_records(baseline, reject=reject), predictors, baseline)
    return predictors


def _report(scores: Iterable[Any], tallies: Sequence[Any], details: str | None,
            output: str) -> list[dict[str, Any]]:
    """Write details as scores come and a line per predictor; return the checkpoints' lines."""
    with _details(details) as write:
        for score in tracked(scores, "scoring"):
            tally = tallies[score.predictor]
            tally.add(score)
            write({"model": tally.predictor.name, **score.line()})
        lines = [tally.line() for tally in tallies]
    write_records(lines, output)
    return [line for line, tally in zip(lines, tallies, strict=True)
            if "baseline" not in tally.predictor.kind]


@contextmanager
def _details(name: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    if name is None:
        yield lambda line: None
        return
    with open_output(name) as stream:

        def write(line: dict[str, Any]) -> None:
            stream.write(encode_line(line))

        yield write


def fail_where(worse: Callable[[float], bool], lines: Iterable[dict[str, Any]], metric: str,
               expected: str) -> None:
    """Fail where a checkpoint's score is worse than what was asked for.

    Raises:
        BmtoolsError: names the checkpoints and their scores.
    """
    failed = [f"{line[metric]} of {line['model']}" for line in lines if worse(line[metric])]
    if failed:
        raise BmtoolsError(f"{metric}: found {', '.join(failed)}, expected {expected}")
